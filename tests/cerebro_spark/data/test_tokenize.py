"""Tagged words become the tokens of an encoder: the first piece of a word has its class, and nothing else has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers", reason='pip install "cerebro-spark[text]"')
from pyspark.errors import PySparkException
from real_inputs import minilm, tagged_tweets

from cerebro_spark.data import bio_classes, tokenize
from cerebro_spark.errors import ColumnError, InvalidArgumentError
from udfs.inference import Tokenization, open_tokenizer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id int, words array<string>, tags array<string>"


def frame(spark: SparkSession, rows: list[tuple[list[str] | None, list[str] | None]]) -> DataFrame:
    return spark.createDataFrame([(place, *row) for place, row in enumerate(rows)], SCHEMA)


def test_tweets(spark: SparkSession) -> None:
    tweets = tagged_tweets()
    assert len(tweets) == 2394
    classes = bio_classes(tag[2:] for _, tags in tweets for tag in tags if tag != "O")
    assert len(classes) == 21
    picked = tweets[:200]
    df = frame(spark, [(words, tags) for words, tags in picked])
    tokens = tokenize(df, minilm(), tags_column="tags", classes=classes, max_length=48)
    assert tokens.columns == ["id", "words", "input_ids", "attention_mask", "tags"]
    tokenizer = open_tokenizer(Tokenization(48, str(minilm() / "tokenizer.json")))
    pieces = 0
    for row in tokens.collect():
        words, tags = picked[row.id]
        assert len(row.input_ids) == len(row.attention_mask) == len(row.tags) == 48
        # Word by word, without the tokens that begin and end a text.
        expected: list[int] = []
        for word, tag in zip(words, tags, strict=True):
            own = tokenizer.encode([word], is_pretokenized=True, add_special_tokens=False).word_ids
            length = sum(number is not None for number in own)
            expected += [classes.index(tag), *[-100] * (length - 1)][:length]
            pieces += length - 1
        expected = [-100, *expected[:46], -100]
        assert row.tags == expected + [-100] * (48 - len(expected))
        assert sum(row.attention_mask) == len(expected)
    assert pieces > 500


def test_texts_without_tags(spark: SparkSession) -> None:
    df = spark.createDataFrame([(0, "The cat sat."), (1, "")], "id int, text string")
    first, second = tokenize(df, minilm() / "tokenizer.json", text_column="text", max_length=8).orderBy("id").collect()
    assert first.input_ids == [101, 1996, 4937, 2938, 1012, 102, 0, 0]
    assert (first.attention_mask, second.attention_mask) == ([1] * 6 + [0] * 2, [1, 1] + [0] * 6)


def test_bad_rows(spark: SparkSession) -> None:
    rows = [(["a", "b"], ["O", "O"]), (["a"], ["O", "O"]), (["a"], ["B-cat"]), (None, ["O"]), ([None], ["O"])]
    df = frame(spark, rows)  # type: ignore[arg-type]
    settings = {"tags_column": "tags", "classes": ["O"], "max_length": 8}
    kept = tokenize(df, minilm(), errors="null", **settings).orderBy("id").collect()  # type: ignore[arg-type]
    assert [row.tags is None for row in kept] == [False, True, True, True, True]
    assert [row.id for row in tokenize(df, minilm(), errors="drop", **settings).collect()] == [0]  # type: ignore[arg-type]
    with pytest.raises(PySparkException, match="words and tags differ in number: 1 and 2"):
        tokenize(df.where("id = 1"), minilm(), **settings).collect()  # type: ignore[arg-type]
    with pytest.raises(PySparkException, match="unknown tag: B-cat"):
        tokenize(df.where("id = 2"), minilm(), **settings).collect()  # type: ignore[arg-type]


def test_bad_arguments(spark: SparkSession) -> None:
    df = frame(spark, [(["a"], ["O"])])
    with pytest.raises(ColumnError, match=r"tags_column must be one of .*got 'tag'; did you mean 'tags'"):
        tokenize(df, minilm(), tags_column="tag", classes=["O"])
    with pytest.raises(ColumnError, match="text_column must contain strings, or arrays of words, got 'id' of type int"):
        tokenize(df, minilm(), text_column="id")
    with pytest.raises(InvalidArgumentError, match="classes must have each tag once"):
        tokenize(df, minilm(), tags_column="tags")
    with pytest.raises(InvalidArgumentError, match="max_length must be"):
        tokenize(df, minilm(), max_length=0)
    with pytest.raises(ColumnError, match="column 'input_ids' exists already"):
        tokenize(df.withColumnRenamed("id", "input_ids"), minilm())
