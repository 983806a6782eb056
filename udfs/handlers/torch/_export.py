"""Trained modules without their author's code: torch's exported programs."""

from __future__ import annotations

import inspect
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udfs.handlers.torch._archive import check_program, load_program
from udfs.handlers.torch._hidden_modules import on_cpu
from udfs.handlers.torch._session import as_tensor
from udfs.packing import StateError, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers._framework import Exported, Reloadable

__all__ = ["export", "open_export", "open_reloadable"]

# Two, because torch.export would treat a batch size of one as a constant.
_TRACED_ROWS = 2


def export(model: Any, inputs: Sequence[NDArray[Any]]) -> bytes:
    """Write a ``.pt2`` archive for the CPU, whatever device the module is on, and check that it can be opened."""
    rows = [np.concatenate([array] * _TRACED_ROWS)[:_TRACED_ROWS] for array in inputs]
    batch = torch.export.Dim("batch")
    network = on_cpu(model)
    training = network.training
    network.eval()
    # By the names of forward's parameters, of which *args is one.
    free = dict(inspect.signature(network.forward).bind(*({0: batch} for _ in rows)).arguments)
    try:
        program = torch.export.export(
            network,
            tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in rows),
            dynamic_shapes=free,
        )
    finally:
        network.train(training)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    data = buffer.getvalue()
    check_program(data)
    return data


def open_export(data: bytes) -> Exported:
    """Open a ``.pt2`` archive as a function of arrays, through :func:`load_program`."""
    return _runner(load_program(data).module(check_guards=False))


def open_reloadable(data: bytes) -> Reloadable:
    """Open a ``.pt2`` archive whose weights can be replaced."""
    module = load_program(data).module(check_guards=False)

    def load(weights: bytes) -> None:
        try:
            module.load_state_dict(unpack(weights, as_tensor)["model"], strict=True)
        except (KeyError, RuntimeError) as error:
            raise StateError(f"weights must be of the same model: {error}") from error

    return load, _runner(module)


def _runner(module: Any) -> Exported:
    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        with torch.inference_mode():
            outputs = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs))
        listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return tuple(output.float().numpy() for output in listed)

    return run
