"""Tables that a seed draws, and rows that are to hurt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["NASTY", "Table", "draw_table", "edges", "height", "mutated", "take"]

NASTY = (
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-45, -1e-40, 1.0, -1.0, 0.5, 2.0**24 + 1, -(2.0**24) - 1, 2.0**53),
    *(3.4028235e38, 3.4028236e38, 1e39, -1e39, 1e150, -1e300, 1.7976931348623157e308, np.inf, -np.inf, np.nan),
)
WORDS = (
    "red",
    "green",
    "blue",
    "re",
    "",
    "\u00e9t\u00e9",
    "e\u0301te\u0301",
    "\U0001f642",
    "x" * 40,
    "Red",
    "nan",
    "None",
    " red",
)
UNSEEN = (
    "reds",
    "r",
    "\u00c9T\u00c9",
    "\u00e9te\u0301",
    "\U0001f643",
    "x" * 41,
    "x" * 5000,
    "red ",
    "0",
    "\u0000",
    "\u200b",
    "ﬁ",
    "İ",
)
_LABELS = (
    [0, 1, 2, 3],
    [-1, 1, 7, 12],
    ["no", "yes", "vielleicht", "\u00e9"],
    ["b", "a", "\U0001f642", "long label " * 3],
    [0.0, 1.0, 2.0, 3.0],
    [10, 2, 33, 4],
)


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Rows to fit on, with their targets.

    Parameters
    ----------
    rows : array, DataFrame or array of texts
    target : array
    """

    rows: Any
    target: NDArray[Any]


def draw_table(random: np.random.Generator, kind: str, task: str, *, missing: bool, outputs: int, plain: bool) -> Table:
    """Draw 50 to 300 rows.

    Parameters
    ----------
    random : numpy.random.Generator
    kind : str
        ``"numbers"``; ``"mixed"`` with texts, which are ``"categoricals"`` of pandas or ``"categoricals in ASCII"``; or
        ``"documents"``.
    task : str
        ``"classify"`` or ``"regress"``.
    missing : bool
        Whether some numbers are missing.
    outputs : int
        1, or columns of the target.
    plain : bool
        No number is negative: some models take no others.
    """
    rows = int(random.integers(50, 301))
    width = int(random.integers(3, 7))
    numbers = np.stack([_column(random, rows, plain=plain) for _ in range(width)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        centred = (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-300)
    scores = (
        centred @ random.normal(size=(width, outputs)) + np.abs(centred[:, :1]) + 0.5 * random.normal(size=(rows, 1))
    )
    target = _target(random, task, scores)
    if kind == "documents":
        return Table(_documents(random, rows), target)
    if missing:
        numbers[random.random(numbers.shape) < 0.1] = np.nan
    if kind not in {"numbers", "documents"}:
        frame = pd.DataFrame({name: numbers[:, place] for place, name in enumerate(("x", "y"))})
        known = random.choice(np.array(WORDS, object), int(random.integers(2, len(WORDS))), replace=False)
        frame["word"] = pd.Series(random.choice(known, rows), dtype=object)
        frame["größe"] = pd.Series(random.choice(np.array(["S", "M", "L"], object), rows), dtype=object)
        frame["count"] = random.integers(0, 5, rows)
        if kind.startswith("categoricals"):
            for name in ("word", "größe"):
                texts = frame[name].where(random.random(rows) > 0.1, None) if missing else frame[name]
                texts = texts.map(ascii, na_action="ignore") if kind.endswith("ASCII") else texts
                frame[name] = texts.astype("category")
        return Table(frame, target)
    numbers = numbers.astype(np.float32) if random.random() < 0.15 else numbers
    if random.random() < 0.15:
        return Table(pd.DataFrame(numbers, columns=[f"col {place} \u00e9" for place in range(width)]), target)
    return Table(numbers, target)


def _column(random: np.random.Generator, rows: int, *, plain: bool) -> NDArray[np.float64]:
    """Numbers of one kind: with ties, zeros, great and small ones."""
    draws = (
        lambda: random.normal(size=rows),
        lambda: random.normal(size=rows) * 10.0 ** random.integers(-4, 6) + random.normal(),
        lambda: random.integers(0, 5, rows).astype(np.float64),
        lambda: np.round(random.normal(size=rows) * 2) / 2,
        lambda: np.where(random.random(rows) < 0.7, 0.0, random.normal(size=rows)),
        lambda: random.random(rows),
        lambda: np.exp(random.normal(size=rows) * 2),
        lambda: (random.random(rows) < 0.3).astype(np.float64),
    )
    values = np.asarray(draws[int(random.integers(len(draws)))](), np.float64)
    return np.abs(values) if plain else values


def _target(random: np.random.Generator, task: str, scores: NDArray[np.float64]) -> NDArray[Any]:
    if task == "regress":
        # Some losses take positive numbers alone.
        values = np.exp(np.clip(scores, -5, 5)) if random.random() < 0.3 else scores * 10.0 ** random.integers(-2, 4)
        return values[:, 0] if values.shape[1] == 1 else values
    several = scores.shape[1] > 1
    classes = 2 if several else int(random.integers(2, 5))
    labels = np.array(_LABELS[0] if several else _LABELS[int(random.integers(len(_LABELS)))])[:classes]
    cuts = np.quantile(scores, np.linspace(0, 1, classes + 1)[1:-1], axis=0)
    places = (scores[:, None, :] > cuts[None]).sum(axis=1)
    return labels[places[:, 0]] if not several else labels[places]


def _documents(random: np.random.Generator, rows: int) -> NDArray[Any]:
    words = np.array([*WORDS, "quick", "fox", "the", "a", "and", "don't", "42", "foo_bar", "naïve", "数据"], object)
    texts = [" ".join(random.choice(words, int(random.integers(1, 9)))) for _ in range(rows)]
    found = np.empty(rows, object)
    found[:] = texts
    return found


def take(rows: Any, places: Any) -> Any:
    """Choose rows by their places, with the categories that they have."""
    if not hasattr(rows, "iloc"):
        return rows[places]
    found = rows.iloc[places]
    coded = [name for name in found if isinstance(found[name].dtype, pd.CategoricalDtype)]
    # XGBoost refuses a table with a category that it does not know, if no row has it, too.
    return found.assign(**{name: found[name].cat.remove_unused_categories() for name in coded})


def height(rows: Any) -> int:
    """Count rows."""
    return len(rows)


def mutated(random: np.random.Generator, rows: Any, number: int) -> Any:
    """Put what is to hurt into rows of a table: one number each, or all of them; unseen texts."""
    own = take(rows, random.integers(height(rows), size=number))
    if not hasattr(own, "iloc") and own.ndim == 1:
        return _hurt_documents(random, own)
    columns = _numeric(own)
    frame = own.copy()
    for row in range(number):
        value = NASTY[row % len(NASTY)]
        chosen = columns if random.random() < 0.15 else [columns[int(random.integers(len(columns)))]]
        for column in chosen:
            frame = _put(frame, row, column, value)
    for column in () if not hasattr(own, "iloc") else [name for name in own if own[name].dtype.kind == "O"]:
        unseen = random.random(number) < 0.4
        drawn = random.choice(np.array([*UNSEEN, *WORDS, None, np.nan], object), number)
        kind = object if own[column].dtype == object else "category"
        if kind == "category":
            # XGBoost overlooks that it does not know a text that is empty or not ASCII.
            drawn = np.array([ascii(one) if isinstance(one, str) else one for one in drawn], object)
        frame[column] = pd.Series(np.where(unseen, drawn, own[column].to_numpy(object)), dtype=kind, index=frame.index)
    return frame


def _hurt_documents(random: np.random.Generator, texts: NDArray[Any]) -> NDArray[Any]:
    found = texts.copy()
    for place in range(len(found)):
        more = " ".join(random.choice(np.array([*UNSEEN, *WORDS], object), int(random.integers(0, 5))))
        found[place] = more if random.random() < 0.3 else f"{found[place]}\n{more}"
    return found


def _numeric(rows: Any) -> list[Any]:
    if not hasattr(rows, "iloc"):
        return list(range(rows.shape[1]))
    return [place for place, kind in enumerate(rows.dtypes) if kind.kind == "f"]


def _put(rows: Any, row: int, column: int, value: float) -> Any:
    with np.errstate(over="ignore"):
        if hasattr(rows, "iloc"):
            rows.iloc[row, column] = value
        else:
            rows[row, column] = value
    return rows


def edges(random: np.random.Generator, rows: Any, predict: Callable[[Any], NDArray[Any]], number: int = 12) -> Any:
    """Find the numbers where a prediction changes, by halving between two rows: they, and the next ones.

    So thresholds are found behind any featurizer too.

    Parameters
    ----------
    random : numpy.random.Generator
    rows : array of shape (rows, columns), or DataFrame
    predict : callable
        The library's.
    number : int
        How many are looked for.

    Returns
    -------
    array or DataFrame
        Four rows for each.
    """
    columns = _numeric(rows)
    base = take(rows, random.integers(height(rows), size=number)).copy()
    places = [columns[int(random.integers(len(columns)))] for _ in range(number)]
    other = take(rows, random.integers(height(rows), size=number))
    low = np.array([_get(base, row, column) for row, column in enumerate(places)], np.float64)
    high = np.array([_get(other, row, column) for row, column in enumerate(places)], np.float64)

    def at(values: NDArray[np.float64]) -> Any:
        moved = base.copy()
        for row, column in enumerate(places):
            moved = _put(moved, row, column, values[row])
        return moved

    first = predict(at(low)).reshape(number, -1)
    for _ in range(64):
        middle = low / 2 + high / 2
        same = (predict(at(middle)).reshape(number, -1) == first).all(axis=1)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        if np.all(np.abs(high - low) <= np.spacing(np.abs(low))):
            break
    found = [np.nextafter(low, -np.inf), low, high, np.nextafter(high, np.inf)]
    tables = [at(values) for values in found]
    return pd.concat(tables, ignore_index=True) if hasattr(rows, "iloc") else np.concatenate(tables)


def _get(rows: Any, row: int, column: int) -> float:
    return float(rows.iloc[row, column] if hasattr(rows, "iloc") else rows[row, column])
