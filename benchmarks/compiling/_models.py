"""Models that are timed, and rows drawn for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["CASES", "Case", "drawn"]

_FEATURES, _INFORMATIVE = 30, 20


class Case(NamedTuple):
    """A model and the target of its speed-up at 10,000 rows.

    Parameters
    ----------
    name : str
    model : callable
        From the number of threads to a model that is not fitted.
    library, runtime : float
        Speed-ups to reach: over the library, over ONNX Runtime.
    """

    name: str
    model: Callable[[int], Any]
    library: float
    runtime: float


CASES = (
    Case("forest-100x8", lambda threads: RandomForestClassifier(100, max_depth=8, n_jobs=threads), 2.0, 1.6),
    Case("lightgbm-500x31", lambda threads: LGBMClassifier(n_estimators=500, n_jobs=threads, verbose=-1), 3.0, 1.4),
    Case("xgboost-500x8", lambda threads: XGBClassifier(n_estimators=500, max_depth=8, n_jobs=threads), 0.7, 1.6),
    Case("forest-300x20", lambda threads: RandomForestClassifier(300, max_depth=20, n_jobs=threads), 0.8, 1.4),
)
"""The table "To reach" of the design."""


def drawn(rows: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Draw rows of two classes, as float32: what all sides take without a rounding of their own."""
    table, labels = make_classification(rows, _FEATURES, n_informative=_INFORMATIVE, random_state=seed)
    return table.astype(np.float32), labels
