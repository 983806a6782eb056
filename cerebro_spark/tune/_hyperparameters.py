"""Hyperparameters as Params of Spark ML: one per name, which takes values like its default."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.ml.param import Param

from cerebro_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.ml.param import Params

__all__ = ["checked_names", "hyperparameter"]


def checked_names(hyperparameters: Any, *owners: object) -> dict[str, Any]:
    """Check that hyperparameters can be attributes of an estimator.

    ``owners`` are objects that must not have attributes of these names.

    Raises
    ------
    InvalidArgumentError
        There are none, or a name is taken or cannot be an attribute.
    """
    if not isinstance(hyperparameters, Mapping) or not hyperparameters:
        raise InvalidArgumentError(
            f'hyperparameters must be a mapping of names to defaults such as {{"lr": 0.001}}, got {hyperparameters!r}'
        )
    for name in hyperparameters:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise InvalidArgumentError(
                f"hyperparameters has {name!r}: it becomes an attribute of the estimator, so that a name starts with a "
                "letter and has letters, digits and underscores"
            )
        if any(hasattr(owner, name) for owner in owners):
            raise InvalidArgumentError(
                f"hyperparameters has {name!r}, which Spark ML's estimators or models have as an attribute of their "
                f"own: rename it, to {name + '_'!r} for example, here and in trainer_fn"
            )
    return dict(hyperparameters)


def hyperparameter(owner: Params, name: str, default: Any) -> Param[Any]:
    """Make the Param of a hyperparameter.

    The default decides what the Param takes: true or false, whole numbers, numbers or strings; with any other default,
    plain data as JSON has it.
    """
    kind, convert = _taking(default)
    doc = f"hyperparameter of trainer_fn: {kind}"

    def converted(value: Any) -> Any:
        plain = value.item() if isinstance(value, np.generic) else value
        try:
            return convert(plain)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be {kind}, like its default {default!r}, got {value!r}.") from None

    return Param(owner, name, doc, converted)


def _taking(default: Any) -> tuple[str, Callable[[Any], Any]]:
    """Return a description of the values of a Param with a default, and the function that validates them."""
    if isinstance(default, (bool, np.bool_)):
        return "true or false", _truth
    if isinstance(default, Integral):
        return "a whole number", _whole
    if isinstance(default, Real):
        return "a finite number", _number
    if isinstance(default, str):
        return "a string", _string
    return "plain data: strings, numbers, lists", _plain


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if _number(value) != int(value):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = list(value)
    json.dumps(value, allow_nan=False)
    return value
