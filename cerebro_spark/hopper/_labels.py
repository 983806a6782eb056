"""Trial of labels: a loss that has no output for a label raises on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cerebro_spark.errors import LabelError
from udfs.shards import load_rows

if TYPE_CHECKING:
    from udfs.shards import PreparedData, Tensors
    from udfs.training import Session

__all__ = ["check_label_ranges", "label_refusal"]


def check_label_ranges(data: PreparedData, session: Session) -> None:
    """Evaluate a model on the smallest and largest number of each label, and on a fraction, of all rows of the data.

    Raise LabelError if the loss takes the label 0 and not such a label.
    """
    if not data.label_samples:
        return
    row = load_rows(data, "train", 1)
    for place, group in enumerate(data.labels):
        values = data.label_samples.get(group.name, ())
        # An error that a label of 0 causes too is not due to the label.
        if not values or label_refusal(session, row, place, 0) is not None:
            continue
        for value in values:
            why = label_refusal(session, row, place, value)
            if why is not None:
                raise LabelError(
                    f"label {group.name!r} must have an output of the model, which has "
                    f"{_described_outputs(session, row, place)}, got {value:g} ({why}): correct or leave out the rows "
                    f"with this label, or build models with more classes"
                )


def label_refusal(session: Session, row: Tensors, place: int, value: float) -> str | None:
    """Return the error that the model raises for a label; ``None`` without one."""
    labels = [array.copy() for array in row.labels]
    labels[place].flat[0] = value
    try:
        session.evaluate(replace(row, labels=tuple(labels)))
    except Exception as error:  # noqa: BLE001 - the user's loss may raise anything
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def _described_outputs(session: Session, row: Tensors, place: int) -> str:
    """Describe the output of the model that a label belongs to."""
    outputs = session.predict(row.inputs)
    shape = outputs[min(place, len(outputs) - 1)].shape[1:]
    # A single output tells two classes apart.
    count = max(shape[0], 2) if len(shape) == 1 else 0
    return f"{count} classes, 0 to {count - 1}" if count else f"outputs of the shape {shape}"
