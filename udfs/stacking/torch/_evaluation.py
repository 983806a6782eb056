"""Evaluation of a stack: one batched forward pass, and the sums of each session."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch.func import functional_call, stack_module_state, vmap

from udfs.handlers.torch import listed
from udfs.metrics import merge_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchSession
    from udfs.training import Rows

__all__ = ["evaluate_together"]


def evaluate_together(sessions: Sequence[TorchSession], rows: Rows) -> list[dict[str, NDArray[np.float64]] | Exception]:
    """Compute loss and metrics of sessions of one architecture over the same rows.

    Returns
    -------
    list of dict or Exception
        Sums of each session, or the error of its metrics.
    """
    network = copy.deepcopy(sessions[0].model).eval()
    parameters, buffers = stack_module_state([session.model for session in sessions])
    state = {name: value.detach() for name, value in {**parameters, **buffers}.items()}

    def outputs_of(state: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return listed(functional_call(network, state, tuple(inputs)))

    forward = vmap(outputs_of, in_dims=(0, None), randomness="different")
    outcomes: list[dict[str, NDArray[np.float64]] | Exception] = [{} for _ in sessions]
    first = sessions[0]
    with torch.inference_mode():
        for inputs, labels, weights in first.batches(rows):
            outputs = forward(state, [first.as_input(torch.from_numpy(array)) for array in inputs])
            for place, session in enumerate(sessions):
                before = outcomes[place]
                if isinstance(before, Exception):
                    continue
                try:
                    part = session.batch_sums([output[place] for output in outputs], labels, weights)
                    outcomes[place] = merge_sums(before, part)
                except Exception as error:  # noqa: BLE001 - of the user's metric or loss
                    outcomes[place] = error
    return outcomes
