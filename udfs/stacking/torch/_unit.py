"""Training unit of a stack: a step of all models is one batched forward and backward pass (``torch.func.vmap``)."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.func import functional_call, vmap

from udfs.handlers import framework
from udfs.handlers.torch import generator_states, listed, same_states, set_training
from udfs.stacking._clock import step_clock
from udfs.stacking.torch._noise import Noise
from udfs.stacking.torch._rows import StackedRows
from udfs.stacking.torch._tensors import StackedTensors
from udfs.training import Diverged, TrainerError, check_losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.handlers.torch import TorchSession
    from udfs.training import Rows, Trainer

    Outcome = dict[str, NDArray[np.float64]] | Exception

__all__ = ["StackedUnit", "train_together"]


def train_together(
    sessions: Sequence[TorchSession],
    rows: Sequence[Rows],
    orders: Sequence[NDArray[np.int64]],
    *,
    ends_epoch: bool,
) -> tuple[list[Outcome], float]:
    """Train sessions of one architecture on a shard, and write their states back.

    Until it returns, the sessions are as they were: an error of the batched pass leaves them untouched.

    Parameters
    ----------
    sessions : sequence of TorchSession
        Sessions of one architecture.
    rows : sequence of Rows
        Rows of each session, which may be the same object.
    orders : sequence of array of int
        Order in which each session reads its rows.
    ends_epoch : bool
        Whether this was the last shard of an epoch.

    Returns
    -------
    tuple of list and float
        Contributions to the loss of each session, or :class:`udfs.training.Diverged`; and the seconds of all steps,
        without the copies of states.

    Raises
    ------
    Exception
        Any error of an operation without a batched form.
    """
    # Models with as many rows are next to each other, so that a batch is a slice of the stack.
    places = sorted(range(len(sessions)), key=lambda place: -len(orders[place]))
    ordered = [sessions[place] for place in places]
    unit = StackedUnit(ordered, [rows[place] for place in places], [orders[place] for place in places])
    unit.run()
    outcomes: dict[int, Outcome] = dict(zip(places, unit.write_back(ends_epoch=ends_epoch), strict=True))
    return [outcomes[place] for place in range(len(sessions))], unit.seconds


class StackedUnit:
    """Training of a stack on a shard, for :func:`train_together` and :class:`Copies`.

    Parameters
    ----------
    sessions : sequence of TorchSession
        Sessions of one architecture, those with the most rows first; the same one for copies of it.
    rows : sequence of Rows
        Rows of each model.
    orders : sequence of array of int, each of shape (rows,)
        Order in which each model reads its rows.

    Attributes
    ----------
    seconds : float
        Seconds of the steps so far, without the copies of states.
    """

    def __init__(
        self, sessions: Sequence[TorchSession], rows: Sequence[Rows], orders: Sequence[NDArray[np.int64]]
    ) -> None:
        self._sessions = sessions
        self._first = sessions[0]
        self._trainer = self._first.trainer
        self._rows = StackedRows(rows, orders)
        self._network = copy.deepcopy(self._first.model)
        set_training(self._network)
        self.seconds = 0.0
        self._begin(frozenset())

    def run(self) -> None:
        """Take all steps."""
        before = generator_states()
        try:
            self._run()
        except _UnusedError as error:
            # No gradient reaches these, so no optimizer changes them: begin again without them.
            self._begin(error.names)
            self._run()
        if not same_states(before, generator_states()):
            raise TrainerError(
                "random numbers of a stack must be drawn by dropout alone, got other draws. Train each model alone."
            )

    def write_back(self, *, ends_epoch: bool) -> list[Outcome]:
        """Copy the states to the sessions, close their units, and return their sums or errors."""
        self._tensors.write_back()
        self._noise.write_back()
        outcomes: list[Outcome] = []
        for place, session in enumerate(self._sessions):
            session.begin()
            _mark_stepped(session.trainer)
            session.end(ends_epoch=ends_epoch)
            sums = {"loss": np.array([self._losses[place], self._totals[place]], np.float64)}
            outcomes.append(self._failures.get(place, sums))
        return outcomes

    def outcomes(self) -> list[Outcome]:
        """Return the sums or the error of each model since the last order."""
        sums = [{"loss": np.array(pair, np.float64)} for pair in zip(self._losses, self._totals, strict=True)]
        return [self._failures.get(place, part) for place, part in enumerate(sums)]

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers of all models by name, each of shape (models, ...)."""
        tensors = self._tensors
        together = {**tensors.learned, **tensors.constant, **tensors.buffers}
        return {name: value.detach() for name, value in together.items()}

    def reorder(self, orders: Sequence[NDArray[np.int64]]) -> None:
        """Begin another pass over the rows, of as many rows of each model."""
        self._rows.reorder(orders)
        self._losses = [0.0] * len(self._sessions)
        self._totals = [0.0] * len(self._sessions)

    def end_epoch(self) -> None:
        """End an epoch of copies of one session, which share its scheduler."""
        self._first.begin()
        _mark_stepped(self._trainer)
        self._first.end(ends_epoch=True)
        for group in self._tensors.groups:
            group.refresh()

    def _begin(self, unused: frozenset[str]) -> None:
        self._tensors = StackedTensors.of_sessions(self._sessions, unused)
        backend = framework("torch")
        self._noise = Noise(self._sessions, backend.take_random, backend.apply_random)
        self._losses = [0.0] * len(self._sessions)
        self._totals = [0.0] * len(self._sessions)
        self._failures: dict[int, Exception] = {}
        self._labels_are_ready = False
        self._forward = vmap(self._outputs, randomness="different")
        weights_axis = 0 if self._rows.is_weighted else None
        self._loss = vmap(self._mean_loss, in_dims=(0, 0, weights_axis), randomness="different")

    def _run(self) -> None:
        clock = step_clock(self._first)
        begun = clock()
        self._take_steps()
        self.seconds = clock() - begun

    def _take_steps(self) -> None:
        size, drop_last = self._trainer.batch_size, self._trainer.drop_last
        for start in range(0, max(self._rows.lengths, default=0), size):
            for models, stop in _alike(self._rows.lengths, start, size):
                if stop - start == size or not drop_last:
                    self._step(models, start, stop)
            if len(self._failures) == len(self._sessions):
                return

    def _step(self, models: slice, start: int, stop: int) -> None:
        tensors = self._tensors
        inputs, labels, totals, relative = self._rows.batch(models, start, stop)
        learned = {name: value[models] for name, value in tensors.learned.items()}
        leaves = [value.detach().requires_grad_() for value in learned.values()]
        state = {
            **dict(zip(learned, leaves, strict=True)),
            **{name: value[models] for name, value in {**tensors.constant, **tensors.buffers}.items()},
        }
        self._noise.rows = models
        with self._noise:
            outputs = self._forward(state, [self._first.as_input(array) for array in inputs])
        labels = self._as_targets(outputs, labels, models, start, stop)
        device = self._first.device
        shares = None if relative is None else relative.to(device)
        losses = self._loss(outputs, [label.to(device) for label in labels], shares)
        gradients = torch.autograd.grad(losses.sum(), leaves, allow_unused=True)
        unused = frozenset(name for name, value in zip(learned, gradients, strict=True) if value is None)
        if unused:
            raise _UnusedError(unused)
        width = models.stop - models.start
        whole = torch.cat([value.reshape(width, -1) for value in gradients], 1)
        with torch.no_grad():
            rule = tensors.rule or tensors.read_slots()
            slots = {name: values[models] for name, values in tensors.slots.items()}
            rule.step(models, tensors.weights[models], whole, slots)
        self._step_schedulers(models)
        for place, value, total in zip(range(models.start, models.stop), losses.tolist(), totals, strict=True):
            if place in self._failures:
                continue
            if not math.isfinite(value):
                self._failures[place] = Diverged(f"the loss became {value} after {start} rows of the shard")
            self._losses[place] += value * total
            self._totals[place] += total

    def _step_schedulers(self, models: slice) -> None:
        if self._trainer.scheduler_step != "batch":
            return
        for session in self._sessions[models]:
            _mark_stepped(session.trainer)
            session.trainer.scheduler.step()
        for group in self._tensors.groups:
            group.refresh()

    def _outputs(self, state: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return listed(functional_call(self._network, state, tuple(inputs)))

    def _mean_loss(
        self, outputs: list[torch.Tensor], labels: list[torch.Tensor], relative: torch.Tensor | None
    ) -> torch.Tensor:
        return self._first.mean_loss(outputs, labels, relative, weighted=self._rows.is_weighted)

    def _as_targets(
        self, outputs: list[torch.Tensor], labels: list[torch.Tensor], models: slice, start: int, stop: int
    ) -> list[torch.Tensor]:
        """Convert all labels to what the losses take, once the outputs are known, and return those of a batch."""
        if self._labels_are_ready:
            return labels
        check_losses(len(self._first.losses), len(outputs), len(labels))
        self._rows.convert_labels(lambda place, label: self._first.as_target(place, outputs[place][0], label).cpu())
        self._labels_are_ready = True
        return self._rows.batch(models, start, stop)[1]


def _mark_stepped(trainer: Trainer) -> None:
    """Mark an optimizer as stepped, so that its scheduler does not warn."""
    if trainer.scheduler is not None:
        trainer.optimizer._opt_called = True  # noqa: SLF001 - as torch marks it in the optimizer's step


class _UnusedError(Exception):
    """Parameters that no gradient reaches."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self.names = names


def _alike(lengths: Sequence[int], start: int, size: int) -> Iterator[tuple[slice, int]]:
    """Yield slices of models whose batches have the same number of rows, and where their batches stop."""
    begin = 0
    stops = [min(start + size, length) for length in lengths]
    for place, stop in enumerate(stops):
        if stop <= start:
            return
        if place + 1 == len(stops) or stops[place + 1] != stop:
            yield slice(begin, place + 1), stop
            begin = place + 1
