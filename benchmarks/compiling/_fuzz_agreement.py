"""Whether a compiled pipeline gives what the library gives, row by row: what is equal, near, refused or wrong.

What is fair:

* Where nothing in a program rounds but the sums that it adds in the library's order (trees, scalers, codes), classes,
  leaves and texts are equal and values within the library's tolerance, at every float.
* A product of matrices has other last bits for another number of rows, in the library itself. A tree behind it, or a
  class at its boundary, then has no answer that is the library's own for a number within a few ulp of where it
  changes. There an answer passes if the library gives it, too, for numbers that are a few ulp off: a toss-up. They are
  counted. A class from two scores that tie by structure (zeros, equal votes) stays equal under such a shift, or it does
  not depend on it, and so must be equal.
* A value near zero that large ones cancelled to has their rounding error. The same shift says how large that is: the
  library's own answer moves by as much; so does the library's answer for the row alone, and a program whose operators
  round otherwise within their proven bounds (``_fuzz_rounding.py``). No tolerance for all has to be guessed.
* Where squares or sums of great numbers overflow in the library (it takes distances as differences of squares), it
  gives NaN or an infinity, or raises further on. There is no answer to hold ours to, which may be the right number:
  counted as an overflow. Where the library has a number, ours has to be that, unless sums of the row's own numbers
  leave the range in one order of adding and not in another: the order of BLAS differs between two machines. Such a row
  has numbers within a thousandth of the greatest float, and no answer that is the library's own, class or number.
* What rounding left over of great numbers may overflow further on, in a power, or be too small for a logarithm, or not:
  whether such a row is refused is a toss-up, if the same shift, or the same errors, change it.
* A library may fail on a row of float32 by its own rounding, and take the same numbers as float64 (scikit-learn's
  sparse splines round their first knot to the row's type, and then call it out of bounds). Ours has to give the answer
  that it gives there.
* A row that ours alone refuses is wrong, but for the few reasons that ``docs/compiling.md`` names: the library's answer
  depends on what no row says, as on the order of equally near ones. They are counted.
* A table of booleans that goes through a selector may come as zeros and ones.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from benchmarks.compiling._fuzz_tables import height, take
from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["HARMLESS", "Answers", "CrashError", "Difference", "ask", "differences", "is_float32", "pieces"]

HARMLESS = frozenset({"library fails on the table", "overflow", "refused as documented", "toss-up"})
# Reasons of rows that ours alone refuses, as docs/compiling.md has them.
_DOCUMENTED = (
    *("how the library searches", "numpy's partition puts first", "depends on the other rows"),
    *("which ONNX's TopK does not take", "NaN or an infinity, which RadiusNeighborsClassifier does not take"),
    "a category that XGBoost does not know",
)
_FLOAT64, _FLOAT32 = 1e-6, 1e-5
_SHIFTS, _SAMPLES = 24, 240
_ULPS = 4.0
_SLACK = 4.0
# Of pandas, and of XGBoost's way to a DataFrame: columns of which no row has a category.
_NO_CATEGORY = "cannot call `vectorize` on size 0 inputs"
_NO_NUMBER = re.compile("NaN|infinity")
_GREAT, _END = 1e6, 1e3


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """What a method gave for each row.

    Parameters
    ----------
    pieces : list of arrays, or None
        One, or one per output; rows that were refused hold nothing of meaning. ``None`` if every row was refused.
    reasons : list of str
        Of each row why it was refused; empty where it was not.
    """

    pieces: list[NDArray[Any]] | None
    reasons: list[str]

    @property
    def refused(self) -> NDArray[np.bool_]:
        """Which rows were refused."""
        return np.array([bool(reason) for reason in self.reasons], np.bool_)

    @property
    def why(self) -> str:
        """The first refusal."""
        return next(filter(None, self.reasons), "")


@dataclass(frozen=True, slots=True)
class Difference:
    """A row whose answers differ.

    Parameters
    ----------
    kind : str
        ``"value"``, ``"shape"``, ``"not refused"``; those of :data:`HARMLESS` are counted, and not wrong.
    row : int
    text : str
    """

    kind: str
    row: int
    text: str


class CrashError(Exception):
    """An error of ours that is none of those that are documented."""


def pieces(answer: Any) -> list[NDArray[Any]]:
    """Give an answer as a list of arrays of shape (rows, ...)."""
    if isinstance(answer, list) and (not answer or hasattr(answer[0], "ndim")):
        return [np.asarray(one) for one in answer]
    return [np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)]


def ask(method: Callable[[Any], Any], rows: Any, *, ours: bool) -> Answers:
    """Ask for all rows; where that is refused, halve them until it is known which row is to blame.

    Raises
    ------
    CrashError
        Ours failed with an error that is not a refusal.
    """
    number = height(rows)
    found: list[tuple[NDArray[np.int64], list[NDArray[Any]]]] = []
    reasons = [""] * number
    waiting = [np.arange(number)]
    while waiting:
        places = waiting.pop()
        try:
            with np.errstate(all="ignore"):
                found.append((places, pieces(method(take(rows, places)))))
        except Exception as error:
            if ours and not isinstance(error, (ValueError, CerebroError)):
                raise CrashError(f"{type(error).__name__}: {error}") from error
            if len(places) <= 1:
                reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
                for place in places:
                    reasons[place] = reason
            else:
                half = len(places) // 2
                waiting += [places[half:], places[:half]]
    if not found:
        return Answers(None, reasons)
    full = []
    for piece in range(len(found[0][1])):
        parts = [answer[piece] for _, answer in found]
        kind = np.result_type(*parts) if all(part.dtype.kind != "O" for part in parts) else np.dtype(object)
        table = np.zeros((number, *parts[0].shape[1:]), kind)
        for (places, _), part in zip(found, parts, strict=True):
            table[places] = part
        full.append(table)
    return Answers(full, reasons)


def differences(
    method: str,
    rows: Any,
    library: Callable[[Any], Any],
    compiled: Callable[[Any], Any],
    *,
    narrow: bool,
    rounds: bool,
    otherwise: Callable[[], Callable[[Any], Any]],
) -> list[Difference]:
    """Compare a method for all rows of a table.

    Parameters
    ----------
    method : str
    rows : array, DataFrame or array of texts
    library, compiled : callable
    narrow : bool
        Whether the library computes in float32: its own type, or the table's.
    rounds : bool
        Whether a program has operators whose last bits are nobody's.
    otherwise : callable
        Gives the method of the program that rounds otherwise.
    """
    truth, own = ask(library, rows, ours=False), ask(compiled, rows, ours=True)
    theirs, mine = truth.refused, own.refused
    if theirs.all() and len(theirs) > 1 and not mine.all():
        # No row is to blame: a library may fail on a table of float32 where it was fitted on float64.
        return [Difference("library fails on the table", 0, f"{method}: {truth.why}")]
    other = functools.cache(otherwise)
    found = []
    for row in np.flatnonzero(theirs != mine):
        single = take(rows, [int(row)])
        if theirs[row]:
            what = f"the library says {truth.reasons[row]}"
            kind = _taken(library, single, [one[row] for one in own.pieces or ()], rounds=rounds)
            kind = "library fails on the table" if _NO_CATEGORY in what else kind
        else:
            what = own.reasons[row]
            kind = _refusal(what, single, narrow=narrow, rounds=rounds)
        if kind not in HARMLESS and rounds:
            kind = "toss-up" if _is_refused_by_chance(library, other(), single, theirs=bool(theirs[row])) else kind
        found.append(Difference(kind, int(row), f"{method}: {what}"))
    if truth.pieces is None or own.pieces is None:
        return found
    both = np.flatnonzero(~theirs & ~mine)
    if not len(both):
        return found
    shapes = [[(one.shape[1:], one.dtype.kind) for one in answer.pieces or ()] for answer in (own, truth)]
    if not _same_shapes(*shapes):
        return [*found, Difference("shape", int(both[0]), f"{method}: shape and type {shapes[0]}, not {shapes[1]}")]
    for place, (given, ours) in enumerate(zip(truth.pieces, own.pieces, strict=True)):
        tolerance = _FLOAT32 if narrow or given.dtype == np.float32 else _FLOAT64
        off = ~_near(ours[both], given[both].reshape(ours[both].shape), tolerance, rounds=rounds)
        for row in both[off]:
            what = f"{method}{f'[{place}]' if place else ''}: {_text(ours[row])}, not {_text(given[row])}"
            single = take(rows, [int(row)])
            # A text of a table of objects is no array.
            one, true = np.asarray(ours[row]), np.asarray(given[row]).reshape(np.shape(ours[row]))
            excused = rounds and _moves(library, single, one, true, place, tolerance)
            excused = excused or (rounds and _reached(other(), single, one, true, place))
            spilt = rounds and _overflows(one, true, single, narrow=narrow)
            kind = "toss-up" if excused else "overflow" if spilt else "value"
            found.append(Difference(kind, int(row), what))
    return found


def _taken(library: Callable[[Any], Any], row: Any, ours: list[NDArray[Any]], *, rounds: bool) -> str:
    """Kind of a row that the library alone refuses."""
    narrow = is_float32(row)
    if rounds and _is_great(row, narrow=narrow):
        return "overflow"
    return "library fails on the table" if narrow and _is_taken_as_float64(library, row, ours) else "not refused"


def _refusal(reason: str, row: Any, *, narrow: bool, rounds: bool) -> str:
    """Kind of a row that ours alone refuses."""
    if rounds and _NO_NUMBER.search(reason) and _is_at_the_end(row, narrow=narrow):
        return "overflow"
    return "refused as documented" if any(known in reason for known in _DOCUMENTED) else "refused by ours alone"


def _is_refused_by_chance(
    library: Callable[[Any], Any], other: Callable[[Any], Any], row: Any, *, theirs: bool
) -> bool:
    """Whether rounding decides if a row is refused: the library's a few ulp off, or ours where it rounds otherwise."""
    shifted = _shifted(row)
    if shifted is not None and (ask(library, shifted, ours=False).refused != theirs).any():
        return True
    return bool((ask(other, take(row, np.zeros(_SAMPLES, np.int64)), ours=False).refused == theirs).any())


def _same_shapes(ours: list[tuple[Any, str]], truth: list[tuple[Any, str]]) -> bool:
    """Same shapes, and numbers for numbers: texts may be of fixed width or objects."""
    alike = {"U": "O", "u": "i", "b": "f"}
    # CatBoost gives classes as a table of one column.
    flat = [
        (() if shape == (1,) and own == () else shape, kind)
        for (shape, kind), (own, _) in zip(truth, ours, strict=False)
    ]
    return len(ours) == len(truth) and [(one, alike.get(kind, kind)) for one, kind in ours] == [
        (one, alike.get(kind, kind)) for one, kind in flat
    ]


def _reached(other: Callable[[Any], Any], row: Any, ours: NDArray[Any], truth: NDArray[Any], place: int) -> bool:
    """Whether ours comes to the library's answer, or moves as far, where it rounds otherwise."""
    if ours.dtype.kind != "f":
        # Of many classes that are as near, one may come up seldom.
        return any(_any_is(_sampled(other, row, ours, place), truth) for _ in range(10))
    given = _sampled(other, row, ours, place)
    if not len(given):
        return False
    if _any_is(given, truth):
        return True
    with np.errstate(all="ignore"):
        # Some of them may have no number.
        reach = _SLACK * np.fmax.reduce(np.abs(given - ours), axis=0)
        return bool(np.all((np.abs(ours - truth) <= reach) | _are_equal(ours, truth)))


def _sampled(other: Callable[[Any], Any], row: Any, ours: NDArray[Any], place: int) -> NDArray[Any]:
    """Answers of ours for a row, of shape (answers, *shape of one), where it rounds otherwise and does not refuse."""
    answer = ask(other, take(row, np.zeros(_SAMPLES, np.int64)), ours=False)
    return np.zeros((0, *ours.shape), ours.dtype) if answer.pieces is None else answer.pieces[place][~answer.refused]


def _any_is(given: NDArray[Any], answer: NDArray[Any]) -> bool:
    """Whether any of these is an answer: the shares of a leaf, say, that are as near to no other."""
    return bool(len(given)) and bool(_are_equal(given, answer).reshape(len(given), -1).all(axis=1).any())


def _are_equal(some: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    equal = some == others
    if some.dtype.kind == "f":
        equal |= np.isnan(some) & np.isnan(others)
        with np.errstate(all="ignore"):
            equal |= np.abs(some - others) <= _FLOAT64 * np.abs(others)
    return np.asarray(equal, np.bool_)


def _near(ours: NDArray[Any], truth: NDArray[Any], tolerance: float, *, rounds: bool) -> NDArray[np.bool_]:
    """Which rows agree."""
    if truth.dtype.kind != "f":
        same = ours == truth
    else:
        with np.errstate(all="ignore"):
            finite = np.isfinite(truth)
            # What a few last bits of the column's greatest number are: see the module for what goes beyond.
            kind = np.float32 if tolerance > _FLOAT64 else truth.dtype
            size = _scale(truth, finite)
            if rounds and truth.ndim > 1:
                own = np.where(finite, np.abs(truth), 0).reshape(len(truth), -1).max(axis=1, initial=0.0)
                size = np.maximum(size, own.reshape(-1, *[1] * (truth.ndim - 1)))
            bits = 64 * np.finfo(kind).eps * size
            same = np.abs(ours - truth) <= tolerance * np.abs(truth) + bits
            same = np.where(finite & np.isfinite(ours), same, (ours == truth) | (np.isnan(ours) & np.isnan(truth)))
    return np.asarray(same.reshape(len(truth), -1).all(axis=1), np.bool_)


def _scale(truth: NDArray[Any], finite: NDArray[np.bool_]) -> NDArray[Any]:
    """The ordinary size of each column: rows that are to hurt do not make it greater."""
    sizes = np.where(finite, np.abs(truth), np.nan)
    if not finite.any():
        return np.zeros(truth.shape[1:], truth.dtype)
    counted = np.where(finite.any(axis=0), 1, 0)
    with np.errstate(all="ignore"):
        middle = np.nanmedian(np.where(finite.any(axis=0), sizes, 0), axis=0)
    return np.where(counted, middle, 0)


def _moves(
    library: Callable[[Any], Any], row: Any, ours: NDArray[Any], truth: NDArray[Any], place: int, tolerance: float
) -> bool:
    """Whether the library's own answer moves as far, or changes to ours, alone or when numbers move by a few ulp."""
    answers = [truth.reshape(1, *ours.shape)]
    for rows in (row, _shifted(row)):
        answer = None if rows is None else ask(library, rows, ours=False)
        if answer is not None and answer.pieces is not None:
            own = answer.pieces[place][~answer.refused]
            answers.append(own.reshape(len(own), *ours.shape))
    given = np.concatenate(answers)
    if (changes := _any_is(given, ours)) or given.dtype.kind != "f":
        return changes
    with np.errstate(all="ignore"):
        low, high = np.nanmin(given, axis=0), np.nanmax(given, axis=0)
        reach = _SLACK * (high - low) + tolerance * np.abs(given[0]) + np.finfo(given.dtype).tiny
        inside = (ours >= low - reach) & (ours <= high + reach)
    nowhere = np.isnan(ours) & np.isnan(given).any(axis=0)
    infinite = ((ours == given) & np.isinf(given)).any(axis=0)
    return bool(np.all(inside | nowhere | infinite))


def _overflows(ours: NDArray[Any], truth: NDArray[Any], row: Any, *, narrow: bool) -> bool:
    """Whether sums of a row leave the range in some order, or the library has no number where its squares do."""
    if _is_at_the_end(row, narrow=narrow):
        # What has no number may be a number again further on: the leaf for it, the mark of what is missing.
        return True
    if truth.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        same = np.abs(ours - truth) <= _FLOAT32 * np.abs(truth)
    return bool(np.all(same | (_is_great(row, narrow=narrow) & ~np.isfinite(truth))))


def _is_taken_as_float64(library: Callable[[Any], Any], row: Any, ours: list[NDArray[Any]]) -> bool:
    """Whether the library gives our answer for the same numbers in the wider type."""
    answer = ask(library, row.astype(np.float64), ours=False)
    if answer.pieces is None or len(answer.pieces) != len(ours):
        return False
    given = [one.reshape(1, *own.shape) for one, own in zip(answer.pieces, ours, strict=True)]
    return all(bool(_near(own[None], one, _FLOAT32, rounds=True)[0]) for own, one in zip(ours, given, strict=True))


def is_float32(rows: Any) -> bool:
    """Whether all numbers of a table are float32: scikit-learn computes in it then, of a DataFrame as of an array."""
    return {str(kind) for kind in (rows.dtypes if hasattr(rows, "iloc") else [rows.dtype])} == {"float32"}


def _is_at_the_end(row: Any, *, narrow: bool) -> bool:
    """Whether sums of a row's numbers leave the range of their type in one order, and not in another one."""
    return _greatest(row) > np.finfo(np.float32 if narrow else np.float64).max / _END


def _is_great(row: Any, *, narrow: bool) -> bool:
    """Whether the squares of a row's numbers, or sums of them, leave the range of their type."""
    kind = np.float32 if narrow else np.float64
    return _greatest(row) > np.sqrt(np.finfo(kind).max) / _GREAT


def _greatest(row: Any) -> float:
    """The greatest of a row's numbers that are finite."""
    numbers = row.select_dtypes("number").to_numpy() if hasattr(row, "iloc") else row
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) if numbers.dtype.kind == "f" else 0.0


def _shifted(row: Any) -> Any:
    """Copies of a row whose numbers are a few ulp off, from one seed."""
    random = np.random.default_rng(0)
    if not hasattr(row, "iloc"):
        if row.ndim == 1 or row.dtype.kind != "f":
            return None
        return _shifted_numbers(row, random)
    frame = pd.concat([row] * _SHIFTS, ignore_index=True)
    floats = [name for name in frame if frame[name].dtype.kind == "f"]
    for name in floats:
        frame[name] = _shifted_numbers(row[[name]].to_numpy(), random)[:, 0]
    return frame if floats else None


def _shifted_numbers(row: NDArray[Any], random: np.random.Generator) -> NDArray[Any]:
    size = np.finfo(row.dtype).eps
    many = np.repeat(row, _SHIFTS, axis=0)
    with np.errstate(all="ignore"):
        # Zero has no ulp of use: what it is subtracted from, or added to, has one.
        reach = np.maximum(np.abs(many), np.where(np.abs(many) < 1e-3, 1.0, 0.0)) * size * _ULPS
        moved = many + reach * random.uniform(-1, 1, many.shape)
    moved[0] = row[0]
    return np.where(np.isfinite(moved), moved, many).astype(row.dtype)


def _text(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=17, threshold=6).replace("\n", "")[:160]
