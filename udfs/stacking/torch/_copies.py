"""Copies of one session, each of which trains on rows of its own: no session is opened for a copy."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call, vmap

from udfs.handlers.torch import listed
from udfs.stacking.torch._architecture import unstackable_session
from udfs.stacking.torch._unit import StackedUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchSession
    from udfs.training import Rows

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["Copies", "uncopyable_session"]

# Rows of a forward pass of all copies.
_EVALUATED = 256


def uncopyable_session(session: object) -> str | None:
    """Return the reason why copies of a session cannot train together; ``None`` if they can.

    Copies share the scheduler of the session, so that it steps at the end of an epoch, and follows no metric.
    """
    reason = unstackable_session(session)
    if reason is not None:
        return reason
    model = session.model  # type: ignore[attr-defined] # a session of torch
    named = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    if not named.issuperset(session.saved_tensors()):  # type: ignore[attr-defined]
        return "layers of the network share parameters"
    trainer = session.trainer  # type: ignore[attr-defined] # a session of torch
    if trainer.scheduler is None:
        return None
    if trainer.scheduler_step == "batch":
        return "scheduler_step must be 'epoch', because groups of different sizes have different numbers of batches"
    return None if session.metric_mode is None else "the scheduler follows a metric"  # type: ignore[attr-defined]


class Copies:
    """Copies of a session as it is, one for each of some groups of rows, that train as one batched model.

    Parameters
    ----------
    session : TorchSession
        Session for which :func:`uncopyable_session` is ``None``; training changes its scheduler alone.
    rows : sequence of Rows
        Rows that each copy trains on.
    """

    def __init__(self, session: TorchSession, rows: Sequence[Rows]) -> None:
        # Copies with as many rows are next to each other, so that a batch is a slice of the stack.
        self._places = sorted(range(len(rows)), key=lambda place: -rows[place].rows)
        self._session = session
        parts = [rows[place] for place in self._places]
        self._unit = StackedUnit([session] * len(parts), parts, [np.arange(part.rows) for part in parts])

    def train(self, orders: Sequence[NDArray[np.int64]]) -> list[Outcome]:
        """Train all copies for one epoch.

        Parameters
        ----------
        orders : sequence of array of int
            Order in which each copy reads its rows.

        Returns
        -------
        list of dict or Exception
            Contributions to the loss of each copy, as :meth:`udfs.training.Session.train` returns them, or its error.

        Raises
        ------
        Exception
            Any error of an operation without a batched form.
        """
        self._unit.reorder([orders[place] for place in self._places])
        self._unit.run()
        self._unit.end_epoch()
        outcomes = dict(zip(self._places, self._unit.outcomes(), strict=True))
        return [outcomes[place] for place in range(len(self._places))]

    def predict(self, rows: Sequence[Rows]) -> list[list[torch.Tensor]]:
        """Run each copy on rows in inference mode; return a list of the outputs of each."""
        network = copy.deepcopy(self._session.model).eval()
        state = self._unit.state

        def outputs_of(state: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            outputs: list[torch.Tensor] = listed(functional_call(network, state, tuple(inputs)))
            return outputs

        forward = vmap(outputs_of, randomness="different")
        parts = [rows[place] for place in self._places]
        longest = max(part.rows for part in parts)
        columns = [_padded([part.inputs[number] for part in parts], longest) for number in range(len(parts[0].inputs))]
        batches = []
        with torch.inference_mode():
            for start in range(0, longest, _EVALUATED):
                inputs = [self._session.as_input(column[:, start : start + _EVALUATED]) for column in columns]
                batches.append(forward(state, inputs))
        outputs = [torch.cat(parts, 1) for parts in zip(*batches, strict=True)]
        cut = {
            place: [output[number, : part.rows] for output in outputs]
            for number, (place, part) in enumerate(zip(self._places, parts, strict=True))
        }
        return [cut[place] for place in range(len(self._places))]

    def weights(self) -> list[dict[str, NDArray[Any]]]:
        """Return the tensors of each copy by the names of the model's state dict."""
        state = {name: value.cpu().numpy() for name, value in self._unit.state.items()}
        names = list(self._session.saved_tensors())
        rows = dict(zip(self._places, range(len(self._places)), strict=True))
        return [{name: state[name][rows[place]] for name in names} for place in range(len(self._places))]


def _padded(arrays: Sequence[NDArray[Any]], longest: int) -> torch.Tensor:
    """Stack arrays, those with fewer rows repeated: in inference mode no row depends on another."""
    return torch.from_numpy(np.stack([np.resize(array, (longest, *array.shape[1:])) for array in arrays]))
