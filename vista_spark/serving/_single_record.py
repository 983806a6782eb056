"""Conversion between one record and a batch of one, for requests and their answers."""

from __future__ import annotations

import os
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.serving import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.serving import Router, ServedModel, TensorSpec

__all__ = ["alone", "ask", "batch_of_one"]

# Kinds of arrays of Python's numbers that are converted to an input, by the kind of the input. Floats are rounded;
# integers must be exact.
_PYTHON = {"b": "b", "i": "i", "u": "i", "f": "if"}


def batch_of_one(record: Any, specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Convert a record, or a mapping of records by input name, to a batch of one.

    Raises
    ------
    BadRequestError
        The file of an image cannot be read.
    """
    values = record if isinstance(record, dict) else {specs[0].name: record}
    known = {spec.name: spec for spec in specs}
    return {name: _row(value, known.get(name)) for name, value in values.items()}


def alone(outputs: Mapping[str, Any]) -> Any:
    """Return the only output, or all outputs by name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)


def ask(
    router: Router,
    model: ServedModel,
    record: Any,
    *,
    timeout_ms: float | None = None,
    answer: Future[Any] | None = None,
) -> Future[Any]:
    """Ask a model about one record. Cancelling the answer cancels the request.

    The deadline is ``timeout_ms`` from now, by default the SLO of the model.
    """
    asked = router.submit(model.name, batch_of_one(record, model.inputs), timeout_ms=timeout_ms)
    settled: Future[Any] = Future() if answer is None else answer
    settled.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
    asked.add_done_callback(lambda done: _pass_on(done, settled))
    return settled


def _pass_on(done: Future[Mapping[str, NDArray[Any]]], answer: Future[Any]) -> None:
    """Settle the future of a record by the future of its batch."""
    with suppress(InvalidStateError):  # it was cancelled
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(alone({name: array[0] for name, array in done.result().items()}))


def _row(value: Any, spec: TensorSpec | None) -> NDArray[Any]:
    """Convert the value of one input to a batch of one."""
    if spec is None or isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)[None]
    if spec.dtype not in {"bytes", "str"}:
        return _numbers(value, spec)[None]
    if len(spec.shape) > 1:
        return np.asarray(value, object)[None]
    if isinstance(value, os.PathLike) or (spec.dtype == "bytes" and isinstance(value, str)):
        try:
            value = Path(value).read_bytes()
        except OSError as error:
            raise BadRequestError(f"The image cannot be read: {error}.") from error
    row = np.empty(1, object)
    row[0] = value
    return row


def _numbers(value: Any, spec: TensorSpec) -> NDArray[Any]:
    """Convert numbers of Python to the type of an input, as those of JSON; others have a type that is checked."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadRequestError(f"Input {spec.name!r} must have rows of the same length: {error}.") from error
    dtype = np.dtype(spec.dtype)
    if array.dtype.kind not in _PYTHON[dtype.kind] or not isinstance(value, bool | int | float | list | tuple):
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    fits = np.isinf(converted) == np.isinf(array) if dtype.kind == "f" else converted == array
    return converted if fits.all() else array
