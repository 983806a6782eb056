"""Which function lowers which stage of Spark ML."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optimizer.compiling import Builder, Output, UnsupportedOperatorError
from optimizer.errors import nearest
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sparkml._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Lowering", "lower_stage", "refuse", "stage"]

Lowering = Callable[[Any, Columns], None]
"""From a fitted stage and the columns so far; adds columns."""

_STAGES: dict[str, Lowering] = {}


def stage(*names: str) -> Callable[[Lowering], Lowering]:
    """Register a function under names of classes of ``pyspark.ml``."""

    def enter(function: Lowering) -> Lowering:
        for name in names:
            _STAGES[name] = function
            parser(f"pyspark.{name}")(_alone)
        return function

    return enter


def lower_stage(fitted: Any, columns: Columns) -> None:
    """Add the columns of a fitted stage.

    Raises
    ------
    UnsupportedOperatorError
        The class, or an option of it, has no translation.
    """
    kind = type(fitted)
    found = _STAGES.get(kind.__name__) if kind.__module__.partition(".")[0] == "pyspark" else None
    if found is None:
        raise UnsupportedOperatorError(
            f"{kind.__name__} ({kind.__module__}) has no translation{nearest(kind.__name__, sorted(_STAGES))}: "
            "replace_stages keeps such a stage as it is"
        )
    found(fitted, columns)


def refuse(fitted: Any, option: str, why: str = "has no translation") -> UnsupportedOperatorError:
    """Make the error that names a stage and its option."""
    return UnsupportedOperatorError(f"{type(fitted).__name__} with {option} {why}")


def _alone(model: Any, build: Builder, table: str) -> Mapping[str, Output]:  # noqa: ARG001 - of a parser
    raise UnsupportedOperatorError(f"{type(model).__name__} of Spark ML inside a pipeline of another library")
