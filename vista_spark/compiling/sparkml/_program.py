"""Programs of Spark ML models and pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.compiling import Output, Program, ProgramError
from vista_spark.compiling._refusals import refusal
from vista_spark.compiling.sparkml._columns import NAMED, Columns
from vista_spark.compiling.sparkml._stages import lower_stage

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["known_of", "named_program", "program_of", "stages_of"]


_SEARCHES = {"CrossValidatorModel", "TrainValidationSplitModel"}


def stages_of(model: Any) -> list[Any]:
    """Return the fitted stages in order, with nested pipelines flattened and searches replaced by their best model."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "pyspark":
        return [model]
    if kind.__name__ == "PipelineModel":
        return [inner for stage in model.stages for inner in stages_of(stage)]
    return stages_of(model.bestModel) if kind.__name__ in _SEARCHES else [model]


def program_of(model: Any, example: Any = None) -> Program:
    """Lower a fitted model or pipeline; its outputs are the methods of its last stage.

    The schema of ``example`` tells vectors from numbers.

    Raises
    ------
    UnsupportedOperatorError
        A stage, or an option of one, cannot be compiled.
    """
    columns = _lowered(stages_of(model), Columns() if example is None else known_of(example))
    outputs = {role: columns.added[column] for role, column in columns.roles.items()}
    if not outputs:
        raise refusal(type(model).__name__, "none of the columns that it adds is compiled")
    return columns.program(outputs)


def _lowered(stages: Iterable[Any], columns: Columns) -> Columns:
    for fitted in stages:
        columns.roles.clear()
        try:
            lower_stage(fitted, columns)
        except ProgramError as error:
            raise refusal(type(fitted).__name__, str(error)) from error
    return columns


def named_program(columns: Columns) -> Program:
    """Finish a program with every column that the stages add."""
    outputs: dict[str, Output] = {f"{NAMED}{name}": output for name, output in columns.added.items()}
    if not outputs:
        raise refusal("A run of stages", "the stages add no column")
    return columns.program(outputs)


def known_of(example: Any) -> Columns:
    """Find out which columns of a DataFrame hold numbers or texts, and how long the vectors of others are.

    The length comes from the column's metadata, else from the first row.
    """
    floats = frozenset(name for name, kind in example.dtypes if kind in {"double", "float"})
    return Columns(
        _kinds_of(example), doubles=floats, words=frozenset(n for n, kind in example.dtypes if kind == "string")
    )


def _kinds_of(example: Any) -> dict[str, int]:
    from pyspark.ml.linalg import VectorUDT  # only with Spark
    from pyspark.sql.types import NumericType

    kinds: dict[str, int] = {}
    unknown = []
    for field in example.schema:
        if isinstance(field.dataType, VectorUDT):
            known = field.metadata.get("ml_attr", {}).get("num_attrs")
            if known is None:
                unknown.append(field.name)
            else:
                kinds[field.name] = int(known)
        elif isinstance(field.dataType, NumericType):
            kinds[field.name] = 0
    first = example.select(*(f"`{name}`" for name in unknown)).first() if unknown else None
    if first is not None:
        kinds |= {name: len(first[name]) for name in unknown if first[name] is not None}
    return kinds
