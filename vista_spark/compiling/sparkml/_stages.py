"""Registry of functions that lower stages of Spark ML."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vista_spark.compiling._refusals import REASONS, refusal
from vista_spark.compiling._registry import library_of, parser
from vista_spark.compiling.sparkml._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder, Output

__all__ = ["lower_stage", "stage"]

Lowering = Callable[[Any, Columns], None]
"""Function of a fitted stage and the columns so far that adds columns."""

_STAGES: dict[str, Lowering] = {}


def stage(*names: str, library: str = "pyspark") -> Callable[[Lowering], Lowering]:
    """Register a function under names of classes of ``pyspark.ml``, or of another library of stages."""

    def enter(function: Lowering) -> Lowering:
        for name in names:
            _STAGES[f"{library}.{name}"] = function
            parser(f"{library}.{name}")(_alone)
        return function

    return enter


def lower_stage(fitted: Any, columns: Columns) -> None:
    """Add the columns of a fitted stage.

    Raises
    ------
    UnsupportedOperatorError
        The class, or an option of it, cannot be compiled.
    """
    kind = type(fitted)
    name = f"{library_of(kind)}.{kind.__name__}"
    lowering = _STAGES.get(name)
    if lowering is None:
        reason = f"it {REASONS[name]}" if name in REASONS else ""
        raise refusal(f"{kind.__name__} ({kind.__module__})", reason, "Use replace_stages, which keeps such a stage.")
    lowering(fitted, columns)


def _alone(model: Any, build: Builder, table: str) -> Mapping[str, Output]:  # noqa: ARG001 - of a parser
    raise refusal(
        f"{type(model).__name__} of Spark ML inside a pipeline of another library",
        remedy="Compile the models of the two libraries one by one.",
    )
