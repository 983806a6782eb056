"""Programs of fitted models: dispatch by library, and the columns that a model reads."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.compiling import INPUT, Builder, Program
from vista_spark.compiling._columns import names_of, width_of
from vista_spark.compiling._refusals import refusal, refuse
from vista_spark.compiling._registry import check_parsers, library_of, lower
from vista_spark.errors import InvalidArgumentError

__all__ = ["program_of"]

_TABLE_DIMENSIONS = 2

# Libraries whose errors are explained, as of models that are not fitted or that they cannot write.
_FOREIGN = frozenset({"_catboost", "catboost", "lightgbm", "sklearn", "xgboost"})
# Packages with a function program_of, for libraries whose models name the columns that they read.
_LIBRARIES = {
    "onnx": "vista_spark.compiling.onnx",
    "pyspark": "vista_spark.compiling.sparkml",
    "vista_spark": "vista_spark.compiling.sparkml",
}


def program_of(model: Any, example: Any = None) -> Program:
    """Lower a fitted model to a program.

    Raises
    ------
    UnsupportedOperatorError
        A step of the model, or an option of a step, cannot be compiled.
    InvalidArgumentError
        The model is not fitted, or `example` does not have its columns.
    """
    is_file = isinstance(model, bytes) or (isinstance(model, str | Path) and str(model).endswith(".onnx"))
    library, module = library_of(type(model)), type(model).__module__
    # Stages of this project have its public name as their module, and other classes longer ones.
    package = _LIBRARIES.get("onnx" if is_file else module if library == "vista_spark" else library)
    if package is not None:
        program: Program = importlib.import_module(package).program_of(model, example)
        return program
    width, names = _columns(model, example)
    build = Builder(width, names)
    try:
        outputs = lower(model, build, INPUT)
    except AttributeError as error:
        # Parsers read attributes of fitted models, which end in an underscore.
        if error.name is not None and error.name.endswith("_"):
            raise InvalidArgumentError(
                f"model must be fitted, got a {type(error.obj).__name__} without {error.name}. Fit it first."
            ) from error
        raise
    except Exception as error:
        library = library_of(type(error))
        if library not in _FOREIGN:
            raise
        reason = " ".join(str(error).split()).rstrip(".")
        raise refusal(type(model).__name__, f"{library} raised {type(error).__name__}, {reason}") from error
    if not outputs:
        raise refusal(type(model).__name__, "none of its methods is compiled")
    return build.program(outputs)


def _columns(model: Any, example: Any) -> tuple[int, list[str] | None]:
    """Return the number of columns of a model, and their names if the model or the example has some."""
    width, names = width_of(model), names_of(model)
    if example is not None:
        shape = np.shape(example)
        if len(shape) != _TABLE_DIMENSIONS or width not in {None, shape[1]}:
            raise InvalidArgumentError(
                f"example must have the shape (rows, {width or 'columns'}) of the tables of {type(model).__name__}, "
                f"got {shape}."
            )
        width = shape[1]
        columns = getattr(example, "columns", None)
        if names is None and columns is not None and all(isinstance(name, str) for name in columns):
            names = columns
    if width is None and getattr(model, "refit", True) is False:
        raise refuse(model, "refit=False", "it has no fitted model", "Search again with refit=True.")
    if width is None:
        check_parsers(model)
        raise InvalidArgumentError(
            f"model must be fitted, got a {type(model).__name__} without n_features_in_. Fit it on a table, or pass "
            "example=, a row of one."
        )
    return int(width), None if names is None else [str(name) for name in names]
