"""Models of MLflow that only their own library can run, as functions of whole batches."""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from udfs.inference import files_of_this_process
from udfs.weights import local_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["PyFunc", "zipped"]


@dataclass(frozen=True, slots=True)
class PyFunc:
    """Function of whole batches that calls the ``predict`` of an MLflow model.

    Each process opens the model at its first call. ``file`` is the zipped folder of the model: a path, or what
    :func:`udfs.weights.local_file` finds on a worker. With ``columns`` the model reads a table with the inputs as
    columns, otherwise tensors.
    """

    file: str
    columns: bool

    def at(self, file: str) -> PyFunc:
        """Return the same function with its file in another place."""
        return replace(self, file=file)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Predict a batch."""
        inputs: Any = dict(arrays)
        if self.columns:
            inputs = pd.DataFrame({name: list(array) for name, array in arrays.items()})
        elif len(inputs) == 1:
            (inputs,) = inputs.values()
        return _outputs(_opened(self.file).predict(inputs))


@lru_cache(maxsize=4)
def _opened(file: str) -> Any:
    import mlflow.pyfunc  # takes a second that only such models should cost

    folder = Path(tempfile.mkdtemp(dir=files_of_this_process()))
    with zipfile.ZipFile(local_file(file)) as archive:
        archive.extractall(folder)
    return mlflow.pyfunc.load_model(str(folder))


def _outputs(predicted: Any) -> dict[str, NDArray[Any]]:
    if isinstance(predicted, pd.DataFrame):
        predicted = {str(name): column.to_numpy() for name, column in predicted.items()}
    if isinstance(predicted, dict):
        return {str(name): np.asarray(array) for name, array in predicted.items()}
    return {"output": np.asarray(predicted)}


def zipped(folder: Path) -> str:
    """Zip a model's folder into a file that lives as long as this process, and return its path."""
    target = Path(tempfile.mkdtemp(dir=files_of_this_process())) / "model.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return str(target)
