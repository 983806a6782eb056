"""One record of a caller as a batch of one, and the answer to such a batch as the caller's."""

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


def batch_of_one(record: Any, specs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Make a batch of a record: a value, or a mapping by name where there are several inputs.

    Raises
    ------
    BadRequestError
        An image whose file cannot be read.
    """
    given = record if isinstance(record, dict) else {specs[0].name: record}
    dtypes = {spec.name: spec.dtype for spec in specs}
    return {name: _row(value, dtypes.get(name, "")) for name, value in given.items()}


def alone(outputs: Mapping[str, Any]) -> Any:
    """Give a single output without its name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)


def ask(
    router: Router,
    model: ServedModel,
    record: Any,
    *,
    timeout_ms: float | None = None,
    answer: Future[Any] | None = None,
) -> Future[Any]:
    """Have a model answer for one record; whoever cancels the answer has nothing computed.

    Parameters
    ----------
    router : Router
    model : ServedModel
    record
        As of :func:`batch_of_one`.
    timeout_ms : float, optional
    answer : Future, optional
        To settle; by default one of its own.
    """
    asked = router.submit(model.name, batch_of_one(record, model.inputs), timeout_ms=timeout_ms)
    settled: Future[Any] = Future() if answer is None else answer
    settled.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
    asked.add_done_callback(lambda done: _pass_on(done, settled))
    return settled


def _pass_on(done: Future[Mapping[str, NDArray[Any]]], answer: Future[Any]) -> None:
    """Settle a caller's future by that of a batch of one."""
    with suppress(InvalidStateError):  # it was cancelled
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(alone({name: array[0] for name, array in done.result().items()}))


def _row(value: Any, dtype: str) -> NDArray[Any]:
    """Make a batch of one of a record's value."""
    if dtype in {"bytes", "str"} and not isinstance(value, np.ndarray):
        if isinstance(value, os.PathLike) or (dtype == "bytes" and isinstance(value, str)):
            try:
                value = Path(value).read_bytes()
            except OSError as error:
                raise BadRequestError(f"the image cannot be read: {error}") from error
        row = np.empty(1, object)
        row[0] = value
        return row
    return np.asarray(value)[None]
