"""A tuned model, opened where MLflow serves it: it needs no Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cerebro_spark.errors import ColumnError
from cerebro_spark.tune import TunedModel
from optimizer.errors import nearest
from udfs.driver import read_network_folder
from udfs.sql import PredictionCalls, as_arrow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PredictionModel"]

_NAME, _ERROR = "model", "error"


class PredictionModel:
    """Model that ``mlflow.pyfunc.load_model`` returns.

    Parameters
    ----------
    model : TunedModel
        Model to serve.
    """

    def __init__(self, model: TunedModel) -> None:
        self._model = model.sql_model()
        self._calls = PredictionCalls("predict", {_NAME: self._model}, explained=True)
        self._names = {
            "prediction": model.getPredictionCol(),
            "probability": model.getProbabilityCol() if self._model.task.has_probabilities else "",
            "raw_prediction": model.getRawPredictionCol(),
            _ERROR: _ERROR,
        }

    def predict(self, rows: Any, params: Any = None) -> pd.DataFrame:
        """Predict the rows of a DataFrame; a value that pandas counts as missing, NaN included, is null.

        Raises
        ------
        ColumnError
            A column that the network was trained on is missing.
        """
        import pandas as pd  # an import of this package stays light

        del params
        frame = pd.DataFrame(rows)
        columns = [column.name for column in self._model.columns]
        for name in columns:
            if name not in frame:
                raise ColumnError(
                    f"the input must have column {name!r}, which the network reads, got "
                    f"{', '.join(map(str, frame.columns))}{nearest(name, map(str, frame.columns))}"
                )
        struct = pa.StructArray.from_arrays([as_arrow(frame[name]) for name in columns], names=columns)
        predicted = self._calls((struct,))
        values = {
            # MLflow makes "None" of a text that is null.
            shown: pd.Series(
                [value or "" if name == _ERROR else value for value in predicted.field(name).to_pylist()],
                dtype=float if name == "prediction" else object,
            )
            for name, shown in self._names.items()
            if shown
        }
        return pd.DataFrame(values)


def _load_pyfunc(path: str) -> PredictionModel:
    """Open a saved model, for MLflow."""
    return PredictionModel(read_network_folder(TunedModel, Path(path)))
