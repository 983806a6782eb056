"""Text to token ids without Spark, and feeds of a network with several inputs."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from texts import tiny_bert

pytest.importorskip("torch")
pytest.importorskip("tokenizers", reason='pip install "cerebro-spark[text]"')

from udfs.inference import Read, TextError, TextFeed, Tokenization, open_tokenizer
from udfs.inference import _text as text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tokenization() -> Tokenization:
    return Tokenization(6, str(tiny_bert() / "tokenizer.json"))


def test_ids_and_mask_are_dense(tokenization: Tokenization) -> None:
    batch = pa.record_batch({"t": pa.array(["the cat", None, "", "the dog ran after the small cat"])})
    read = TextFeed("t", "ids", "mask", tokenization).take(batch)
    assert read.reasons == [None, "null", None, None]
    assert read.arrays["ids"].shape == read.arrays["mask"].shape == (3, 6)
    assert read.arrays["ids"].dtype == read.arrays["mask"].dtype == np.int64
    assert read.arrays["mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [1] * 6]
    # What ends a text ends a cut one too.
    assert read.arrays["ids"][:, 0].tolist() == [2, 2, 2]
    assert [row[last] for row, last in zip(read.arrays["ids"], (3, 1, 5), strict=True)] == [3, 3, 3]


def test_a_tokenizer_is_opened_once(tokenization: Tokenization, monkeypatch: pytest.MonkeyPatch) -> None:
    text._tokenizer.cache_clear()
    feed = pickle.loads(pickle.dumps(TextFeed("t", "ids", "mask", tokenization)))
    batch = pa.record_batch({"t": ["a"]})
    feed.take(batch)
    monkeypatch.setattr(text, "local_file", lambda _: pytest.fail("opened again"))
    feed.take(batch)


def test_a_pad_token_of_another_name(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    vocabulary = {"<s>": 0, "<pad>": 1, "a": 2}
    Tokenizer(models.WordLevel(vocabulary, unk_token="a")).save(str(tmp_path / "t.json"))
    tokenizer = open_tokenizer(Tokenization(3, str(tmp_path / "t.json")))
    assert tokenizer.encode("a").ids == [2, 1, 1]


def test_errors_travel() -> None:
    error = pickle.loads(pickle.dumps(TextError("null", "row 3")))
    assert str(error) == "null: row 3"
    assert (error.reason, error.detail) == ("null", "row 3")


def test_what_all_feeds_found_good() -> None:
    items = np.arange(6)
    read = Read({"x": items}, [None, "bad", None, None], np.array([1, 3, 2]))
    left = read.of(np.array([True, False, False, True]))
    assert left.arrays["x"].tolist() == [0, 4, 5]
    assert left.counts is not None
    assert left.counts.tolist() == [1, 2]
