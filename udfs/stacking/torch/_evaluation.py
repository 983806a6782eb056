"""Evaluation of a stack: one batched forward pass, and the sums of each session."""

from __future__ import annotations

import copy
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call, stack_module_state, vmap

from udfs.handlers.torch import listed
from udfs.metrics import merge_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchSession
    from udfs.training import Rows

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["evaluate_together"]


def evaluate_together(sessions: Sequence[TorchSession], rows: Sequence[Rows]) -> list[Outcome]:
    """Compute loss and metrics of sessions of one architecture.

    Parameters
    ----------
    sessions : sequence of TorchSession
        Sessions of one architecture.
    rows : sequence of Rows
        Rows of each session, which may be the same object.

    Returns
    -------
    list of dict or Exception
        Sums of each session, or the error of its loss or metrics.
    """
    network = copy.deepcopy(sessions[0].model).eval()
    parameters, buffers = stack_module_state([session.model for session in sessions])
    state = {name: value.detach() for name, value in {**parameters, **buffers}.items()}

    def outputs_of(state: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        outputs: list[torch.Tensor] = listed(functional_call(network, state, tuple(inputs)))
        return outputs

    shared = all(each is rows[0] for each in rows)
    forward = vmap(outputs_of, in_dims=(0, None if shared else 0), randomness="different")
    outcomes: list[Outcome] = [{} for _ in sessions]
    with torch.inference_mode():
        for batches in zip_longest(*(sessions[0].batches(each) for each in (rows[:1] if shared else rows))):
            # A model without more rows gets those of another; what it returns is not read.
            filler = next(batch for batch in batches if batch is not None)
            arrays = [(filler if batch is None else batch)[0] for batch in batches]
            inputs = arrays[0] if shared else list(map(_padded, zip(*arrays, strict=True)))
            outputs = forward(state, [sessions[0].as_input(torch.from_numpy(array)) for array in inputs])
            for place, session in enumerate(sessions):
                batch = batches[0 if shared else place]
                if batch is not None:
                    part = [output[place][: len(batch[0][0])] for output in outputs]
                    outcomes[place] = _merged(outcomes[place], session, part, batch)
    return outcomes


def _padded(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays, those with fewer rows repeated: in inference mode no row depends on another."""
    longest = max(map(len, arrays))
    return np.stack([np.resize(array, (longest, *array.shape[1:])) for array in arrays])


def _merged(before: Outcome, session: TorchSession, outputs: list[torch.Tensor], batch: tuple[Any, ...]) -> Outcome:
    if isinstance(before, Exception):
        return before
    _, labels, weights = batch
    try:
        return merge_sums(before, session.batch_sums(outputs, labels, weights))
    except Exception as error:  # noqa: BLE001 - of the user's metric or loss
        return error
