"""Models of MLflow's Python-function flavour, whose state is a folder of data and never a pickle."""

from __future__ import annotations

import io
import math
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas as pd

__all__ = ["Pyfunc", "pyfunc_signature"]

_DATA = "model"

# Values of an example, by a type of MLflow's; an image is drawn.
_EXAMPLES = {"string": "a text", "double": 1.0, "float": 1.0, "long": 1, "integer": 1, "boolean": True}
_EXAMPLE_PIXELS = 32
_EXAMPLE_NUMBERS = 10_000


class Pyfunc:
    """Content of a model that MLflow stores.

    Parameters
    ----------
    loader_module : str
        A module with ``_load_pyfunc(path)``: it gets the folder of data, in an environment that has this project.
    write : callable
        Writes the data into the folder that it is given.
    signature : mlflow.models.ModelSignature
        Columns of the input and of the output.
    extra : str
        The optional dependency that runs the network: ``"torch"`` or ``"tensorflow"``.
    shapes : mapping of str to tuple of int, optional
        Shapes of columns that are arrays, for the example: a signature does not have them.
    """

    def __init__(
        self,
        loader_module: str,
        write: Callable[[Path], None],
        signature: Any,
        extra: str,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._loader_module, self._write, self._signature = loader_module, write, signature
        self._shapes = shapes or {}
        self._requirements = [f"cerebro-spark[{extra}]=={__version__}"]

    def save(self, path: str | Path, **options: Any) -> None:
        """Save to a folder of this machine that does not exist yet, or is empty."""
        import mlflow  # takes a second that only tracking should cost

        with tempfile.TemporaryDirectory() as scratch, _exact_signature():
            mlflow.pyfunc.save_model(path=str(path), **self._options(Path(scratch), options))

    def log(self, name: str, **options: Any) -> Any:
        """Log to the active run, or to a new one; return MLflow's ``ModelInfo``."""
        import mlflow

        with tempfile.TemporaryDirectory() as scratch, _exact_signature():
            return mlflow.pyfunc.log_model(name=name, **self._options(Path(scratch), options))

    def _options(self, scratch: Path, options: dict[str, Any]) -> dict[str, Any]:
        data = scratch / _DATA
        self._write(data)
        defaults = {"signature": self._signature, "pip_requirements": self._requirements}
        if options.get("signature") is None:
            defaults["input_example"] = _example_of(self._signature, self._shapes)
        wanted = {name: value for name, value in options.items() if value is not None}
        merged = {name: value for name, value in (defaults | wanted).items() if value is not None}
        return {"loader_module": self._loader_module, "data_path": str(data), **merged}


@contextmanager
def _exact_signature() -> Iterator[None]:
    """Leave out MLflow's advice to add an example, where there is none: the signature follows from the stage."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*An input example was not provided", UserWarning)
        yield


def _example_of(signature: Any, shapes: Mapping[str, tuple[int, ...]]) -> pd.DataFrame | None:
    """Make a row that the model reads, or none where the shape of an array is not known, or it is a large one."""
    import pandas as pd
    from mlflow.types import DataType

    row: dict[str, list[Any]] = {}
    for column in signature.inputs.inputs:
        base = column.type
        while not isinstance(base, DataType):
            base = base.dtype
        if base == DataType.binary:
            value: Any = _grey_picture()
        else:
            value = _EXAMPLES[base.name]
        if base is not column.type:
            shape = shapes.get(column.name)
            if shape is None or math.prod(shape) > _EXAMPLE_NUMBERS:
                return None
            value = np.full(shape, value).tolist()
        row[column.name] = [value]
    return pd.DataFrame(row)


def _grey_picture() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (_EXAMPLE_PIXELS, _EXAMPLE_PIXELS), "grey").save(buffer, "PNG")
    return buffer.getvalue()


def pyfunc_signature(inputs: Sequence[tuple[str, str]], outputs: Sequence[tuple[str, str]]) -> Any:
    """Make MLflow's signature from names and types.

    Parameters
    ----------
    inputs, outputs : sequence of (str, str)
        Name and type: a type of MLflow's (``"binary"``, ``"string"``, ``"double"``, ``"long"``, ...), and ``[]`` behind
        it for each axis of an array. Outputs may be null.

    Examples
    --------
    >>> pyfunc_signature([("image", "binary")], [("pool", "float[]")]).outputs.input_names()
    ['pool']
    """
    from mlflow.models import ModelSignature
    from mlflow.types import Schema

    return ModelSignature(
        inputs=Schema([_column(name, kind) for name, kind in inputs]),
        outputs=Schema([_column(name, kind) for name, kind in outputs]),
    )


def _column(name: str, kind: str) -> Any:
    from mlflow.types import ColSpec, DataType
    from mlflow.types.schema import Array

    base, axes = kind.rstrip("[]"), kind.count("[]")
    made: Any = DataType[base]
    for _ in range(axes):
        made = Array(made)
    return ColSpec(made, name)
