"""A featurizer's model, opened where MLflow serves it: it needs no Spark session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from udfs.arrow import RowMap, RowPolicy
from udfs.sql import as_arrow
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer, inference_of
from vista_spark.network import read_folder

if TYPE_CHECKING:
    import pandas as pd

    from udfs.arrow import ErrorPolicy

__all__ = ["ERROR", "FeatureModel"]

ERROR = "error"
"""Column of the reason for which a row has no features; null for a good row."""

_STAGES = {"CNNFeaturizer": CNNFeaturizer, "TextFeaturizer": TextFeaturizer}


class FeatureModel:
    """What ``mlflow.pyfunc.load_model`` calls.

    Parameters
    ----------
    stage : CNNFeaturizer or TextFeaturizer
    """

    def __init__(self, stage: CNNFeaturizer | TextFeaturizer) -> None:
        self._column = stage.getInputCol()
        net = stage.open_network()
        inference = inference_of(stage, net, reads=[self._column], outputs=stage.getOutputCols())
        errors = cast("ErrorPolicy", stage.getErrors())
        self._rows = RowMap(inference, (), RowPolicy(errors, ERROR, net.reads.error))

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Compute the features of a DataFrame's rows, or of a list of values.

        Raises
        ------
        ColumnError
            The DataFrame has no such column.
        """
        import pandas as pd  # noqa: PLC0415 - an import of this package stays light

        del params
        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame({self._column: list(rows)})
        if self._column not in frame:
            raise ColumnError(f"no column {self._column!r}; columns: {', '.join(map(str, frame.columns))}")
        batch = pa.RecordBatch.from_arrays([as_arrow(frame[self._column])], names=[self._column])
        names = [*self._rows.function.vectors, ERROR]  # type: ignore[attr-defined]
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for done in self._rows([batch]):
            for name in names:
                known = name in done.schema.names
                columns[name] += done.column(name).to_pylist() if known else [None] * done.num_rows
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}, index=None)


def _load_pyfunc(path: str) -> FeatureModel:
    """Open a saved model, for MLflow."""
    folder = Path(path)
    kind = json.loads((folder / "stage.json").read_text())["class"]
    if kind not in _STAGES:
        raise InvalidArgumentError(f"{path} holds a {kind}, which this version does not serve")
    return FeatureModel(read_folder(_STAGES[kind], folder))
