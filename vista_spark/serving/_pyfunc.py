"""A model of MLflow that only its own library can run, as a function of whole batches."""

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
    """MLflow's ``predict`` of a model that lies in a file. It opens the model in the process that calls it first.

    Parameters
    ----------
    file : str
        The model's folder, zipped: a path, or what :func:`udfs.weights.local_file` finds on a worker.
    columns : bool
        Whether the model reads a table with the inputs as its columns; else it reads tensors.
    """

    file: str
    columns: bool

    def at(self, file: str) -> PyFunc:
        """Give the same model with its file in another place."""
        return replace(self, file=file)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Predict a batch."""
        given: Any = dict(arrays)
        if self.columns:
            given = pd.DataFrame({name: list(array) for name, array in arrays.items()})
        elif len(given) == 1:
            (given,) = given.values()
        return _outputs(_opened(self.file).predict(given))


@lru_cache(maxsize=4)
def _opened(file: str) -> Any:
    import mlflow.pyfunc  # takes a second that only such models should cost

    folder = Path(tempfile.mkdtemp(dir=files_of_this_process()))
    with zipfile.ZipFile(local_file(file)) as archive:
        archive.extractall(folder)
    return mlflow.pyfunc.load_model(str(folder))


def _outputs(found: Any) -> dict[str, NDArray[Any]]:
    if isinstance(found, pd.DataFrame):
        found = {str(name): column.to_numpy() for name, column in found.items()}
    if isinstance(found, dict):
        return {str(name): np.asarray(array) for name, array in found.items()}
    return {"output": np.asarray(found)}


def zipped(folder: Path) -> str:
    """Put a model's folder into one file, which lives as long as this process, and give its path."""
    target = Path(tempfile.mkdtemp(dir=files_of_this_process())) / "model.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return str(target)
