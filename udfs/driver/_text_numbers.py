"""Numbers in text columns: words for a missing value among them, and the value that makes a column text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from udfs.driver._arrow import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import dataset
    from pyspark.sql import Column, DataFrame

__all__ = ["MISSING_WORDS", "TextNumbers", "arrow_text_numbers", "as_numbers", "text_numbers"]

MISSING_WORDS = ("#n/a", "-", "--", "?", "<na>", "missing", "n/a", "na", "nan", "nil", "none", "null", "unknown")
"""Words that stand for a missing value in a column of numbers, in lower case."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^[+-]?\d+$"
# Digits of the largest whole numbers that fit into an int and a bigint; more make a double.
_INT_DIGITS, _LONG_DIGITS = 9, 18
_FRACTION = 99


@dataclass(frozen=True, slots=True)
class TextNumbers:
    """Values of a text column, counted by what they are; nulls and blanks are left out.

    Attributes
    ----------
    name : str
        Column.
    numbers, missing, others : int
        Number of values that are numbers, words for a missing value, and neither.
    word, other : str or None
        The first word for a missing value, and the first value that is neither.
    digits : int
        Largest number of characters of a whole number; 99 if a number has a fraction.
    """

    name: str
    numbers: int
    missing: int
    others: int
    word: str | None
    other: str | None
    digits: int

    @property
    def is_numeric(self) -> bool:
        """True if all values are numbers or missing, and more are numbers than words for a missing value."""
        return not self.others and self.numbers > self.missing

    @property
    def spark_type(self) -> str:
        """Type of Spark that holds the numbers."""
        return "int" if self.digits <= _INT_DIGITS else "bigint" if self.digits <= _LONG_DIGITS else "double"

    @property
    def reason(self) -> str:
        """Reason for which the column is text, with the offending value."""
        if not self.numbers:
            value = self.word if self.other is None else self.other
            return "text" if value is None else f"text, such as {value!r}"
        count, value = (self.others, self.other) if self.others else (self.missing, self.word)
        return f"text because of {value!r} ({count} of {self.numbers + self.missing + self.others} values)"


def text_numbers(df: DataFrame, columns: Sequence[str]) -> list[TextNumbers]:
    """Count the values of text columns in one job of Spark; without columns there is none."""
    if not columns:
        return []
    row = df.agg(*(_counts(name).alias(str(place)) for place, name in enumerate(columns))).first()
    assert row is not None  # an aggregate without groups has one row
    return [TextNumbers(name, **row[str(place)].asDict()) for place, name in enumerate(columns)]


def arrow_text_numbers(data: dataset.Dataset, name: str) -> TextNumbers:
    """Count the values of a text column of files, without Spark."""
    column = data.to_table(columns=[name]).column(name).combine_chunks().cast(pa.string())
    values = pc.utf8_trim_whitespace(column).drop_null()
    values = values.filter(pc.not_equal(values, ""))
    is_number = pc.match_substring_regex(values, _NUMBER)
    is_missing = pc.is_in(pc.utf8_lower(values), value_set=pa.array(MISSING_WORDS))
    numbers, missing = values.filter(is_number), values.filter(is_missing)
    others = values.filter(pc.invert(pc.or_(is_number, is_missing)))
    whole = pc.all(pc.match_substring_regex(numbers, _WHOLE)).as_py()
    digits = (pc.max(pc.utf8_length(numbers)).as_py() or 0) if whole is not False else _FRACTION
    first, other = (part[0].as_py() if len(part) else None for part in (missing, others))
    return TextNumbers(name, len(numbers), len(missing), len(others), first, other, digits)


def as_numbers(df: DataFrame, *, only_with_words: bool = False) -> tuple[DataFrame, list[TextNumbers]]:
    """Cast text columns whose values are numbers and words for a missing value, which become null.

    Parameters
    ----------
    only_with_words : bool
        Whether a column without such a word stays text, for formats that tell texts and numbers apart.

    Returns
    -------
    DataFrame
        The same columns.
    list of TextNumbers
        Columns that were cast because of their words for a missing value.
    """
    texts = [field.name for field in df.schema if isinstance(field.dataType, StringType)]
    cast = [each for each in text_numbers(df, texts) if each.is_numeric and (each.missing or not only_with_words)]
    if not cast:
        return df, []
    changed = {each.name: each.spark_type for each in cast}
    columns = [
        _number(_trimmed(name), changed[name]).alias(name) if name in changed else F.col(quoted(name))
        for name in df.columns
    ]
    return df.select(*columns), [each for each in cast if each.missing]


def _trimmed(name: str) -> Column:
    return F.trim(F.col(quoted(name)))


def _number(value: Column, kind: str) -> Column:
    return F.when(value.rlike(_NUMBER), value.cast(kind))


def _counts(name: str) -> Column:
    value = _trimmed(name)
    is_number, is_missing = value.rlike(_NUMBER), F.lower(value).isin(*MISSING_WORDS)
    is_other = ~is_number & ~is_missing & (value != "")
    digits = F.when(value.rlike(_WHOLE), F.length(value)).otherwise(F.lit(_FRACTION))
    return F.struct(
        F.count_if(is_number).alias("numbers"),
        F.count_if(is_missing).alias("missing"),
        F.count_if(is_other).alias("others"),
        F.first(F.when(is_missing, value), ignorenulls=True).alias("word"),
        F.first(F.when(is_other, value), ignorenulls=True).alias("other"),
        F.coalesce(F.max(F.when(is_number, digits)), F.lit(0)).alias("digits"),
    )
