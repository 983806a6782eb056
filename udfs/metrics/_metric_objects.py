"""Metric objects of Keras and torchmetrics, which keep a state from batch to batch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.metrics._metric import Metric, MetricError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["object_metric"]


def object_metric(wanted: Any) -> Metric | None:
    """Make a metric that calls a metric object of Keras or torchmetrics.

    The object gets outputs and labels as they are. States that are sums are added over batches and shards. For other
    states, and for subclasses of Keras's classes, all rows are collected first, and the object gets them at once.

    Parameters
    ----------
    wanted : object
        Metric object, or any other value.

    Returns
    -------
    Metric or None
        The metric; ``None`` for a value that is not a metric object. Its ``result`` raises MetricError if the object
        does not return one number.
    """
    if isinstance(wanted, type):
        return None
    if all(hasattr(wanted, name) for name in ("update_state", "result", "reset_state", "variables")):
        return _keras_metric(wanted)
    if all(hasattr(wanted, name) for name in ("update", "compute", "reset", "_reductions", "_defaults")):
        return _torchmetrics_metric(wanted)
    return None


def _keras_metric(wanted: Any) -> Metric:
    def update(outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        wanted.reset_state()
        wanted.update_state(labels, outputs, sample_weight=None if weights is None else weights.astype(np.float32))

    def result() -> float:
        return _number(wanted.name, wanted.result())

    direction = getattr(wanted, "_direction", None)
    larger = {"up": True, "down": False}.get(direction) if isinstance(direction, str) else None
    if not type(wanted).__module__.startswith("keras."):
        rows = _Rows(update, result)
        return Metric(wanted.name, rows.part, rows.result, larger_is_better=larger, weighted=rows.part)

    def part(
        outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        update(outputs, labels, weights)
        return np.concatenate([np.asarray(variable, np.float64).reshape(-1) for variable in wanted.variables])

    def result_of(state: NDArray[np.float64]) -> float:
        start = 0
        for variable in wanted.variables:
            size = int(np.prod(variable.shape))
            variable.assign(state[start : start + size].reshape(tuple(variable.shape)).astype(str(variable.dtype)))
            start += size
        return result()

    return Metric(wanted.name, part, result_of, larger_is_better=larger, weighted=part)


def _torchmetrics_metric(wanted: Any) -> Metric:
    import torch

    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(wanted).__name__).lower()

    def update(outputs: NDArray[Any], labels: NDArray[Any], _weights: NDArray[np.float64] | None = None) -> None:
        wanted.reset()
        single = outputs.size == labels.size and outputs.ndim == labels.ndim + 1
        fitted = outputs.reshape(labels.shape) if single else outputs
        wanted.update(torch.from_numpy(np.ascontiguousarray(fitted)), torch.from_numpy(np.ascontiguousarray(labels)))

    def result() -> float:
        return _number(name, wanted.compute())

    larger = getattr(wanted, "higher_is_better", None)
    adds_up = all(
        getattr(wanted._reductions[key], "__name__", "") == "dim_zero_sum" and not isinstance(first, list)  # noqa: SLF001 - torchmetrics has no public name for it
        for key, first in wanted._defaults.items()  # noqa: SLF001 - the same
    )
    if not adds_up:
        rows = _Rows(update, result)
        return Metric(name, rows.part, rows.result, larger_is_better=larger)

    def part(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
        update(outputs, labels)
        return np.concatenate([getattr(wanted, key).double().cpu().reshape(-1).numpy() for key in wanted._defaults])  # noqa: SLF001 - the same

    def result_of(state: NDArray[np.float64]) -> float:
        # The object refuses to compute before an update.
        start = 0
        for key in wanted._defaults:  # noqa: SLF001 - the same
            now = getattr(wanted, key)
            values = torch.from_numpy(state[start : start + now.numel()].copy())
            setattr(wanted, key, values.reshape(now.shape).to(now.dtype))
            start += now.numel()
        wanted._computed = None  # noqa: SLF001 - the cached result
        return result()

    return Metric(name, part, result_of, larger_is_better=larger)


class _Rows:
    """Collected rows for a metric object that gets them all at once: outputs, labels and weights side by side."""

    def __init__(self, update: Callable[..., None], result: Callable[[], float]) -> None:
        self._update, self._result = update, result
        self._shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self._types: tuple[Any, Any] = (np.float32, np.int64)
        self._weighted = False

    def part(
        self, outputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the rows as an array of shape ``(rows, outputs + labels + 1)``."""
        self._shapes, self._types = (outputs.shape[1:], labels.shape[1:]), (outputs.dtype, labels.dtype)
        self._weighted = weights is not None
        share = np.ones(len(outputs)) if weights is None else weights
        flat = [array.reshape(len(array), -1).astype(np.float64) for array in (outputs, labels, share)]
        return np.concatenate(flat, axis=1)

    def result(self, rows: NDArray[np.float64]) -> float:
        """Compute the metric from all rows."""
        width = int(np.prod(self._shapes[0]))
        parts = (rows[:, :width], rows[:, width:-1])
        outputs, labels = (
            part.reshape(-1, *shape).astype(kind)
            for part, shape, kind in zip(parts, self._shapes, self._types, strict=True)
        )
        self._update(outputs, labels, rows[:, -1] if self._weighted else None)
        return self._result()


def _number(name: str, value: Any) -> float:
    array = np.asarray(getattr(value, "detach", lambda: value)())
    if array.dtype.kind not in "fiub" or array.size != 1:
        raise MetricError(
            f"metric {name!r} must give one number, got {type(value).__name__} of shape {array.shape}. Give it an "
            "average, or one metric for each number"
        )
    return float(array.reshape(()))
