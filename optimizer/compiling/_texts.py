"""Operators on texts: counts of their terms, as sparse rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling._categories import Entry

__all__ = ["Bag", "Damped", "HasText", "SparseRows"]


class SparseRows:
    """Sparse table in rows.

    Parameters
    ----------
    starts : int64 array of shape (rows + 1,)
        First number of each row, and the end of the last one.
    columns : int64 array of shape (numbers,)
        Column of each number, ascending in each row.
    values : array of shape (numbers,)
        Numbers.
    width : int
        Columns of the table.

    Examples
    --------
    >>> import numpy as np
    >>> rows = SparseRows(np.array([0, 1, 1, 3]), np.array([2, 0, 1]), np.array([5.0, 6.0, 7.0]), 3)
    >>> rows[1:].columns.tolist(), len(rows)
    ([0, 1], 3)
    """

    def __init__(self, starts: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[Any], width: int) -> None:
        self.starts, self.columns, self.values, self.width = starts, columns, values, width

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    def __getitem__(self, rows: slice) -> SparseRows:
        """Return some adjacent rows."""
        first, last, _ = rows.indices(len(self))
        starts = self.starts[first : max(last, first) + 1]
        numbers = slice(int(starts[0]), int(starts[-1]))
        return SparseRows(starts - starts[0], self.columns[numbers], self.values[numbers], self.width)

    def take(self, rows: NDArray[np.int64]) -> SparseRows:
        """Return some rows, in any order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        numbers = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return SparseRows(starts, self.columns[numbers], self.values[numbers], self.width)


@dataclass(frozen=True, eq=False, slots=True)
class Bag(Operator):
    """Bag of words: counts of terms in a text, optionally weighted and normalised.

    The host computes it and returns :class:`SparseRows`. A text is lowercased, stripped of accents, and split into
    tokens and n-grams, which are counted. Entries of a list are counted; numbers of a dictionary are added. A row
    without a text or a list has NaN in its first column. By default, terms are counted as they are.

    Parameters
    ----------
    columns : int64 array of shape (1,)
        Column of the program's input.
    lowercase : bool
        Whether texts are lowercased.
    accents : {"", "ascii", "unicode"}
        Removal of accents.
    pattern : str
        Regular expression of a token, for words.
    analyzer : {"word", "char", "char_wb", "list", "list of Spark", "pairs"}
        Terms of a row: words or characters of a text, entries of a list, or names with numbers or texts. In a
        ``"list of Spark"`` a null is an entry, and hashes have Spark's seed and keep their sign for the remainder.
    least, most : int
        Least and most tokens, or characters, of an n-gram.
    stop_words : sequence of str
        Tokens that are not counted.
    encoding, errors : str
        Encoding of bytes, and the policy for undecodable ones.
    terms : sequence of str, or of numbers
        Term of each column, empty where terms are hashed.
    buckets : int
        Columns for terms hashed by MurmurHash3, or 0.
    signs : bool
        Whether a term has the sign of its hash.
    binary : bool
        Whether a term counts at most once.
    sublinear : bool
        Whether counts become ``log(count) + 1``.
    weights : array of shape (width,), or (0,)
        Factor of each column, if any.
    norm : {"", "l1", "l2", "max"}
        Norm that each row is divided by.
    dtype : {"float32", "float64"}
        Type of the counts.
    separator : str
        Separator between a name and its text, with ``"pairs"``.
    """

    arity: ClassVar[int | None] = 0
    host: ClassVar[bool] = True

    columns: NDArray[np.int64]
    lowercase: bool = False
    accents: str = ""
    pattern: str = ""
    analyzer: str = "word"
    least: int = 1
    most: int = 1
    stop_words: Sequence[str] = ()
    encoding: str = "utf-8"
    errors: str = "strict"
    terms: Sequence[Entry] = ()
    buckets: int = 0
    signs: bool = False
    binary: bool = False
    sublinear: bool = False
    weights: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    norm: str = ""
    dtype: str = "float64"
    separator: str = "="

    def __post_init__(self) -> None:
        check_choice("Bag", "accents", self.accents, ("", "ascii", "unicode"))
        check_choice("Bag", "analyzer", self.analyzer, ("word", "char", "char_wb", "list", "list of Spark", "pairs"))
        check_choice("Bag", "norm", self.norm, ("", "l1", "l2", "max"))
        check_choice("Bag", "dtype", self.dtype, ("float32", "float64"))
        if bool(self.terms) == bool(self.buckets) or len(self.columns) != 1:
            raise ProgramError(
                f"Bag must have either terms or buckets, and one column, got {len(self.terms)} terms, {self.buckets} "
                f"buckets and {len(self.columns)} columns."
            )
        if len(self.weights) not in {0, len(self.terms)}:
            raise ProgramError(f"weights must have 0 or {len(self.terms)} entries, got {len(self.weights)}.")

    @property
    def entries(self) -> type:
        """Type of a row: ``str``, ``list`` or ``dict``."""
        return {"list": list, "list of Spark": list, "pairs": dict}.get(self.analyzer, str)

    def width(self, inputs: Sequence[int]) -> int:  # it reads a column, not tables
        """Return the number of columns of the result."""
        return self.buckets or len(self.terms)

    def explain(self) -> str:
        """Describe the operator in a few words."""
        what = f"{self.buckets:,} buckets" if self.buckets else f"{len(self.terms):,} terms"
        grams = f"{self.analyzer} {self.least} to {self.most}"
        return f"Bag(column {int(self.columns[0])}, {grams}, {what}, norm={self.norm!r})"


@dataclass(frozen=True, eq=False, slots=True)
class HasText(Operator):
    """Row validation: a row without a text for :class:`Bag` is bad. The numbers pass unchanged.

    Parameters
    ----------
    who : str
        Model that the message names.
    what : str
        Description of a bad row. Default ``"no text"``.
    """

    who: str
    what: str = "no text"


@dataclass(frozen=True, eq=False, slots=True)
class Damped(Operator):
    """Counts, weighted: ``log(count) + 1`` of those that are not zero, times a weight; rows over their norm.

    Parameters
    ----------
    sublinear : bool
        Whether counts are damped.
    weights : array of shape (width,), or (0,)
        None, where they do not count.
    norm : {"", "l1", "l2", "max"}
        Norm that each row is divided by.
    """

    sublinear: bool
    weights: NDArray[Any]
    norm: str

    def __post_init__(self) -> None:
        check_choice("Damped", "norm", self.norm, ("", "l1", "l2", "max"))

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.weights)) if len(self.weights) else inputs[0]
