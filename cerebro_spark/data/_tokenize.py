"""Texts, tagged word by word or not, as columns that a text encoder trains on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, StringType

from cerebro_spark.errors import ColumnError, InvalidArgumentError
from optimizer.arguments import one_of, whole
from optimizer.errors import nearest
from udfs.arrow import ERROR_POLICIES, RowMap, RowPolicy
from udfs.driver import check_absent, map_rows, validate_arguments
from udfs.inference import TOKENIZER, TokenColumns, Tokenization

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from udfs.arrow import ErrorPolicy

__all__ = ["bio_classes", "tokenize"]

_OUTSIDE = "O"


def bio_classes(types: Iterable[str]) -> tuple[str, ...]:
    """List the tags of types of entities in the order in which ``"entity_f1"`` expects their classes.

    Parameters
    ----------
    types : iterable of str
        In any order: they are sorted.

    Examples
    --------
    >>> bio_classes(["place", "person"])
    ('O', 'B-person', 'I-person', 'B-place', 'I-place')
    """
    return (_OUTSIDE, *(f"{prefix}-{kind}" for kind in sorted(set(types)) for prefix in "BI"))


@validate_arguments
def tokenize(
    df: DataFrame,
    tokenizer: str | os.PathLike[str],
    *,
    text_column: str = "words",
    tags_column: str | None = None,
    classes: Sequence[str] = (),
    max_length: int = 128,
    errors: ErrorPolicy = "raise",
) -> DataFrame:
    """Add the columns ``input_ids`` and ``attention_mask`` of a text, and turn tags of words into classes of tokens.

    A tokenizer cuts a word into pieces. The first piece has the word's class; the others, the tokens that begin and end
    a text, and padding have -100, which the metrics and losses of taggers leave out. Longer texts are cut.

    Parameters
    ----------
    df : DataFrame
        Rows with texts.
    tokenizer : str or path
        Path or URI of a ``tokenizer.json`` or its folder, which the workers can read.
    text_column : str
        Column of strings or arrays of words. Default ``"words"``.
    tags_column : str, optional
        Column of arrays with a tag for each word, which the result replaces by arrays of classes. Default none.
    classes : sequence of str
        Tags in the order of their classes, as from :func:`bio_classes`.
    max_length : int
        Number of tokens of every row. Default 128.
    errors : {"raise", "null", "drop"}
        Treatment of rows with nulls, unknown tags, or more or fewer tags than words.

    Returns
    -------
    DataFrame
        With its other columns as they are.

    Raises
    ------
    ColumnError
        A column is missing, of another type, or there already.
    InvalidArgumentError
        There are tags and no classes, or no such policy.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> known = {"[PAD]": 0, "[UNK]": 1, "an": 2, "##na": 3, "sings": 4}
    >>> made = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    >>> made.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> path = Path(tempfile.mkdtemp()) / "tokenizer.json"
    >>> made.save(str(path))
    >>> rows = [(["anna", "sings"], ["B-person", "O"])]
    >>> df = SparkSession.active().createDataFrame(rows, "words array<string>, tags array<string>")
    >>> tokens = tokenize(df, path, tags_column="tags", classes=bio_classes(["person"]), max_length=4)
    >>> row = tokens.first()
    >>> row.input_ids, row.attention_mask, row.tags
    ([2, 3, 4, 0], [1, 1, 1, 0], [1, -100, 0, -100])
    """
    one_of("errors", errors, ERROR_POLICIES)
    whole("max_length", max_length)
    _check_columns(df, text_column, tags_column)
    tags = tuple(classes)
    if tags_column is not None and (not tags or len(set(tags)) < len(tags)):
        raise InvalidArgumentError(
            f"classes must have each tag once, as bio_classes(['person']) returns them, got {classes!r}."
        )
    path = os.fspath(tokenizer)
    path = path if path.endswith(".json") else f"{path.rstrip('/')}/{TOKENIZER}"
    function = TokenColumns(text_column, tags_column, tags, Tokenization(max_length, path))
    kept = tuple(name for name in df.columns if name != tags_column)
    check_absent(df.select(*kept), ["input_ids", "attention_mask"], "rename or drop it")
    return map_rows(df, RowMap(function, kept, RowPolicy(errors)))


def _check_columns(df: DataFrame, text_column: str, tags_column: str | None) -> None:
    required = [("text_column", text_column, "strings, or arrays of words")]
    if tags_column is not None:
        required = [("text_column", text_column, "arrays of words"), ("tags_column", tags_column, "arrays of tags")]
    for argument, name, content in required:
        if name not in df.columns:
            raise ColumnError(
                f"{argument} must be one of {', '.join(df.columns)}, got {name!r}{nearest(name, df.columns)}"
            )
        kind = df.schema[name].dataType
        in_words = isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)
        if not in_words and not (tags_column is None and isinstance(kind, StringType)):
            raise ColumnError(f"{argument} must contain {content}, got {name!r} of type {kind.simpleString()}.")
