"""Who lowers which model: a parser per class of a library, imported when the first model of the library comes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from optimizer.compiling import Builder, Output, Program, UnsupportedOperatorError
from optimizer.errors import nearest
from vista_spark.compiling._refusals import REASONS

__all__ = ["Parser", "is_compiled", "lower", "lower_whole", "opened", "parsed_classes", "parser", "register"]

Parser = Callable[[Any, Builder, str], Mapping[str, Output]]
"""From a fitted model, the program under way and the name of its table, to results by the name of their method."""

_LIBRARIES = {
    "catboost": ("vista_spark.compiling.catboost",),
    "lightgbm": ("vista_spark.compiling.lightgbm",),
    "pyspark": ("vista_spark.compiling.sparkml",),
    "sklearn": ("vista_spark.compiling.sklearn",),
    "xgboost": ("vista_spark.compiling.xgboost",),
}
# Libraries whose models say themselves which table they read.
_WHOLE = {"onnx": "vista_spark.compiling.onnx", "pyspark": "vista_spark.compiling.sparkml"}
_PARSERS: dict[str, Parser] = {}


def parser(*names: str) -> Callable[[Parser], Parser]:
    """Register a parser under names of classes, as ``"sklearn.PCA"``: the library's root package and the class."""

    def enter(function: Parser) -> Parser:
        for name in names:
            _PARSERS[name] = function
        return function

    return enter


def register(kind: type, function: Parser) -> None:
    """Register a parser for a class of one's own.

    Parameters
    ----------
    kind : type
        The class itself; a subclass of it is another model, and needs a parser of its own.
    function : callable
        ``function(model, build, table) -> {method: Output}``: adds operators with ``build.add(operator, table)``.

    Examples
    --------
    >>> from optimizer.compiling import Arithmetic, Output
    >>> import numpy as np
    >>> class Halver:
    ...     n_features_in_ = 2
    >>> def lower_halver(model, build, table):
    ...     return {"transform": Output(build.add(Arithmetic("divide", np.full(2, 2.0)), table))}
    >>> register(Halver, lower_halver)
    >>> from vista_spark.compiling import compile_pipeline
    >>> compile_pipeline(Halver()).transform([[3.0, 5.0]]).tolist()
    [[1.5, 2.5]]
    """
    _PARSERS[_name(kind)] = function


def lower(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Add the operators of a fitted model.

    Raises
    ------
    UnsupportedOperatorError
        No parser is known for its class, or an option of it has no translation.
    """
    _import_parsers(type(model))
    found = _PARSERS.get(_name(type(model)))
    if found is None:
        name = _name(type(model))
        why = f": it {REASONS[name]}; " if name in REASONS else f"{nearest(name, parsed_classes())}: "
        raise UnsupportedOperatorError(
            f"{type(model).__name__} ({name}) has no translation{why}"
            "leave it out of the pipeline, or register(type, parser) one"
        )
    return found(model, build, table)


def opened(model: Any) -> Any:
    """Read a model of bytes, or of a path that ends in ``.onnx``; anything else is given back."""
    if isinstance(model, bytes) or (isinstance(model, (str, Path)) and str(model).endswith(".onnx")):
        from vista_spark.compiling import onnx  # an optional extra

        return onnx.opened(model)
    return model


def lower_whole(model: Any, example: Any) -> Program | None:
    """Lower a model that says itself which table it reads, of libraries that are no scikit-learn; ``None`` for others.

    Raises
    ------
    UnsupportedOperatorError
        As :func:`lower`.
    """
    module = _WHOLE.get(type(model).__module__.partition(".")[0])
    if module is None:
        return None
    program: Program = importlib.import_module(module).program_of(model, example)
    return program


def is_compiled(name: str) -> bool:
    """Tell whether a class, by its library and name as ``"sklearn.PCA"``, has a parser that does not just refuse."""
    for module in _LIBRARIES.get(name.partition(".")[0], ()):
        importlib.import_module(module)
    found = _PARSERS.get(name)
    return found is not None and not found.__name__.startswith("refuse")


def parsed_classes() -> list[str]:
    """Name the classes that have a parser, of the libraries that were asked for so far."""
    return sorted(_PARSERS)


def _name(kind: type) -> str:
    root = kind.__module__.partition(".")[0]
    # A library moves its classes between private modules; a class of somebody else's is known by its whole path.
    return f"{root}.{kind.__qualname__}" if root in _LIBRARIES else f"{kind.__module__}.{kind.__qualname__}"


def _import_parsers(kind: type) -> None:
    for module in _LIBRARIES.get(kind.__module__.partition(".")[0], ()):
        importlib.import_module(module)
