"""Parser registry: one parser per class, imported with the first model of its library."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from optimizer.compiling import Builder, Output
from optimizer.errors import nearest
from vista_spark.compiling._refusals import REASONS, refusal

__all__ = ["Parser", "check_parsers", "is_compiled", "library_of", "lower", "parsed_classes", "parser", "register"]

Parser = Callable[[Any, Builder, str], Mapping[str, Output]]
"""Function of a fitted model, the program builder and the table's node that returns outputs by method."""

_LIBRARIES = {
    "catboost": "vista_spark.compiling.catboost",
    "lightgbm": "vista_spark.compiling.lightgbm",
    "pyspark": "vista_spark.compiling.sparkml",
    "sklearn": "vista_spark.compiling.sklearn",
    "xgboost": "vista_spark.compiling.xgboost",
}
_PARSERS: dict[str, Parser] = {}


def parser(*names: str) -> Callable[[Parser], Parser]:
    """Register a parser for classes, named by root package and class such as ``"sklearn.PCA"``."""

    def enter(function: Parser) -> Parser:
        for name in names:
            _PARSERS[name] = function
        return function

    return enter


def register(kind: type, function: Parser) -> None:
    """Register a parser for a class of your own.

    Parameters
    ----------
    kind : type
        Class of the model. Subclasses need parsers of their own.
    function : callable
        Parser with the signature ``function(model, build, table) -> {method: Output}``, which adds operators with
        ``build.add(operator, table)``.

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
    """Add the operators of a fitted model, and return its outputs by method.

    Raises
    ------
    UnsupportedOperatorError
        No parser is registered for its class, or an option of it cannot be compiled.
    """
    return _parser_of(model)(model, build, table)


def check_parsers(model: Any) -> None:
    """Validate that the first steps of a model, and the models inside it, have parsers.

    Raises
    ------
    UnsupportedOperatorError
        No parser is registered for the class of one.
    """
    _parser_of(model)
    inner = [step for _, step, *_ in getattr(model, "steps", getattr(model, "transformer_list", ()))]
    inner += [getattr(model, name, None) for name in ("best_estimator_", "estimator", "estimator_", "regressor_")]
    for step in inner:
        if hasattr(step, "fit") and not isinstance(step, type):
            check_parsers(step)


def _parser_of(model: Any) -> Parser:
    name = _name(type(model))
    _import_parsers(library_of(type(model)))
    parse = _PARSERS.get(name)
    if parse is None:
        unknown = f"no parser is registered{nearest(name, parsed_classes())}"
        reason = f"it {REASONS[name]}" if name in REASONS else unknown
        raise refusal(
            f"{type(model).__name__} ({name})",
            reason,
            "Score this step with its own library before the compiled pipeline, or register a parser for its class.",
        )
    return parse


def is_compiled(name: str) -> bool:
    """Return whether a class, named such as ``"sklearn.PCA"``, has a parser."""
    _import_parsers(name.partition(".")[0])
    return name in _PARSERS


def parsed_classes() -> list[str]:
    """Return the names of the classes with a parser, of the libraries that are imported."""
    return sorted(_PARSERS)


def library_of(kind: type) -> str:
    """Return the root package of a class."""
    return kind.__module__.partition(".")[0]


def _name(kind: type) -> str:
    library = library_of(kind)
    # Libraries move their classes between private modules, so their module path is no part of the name.
    return f"{library}.{kind.__qualname__}" if library in _LIBRARIES else f"{kind.__module__}.{kind.__qualname__}"


def _import_parsers(library: str) -> None:
    if library in _LIBRARIES:
        importlib.import_module(_LIBRARIES[library])
