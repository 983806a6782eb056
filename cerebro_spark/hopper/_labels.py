"""Detection of labels for which a model has no output: its loss raises on them.

A classifier with three outputs accepts the labels 0, 1 and 2. Only the smallest and the largest label of many rows have
to be tried, and a fraction: a label between them has an output if both have one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import LabelError
from udfs.shards import load_rows
from udfs.training import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.shards import PreparedData, Tensors
    from udfs.training import Session

__all__ = ["LabelSample", "check_label_samples", "label_samples"]


@dataclass(frozen=True, slots=True)
class LabelSample:
    """Number of a label column to try, with the id of a record that has it; ``None`` if records have no ids."""

    column: str
    value: float
    record: Any = None


def label_samples(data: PreparedData) -> list[LabelSample]:
    """List the smallest and the largest number of each label column of the data, and a fraction if there is one."""
    return [LabelSample(group.name, value) for group in data.labels for value in data.label_samples.get(group.name, ())]


def check_label_samples(
    samples: Sequence[LabelSample], data: PreparedData, session: Session, models: str = "build models"
) -> None:
    """Evaluate a model on a training row with each sample in place of the row's label.

    ``models`` begins the remedy "... with more classes".

    Raises
    ------
    LabelError
        The model has no output for a label. The message has the label, its record and the classes of the model.
    """
    if not samples:
        return
    row = load_rows(data, "train", 1, view=view_of(session))
    places = {group.name: place for place, group in enumerate(data.labels)}
    # A model that raises an error for class 0 as well, which every classifier has, fails for another reason.
    columns = {sample.column for sample in samples}
    checked = {column for column in columns if _label_error(session, row, places[column], 0) is None}
    for sample in samples:
        place = places[sample.column]
        error = _label_error(session, row, place, sample.value) if sample.column in checked else None
        if error is not None:
            source = "" if sample.record is None else f" in record {sample.record!r}"
            raise LabelError(
                f"label {sample.column!r} {_requirement(session, row, place)}, got {sample.value:g}{source} ({error}): "
                f"correct the label, leave out the rows that have it, or {models} with more classes"
            )


def _label_error(session: Session, row: Tensors, place: int, value: float) -> str | None:
    """Return the error that the model raises for a label; ``None`` without one."""
    labels = [array.copy() for array in row.labels]
    labels[place].flat[0] = value
    try:
        session.evaluate(replace(row, labels=tuple(labels)))
    except Exception as error:  # noqa: BLE001 - the user's loss may raise anything
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def _requirement(session: Session, row: Tensors, place: int) -> str:
    """Describe the labels for which a model has an output."""
    outputs = session.predict(row.inputs)
    shape = outputs[min(place, len(outputs) - 1)].shape[1:]
    if len(shape) != 1:
        return f"must be a class of the model, whose output has shape {shape}"
    is_multilabel = session.sums.is_settled and session.sums.task.kind == "multilabel"
    # A single output tells two classes apart, and so does each output of several labels.
    last = 1 if is_multilabel else max(shape[0], 2) - 1
    return f"must be in 0..{last}, the classes of the model"
