"""K-means clusterings of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain
from vista_spark.compiling.sklearn._kernels import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.KMeans", "sklearn.MiniBatchKMeans")
def lower_k_means(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the nearest centre, and the distances to all of them."""
    return _means(model, build, table, plain(model.cluster_centers_))


def _means(model: Any, build: ops.Builder, table: str, centers: NDArray[Any]) -> dict[str, ops.Output]:
    rows = checked(model, build, table)
    # The library leaves out the row's own square, which all centres share, and doubles products once they are added up.
    product = build.add(ops.Linear(centers.T.copy(), np.zeros(len(centers), centers.dtype)), rows)
    near = build.add(ops.Arithmetic("add", -(centers * centers).sum(axis=1)), scaled(build, product, 2.0))
    place = build.add(ops.ArgMax(), near)
    return {
        "predict": ops.Output(place, flat=True, labels=np.arange(len(centers), dtype=np.int32)),
        "transform": ops.Output(build.add(ops.Distances(centers, "euclidean"), rows)),
    }
