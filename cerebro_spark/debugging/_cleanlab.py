"""Checks of cleanlab's Datalab for given neighbours; the Datalab class itself needs the package datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.errors import MissingPackageError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["check_installed", "near_duplicate_issues", "outlier_issues"]


def check_installed(function: str) -> None:
    """Raise MissingPackageError unless cleanlab is installed."""
    try:
        import cleanlab  # noqa: F401 - an optional package
    except ImportError as error:
        raise MissingPackageError(f"{function} needs cleanlab: pip install 'cerebro-spark[debugging]'") from error


def near_duplicate_issues(
    distances: NDArray[np.float64], places: NDArray[np.int64], metric: str, threshold: float
) -> tuple[pd.DataFrame, list[NDArray[np.int64]]]:
    """Return cleanlab's issues of all rows, and for each row the places of its near duplicates."""
    from cleanlab.datalab.internal.issue_manager.duplicate import NearDuplicateIssueManager

    manager = NearDuplicateIssueManager(_Lab(), metric=metric, threshold=threshold, k=distances.shape[1])
    manager.find_issues(knn_graph=_graph(distances, places))
    return manager.issues, manager.near_duplicate_sets


def outlier_issues(
    distances: NDArray[np.float64], places: NDArray[np.int64], metric: str, threshold: float | None
) -> pd.DataFrame:
    """Return cleanlab's issues of all rows."""
    from cleanlab.datalab.internal.issue_manager.outlier import OutlierIssueManager

    manager = OutlierIssueManager(_Lab(), k=distances.shape[1], metric=metric, threshold=threshold)
    manager.find_issues(knn_graph=_graph(distances, places))
    issues: pd.DataFrame = manager.issues
    return issues


class _Lab:
    """The part of a Datalab that its issue managers read, without statistics of earlier checks."""

    def get_info(self, _name: str) -> dict[str, Any]:
        return {}


def _graph(distances: NDArray[np.float64], places: NDArray[np.int64]) -> Any:
    from scipy.sparse import csr_matrix

    rows, k = distances.shape
    return csr_matrix((distances.ravel(), places.ravel(), np.arange(0, rows * k + 1, k)), (rows, rows))
