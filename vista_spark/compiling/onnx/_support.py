"""ONNX-ML's support vector machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, Arithmetic, Distances, Function, Linear, Power
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._linear import transformed
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["lower_regressor"]


@operator("ai.onnx.ml.SVMRegressor")
def lower_regressor(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the regressor: a weighted sum of kernels; or the detector of outliers, by the sum's sign."""
    table = graph.cast(graph.table(node, given[0]), "float32")
    weights = np.asarray(attributes["coefficients"], np.float32)
    rho = np.asarray(attributes.get("rho", [0.0]), np.float32)[:1]
    count = int(attributes.get("n_supports", 0))
    if count:
        vectors = np.asarray(attributes["support_vectors"], np.float32).reshape(count, -1)
        table = _kernel(graph, node, table, vectors, attributes)
    elif attributes.get("kernel_type", "LINEAR") != "LINEAR":
        raise refuse(node, f"kernel_type={attributes['kernel_type']} without support vectors")
    score = graph.add(Linear(weights[:, None].copy(), rho.copy()), table, shape=(1,))
    if attributes.get("one_class"):
        above = graph.cast(graph.add(Above(0.0, or_equal=False), score), "float32")
        doubled = graph.add(Arithmetic("multiply", np.full(1, 2, np.float32)), above)
        return graph.add(Arithmetic("subtract", np.ones(1, np.float32)), doubled)
    return transformed(graph, node, score, attributes.get("post_transform", "NONE"))


def _kernel(graph: Graph, node: Any, table: Table, vectors: Any, attributes: dict[str, Any]) -> Table:
    """Give the kernel of each row with each support vector."""
    kind, count = attributes.get("kernel_type", "LINEAR"), len(vectors)
    gamma, shift, degree = (np.float32(one) for one in (attributes.get("kernel_params") or [0.0, 0.0, 0.0]))

    def each(name: str, number: Any, kernel: Table) -> Table:
        return graph.add(Arithmetic(name, np.full(count, number, np.float32)), kernel)

    if kind == "RBF":
        far = graph.add(Distances(vectors, "sqeuclidean"), table, shape=(count,))
        return graph.add(Function("exp"), each("multiply", -gamma, far))
    product = graph.add(Linear(vectors.T.copy(), np.zeros(count, np.float32)), table, shape=(count,))
    if kind == "LINEAR":
        return product
    product = each("add", shift, each("multiply", gamma, product))
    if kind == "SIGMOID":
        return graph.add(Function("tanh"), product)
    if kind == "POLY":
        return graph.add(Power(float(degree)), product)
    raise refuse(node, f"kernel_type={kind}")
