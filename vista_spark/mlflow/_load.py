"""Models of MLflow, opened where they are served: they need no Spark session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa

from udfs.arrow import RowMap, RowPolicy
from udfs.sql import as_arrow
from vista_spark.compiling import CompiledPipeline
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.network import read_folder
from vista_spark.occlusion import OcclusionExplainerModel
from vista_spark.transfer import NULL_FEATURE, PredictorInputs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from udfs.arrow import ErrorPolicy

__all__ = ["DETAILS", "DOWNSTREAM", "ERROR", "FEATURES", "INPUTS", "Served", "open_model"]

ERROR = "error"
"""Column of the reason for which a row has no result; empty for a good row, as MLflow makes "None" of a null text."""

DETAILS = ("target", "predicted", "probability", "rows", "columns")
"""What is told of a heat map, each a column."""

DOWNSTREAM, INPUTS, FEATURES = "downstream.safetensors", "inputs.json", "features"
"""Names in the folder of a transfer."""

_FEATURIZERS: Mapping[str, type[Any]] = {"CNNFeaturizer": CNNFeaturizer, "TextFeaturizer": TextFeaturizer}


class Served(Protocol):
    """Load the model for ``mlflow.pyfunc.load_model``."""

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Compute the rows of a DataFrame."""


class FeatureModel:
    """A featurizer."""

    def __init__(self, stage: CNNFeaturizer | TextFeaturizer) -> None:
        self._column = stage.getInputCol()
        net = stage.open_network()
        inference = stage.inference(net, reads=[self._column], outputs=stage.getOutputCols())
        self._names = inference.vectors
        errors = cast("ErrorPolicy", stage.getErrors())
        self._rows = RowMap(inference, (), RowPolicy(errors, ERROR, net.reads.error))

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Compute the features of a DataFrame's rows.

        Raises
        ------
        ColumnError
            The DataFrame has no such column.
        """
        del params
        frame = _frame(rows, [self._column])
        done = _computed(self._rows, {self._column: frame[self._column]})
        return _shown({name: done[name] for name in self._names}, done[ERROR])


class ExplainerModel:
    """An explainer."""

    def __init__(self, stage: OcclusionExplainerModel) -> None:
        rows = stage.open_explainer()
        self._columns = rows.function.reads
        self._output, self._details = stage.getOutputCol(), stage.getDetailsCol()
        self._rows = RowMap(rows.function, (), RowPolicy(rows.policy.errors, ERROR, rows.policy.error))

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Compute the heat maps of a DataFrame's images.

        Raises
        ------
        ColumnError
            A column is missing.
        """
        del params
        frame = _frame(rows, self._columns)
        done = _computed(self._rows, {name: frame[name] for name in self._columns})
        told = {name: [None if row is None else row[name] for row in done[self._details]] for name in DETAILS}
        return _shown({self._output: done[self._output], **told}, done[ERROR])


class TransferModel:
    """The best model of a transfer: features of an image, then what was trained on them.

    ``downstream`` reads the structured numbers, and behind them the features; ``features`` is ``None`` where no layer
    was the best. ``read`` is the column that the network reads.
    """

    def __init__(
        self, downstream: CompiledPipeline, inputs: PredictorInputs, features: FeatureModel | None, read: str
    ) -> None:
        self._downstream, self._inputs, self._features, self._read = downstream, inputs, features, read

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Predict the rows of a DataFrame; one that cannot be predicted has the reasons of ``transfer_error``.

        Raises
        ------
        ColumnError
            A column is missing.
        """
        del params
        inputs = self._inputs
        frame = _frame(rows, [*inputs.structured, *([self._read] if self._features else [])])
        reasons: list[str | None] = [None] * len(frame)
        parts = [self._numbers(frame[name], name, reasons) for name in inputs.structured]
        matrix = [np.concatenate(row) for row in zip(*parts, strict=True)] if parts else [np.empty(0)] * len(frame)
        for place, numbers in enumerate(matrix):
            if reasons[place] is None and len(numbers) != inputs.structured_size:
                reasons[place] = "structured features of another length"
        if self._features is not None:
            done = self._features.predict(frame)
            vectors = done[done.columns[0]]
            for place, (vector, why) in enumerate(zip(vectors, done[ERROR], strict=True)):
                if vector is None:
                    reasons[place] = reasons[place] or f"{inputs.kind}: {why or 'null'}"
                else:
                    matrix[place] = np.concatenate([matrix[place], np.asarray(vector, np.float64)])
        good = [place for place, reason in enumerate(reasons) if reason is None]
        predictions: list[float | None] = [None] * len(frame)
        odds: list[list[float] | None] = [None] * len(frame)
        if good:
            table = np.stack([matrix[place] for place in good])
            for place, value in zip(good, np.asarray(self._downstream.predict(table), np.float64), strict=True):
                predictions[place] = float(value)
            if "predict_proba" in self._downstream.outputs:
                for place, chances in zip(good, self._downstream.predict_proba(table), strict=True):
                    odds[place] = list(map(float, chances))
        known = {"probability": odds} if "predict_proba" in self._downstream.outputs else {}
        return _shown({"prediction": predictions, **known}, reasons)

    @staticmethod
    def _numbers(column: Any, name: str, reasons: list[str | None]) -> list[np.ndarray[Any, Any]]:
        paths = []
        for place, value in enumerate(column):
            plain = getattr(value, "toArray", lambda value=value: value)()
            missing = plain is None or (np.ndim(plain) == 0 and plain != plain)  # NaN, or pandas' null
            if missing:
                reasons[place] = reasons[place] or f"{NULL_FEATURE} '{name}'"
            paths.append(np.empty(0) if missing else np.asarray(plain, np.float64).reshape(-1))
        return paths


def open_model(folder: Path) -> Served:
    """Open what :func:`vista_spark.mlflow.save_model` wrote.

    Raises
    ------
    InvalidArgumentError
        The folder holds what this version does not serve.
    """
    if (folder / INPUTS).exists():
        described = json.loads((folder / INPUTS).read_text())
        tuples = {name: tuple(described[name]) for name in ("structured", "nullable", "example")}
        inputs = PredictorInputs(**described | tuples)
        stage = None if inputs.image is None else _featurizer(folder / FEATURES)
        features = None if stage is None else FeatureModel(stage)
        downstream = CompiledPipeline.load(folder / DOWNSTREAM)
        return TransferModel(downstream, inputs, features, "" if stage is None else stage.getInputCol())
    if _kind(folder) == OcclusionExplainerModel.__name__:
        return ExplainerModel(read_folder(OcclusionExplainerModel, folder))
    return FeatureModel(_featurizer(folder))


def _featurizer(folder: Path) -> Any:
    kind = _kind(folder)
    if kind not in _FEATURIZERS:
        raise InvalidArgumentError(f"{folder} holds a {kind}, which this version does not serve")
    return read_folder(_FEATURIZERS[kind], folder)


def _kind(folder: Path) -> str:
    return str(json.loads((folder / "stage.json").read_text())["class"])


def _frame(rows: Any, columns: Any) -> pd.DataFrame:
    import pandas as pd  # an import of this package stays light

    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    for name in columns:
        if name not in frame:
            raise ColumnError(f"the input must have a column {name!r}, got {', '.join(map(str, frame.columns))}.")
    return frame


def _computed(rows: RowMap, columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Run a pass over columns of pandas."""
    batch = pa.RecordBatch.from_arrays([as_arrow(column) for column in columns.values()], names=list(columns))
    names = [*(entry.name for entry in rows.function.adds), ERROR]
    values: dict[str, list[Any]] = {name: [] for name in names}
    for done in rows([batch]):
        for name in names:  # a pass that raises for a bad row tells no reasons
            known = name in done.schema.names
            values[name] += done.column(name).to_pylist() if known else [None] * done.num_rows
    return values


def _shown(columns: Mapping[str, list[Any]], reasons: list[str | None]) -> pd.DataFrame:
    import pandas as pd

    series = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    return pd.DataFrame({**series, ERROR: pd.Series([reason or "" for reason in reasons], dtype=object)})
