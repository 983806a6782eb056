"""A tuned model in MLflow's Python-function flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune._model import TunedModel
from udfs.driver import Pyfunc, pyfunc_signature, write_network_folder

__all__ = ["pyfunc_of"]

if TYPE_CHECKING:
    from udfs.shards import TensorColumn

_EXTRAS = {"torch": "torch", "keras": "tensorflow"}


def pyfunc_of(model: Any) -> Pyfunc:
    """Describe what MLflow stores of a tuned model, or of the best model of a selection.

    Raise InvalidArgumentError if it has a class for each token of a row.
    """
    tuned = getattr(model, "best_model", model)
    if not isinstance(tuned, TunedModel):
        raise InvalidArgumentError(
            f"{type(model).__name__} is no tuned model: log a TunedModel or a Selection, and featurizers by "
            "vista_spark.mlflow"
        )
    sql_model = tuned.sql_model()
    inputs = [(column.name, _kind(column)) for column in sql_model.columns]
    vectors = [tuned.getProbabilityCol() if sql_model.task.has_probabilities else "", tuned.getRawPredictionCol()]
    outputs = [(tuned.getPredictionCol(), "double"), *((name, "double[]") for name in vectors if name)]
    signature = pyfunc_signature(inputs, [*outputs, ("error", "string")])
    extra = _EXTRAS.get(tuned.network.framework, "torch")
    shapes = {column.name: column.shape for column in sql_model.columns if column.shape}
    return Pyfunc("cerebro_spark.mlflow", lambda folder: write_network_folder(tuned, folder), signature, extra, shapes)


def _kind(column: TensorColumn) -> str:
    if column.dtype == "uint8":
        return "binary"
    return ("double" if column.dtype == "float32" else "long") + "[]" * len(column.shape)
