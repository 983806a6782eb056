"""Training of a configuration for many groups: as copies of one session, or one by one where that is faster."""

from __future__ import annotations

import math
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.grouping._weights import packed_weights, weights_of
from udfs.handlers import BatchChecks, framework_of
from udfs.hopper import reason_of
from udfs.tensors import TensorSpec
from udfs.training import TrainerError, row_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.grouping._reading import Group
    from udfs.shards import Tensors
    from udfs.training import Session

__all__ = ["ConfigurationTrainer", "Trained", "scored_rows"]

# Groups that train one by one before the rest is tried together: the first one also loads code.
_ALONE = 3
# Most copies that train together, and most bytes of their states.
_MOST, _MOST_BYTES = 1024, 1 << 28
# Groups of more rows than this multiple of the median train one by one: the others would wait for them.
_LARGE = 4
# A stack has to be faster by this factor.
_MARGIN = 1.05

# Seconds for each row and epoch one by one and together, by run and configuration, and the reason against copies.
_PACES: dict[tuple[str, int], _Pace] = {}


@dataclass(slots=True)
class _Pace:
    alone: float = math.inf
    together: float = 0.0
    refusal: str = ""

    @property
    def is_together(self) -> bool:
        """True unless training together is refused, or was measured to be slower."""
        return not self.refusal and self.together * _MARGIN <= self.alone


@dataclass(frozen=True, slots=True)
class Trained:
    """Result of training a configuration for a group.

    Parameters
    ----------
    metrics : mapping of str to float
        Metrics of the scored rows, and the loss of training as ``train_loss``. Empty if training failed.
    outputs : array, shape (rows, ...), optional
        First output of the network for the scored rows.
    weights : callable, optional
        Function that packs the weights.
    reason : str
        Reason of a failure, or empty.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    outputs: NDArray[Any] | None = None
    weights: Callable[[], bytes] | None = None
    reason: str = ""


class ConfigurationTrainer:
    """Training of a configuration for groups.

    Parameters
    ----------
    run : str
        Name of the run, for measured paces.
    configuration : int
        Place of the configuration.
    opened : callable
        Function that opens a new session of the configuration.
    epochs, seed : int
        Epochs to train, and seed of the row orders.
    metric : str
        Metric that a scheduler follows.
    """

    def __init__(
        self, run: str, configuration: int, opened: Callable[[], Session], *, epochs: int, seed: int, metric: str
    ) -> None:
        self._configuration = configuration
        self._opened = opened
        self._epochs, self._seed, self._metric = epochs, seed, metric
        self._session: Session | None = None
        self._first = b""
        self.pace = _PACES.setdefault((run, configuration), _Pace())

    def train(self, groups: Sequence[Group]) -> list[Trained]:
        """Train the configuration for each group, from the same first state."""
        results = self._refused(groups)
        sizes = {place: group.train.rows for place, group in enumerate(groups) if place not in results}
        median = float(np.median(list(sizes.values()))) if sizes else 0.0
        small = [place for place, rows in sizes.items() if rows <= _LARGE * median]
        # Groups of similar sizes share their steps.
        waiting = sorted(small, key=lambda place: groups[place].train.rows)
        if len(waiting) <= _ALONE:
            waiting = []
        elif math.isinf(self.pace.alone):
            measured, waiting = waiting[:_ALONE], waiting[_ALONE:]
            for place in measured:
                begun = time.perf_counter()
                results[place] = self._alone(groups[place])
                # That of the last one stays.
                self.pace.alone = (time.perf_counter() - begun) / self._epochs / groups[place].train.rows
            self.pace.refusal = self._refusal()
        while len(waiting) > 1 and self.pace.is_together:
            size = self._size(groups[waiting[-1]])
            part, waiting = waiting[:size], waiting[size:]
            results |= self._together(groups, part)
        for place, group in enumerate(groups):
            if place not in results:
                results[place] = self._alone(group)
        return [results[place] for place in range(len(groups))]

    def _refused(self, groups: Sequence[Group]) -> dict[int, Trained]:
        """Return results of the groups whose batches do not suit the trainer, as a last batch of one row does not."""
        try:
            trainer: Any = getattr(self._fresh(), "trainer", None)
        except Exception as error:  # noqa: BLE001 - of the user's code
            return dict.fromkeys(range(len(groups)), Trained(reason=_reason(error)))
        if trainer is None or not groups:
            return {}
        specs = [TensorSpec(array.shape[1:], str(array.dtype)) for array in groups[0].train.inputs]
        checks, results = BatchChecks(trainer, specs), {}
        for place, group in enumerate(groups):
            try:
                checks.check_rows(group.train.rows, "group")
            except TrainerError as error:
                results[place] = Trained(reason=str(error))
        return results

    def _refusal(self) -> str:
        """Return the reason why groups do not train together, or an empty one."""
        try:
            session = self._fresh()
        except Exception as error:  # noqa: BLE001 - reported for each group
            return f"{type(error).__name__}: {error}"
        handler = framework_of(session.model)
        if handler is None or handler.name != "torch":
            return "" if handler is None else f"models of {handler.name} train one by one"
        from udfs.stacking.torch import uncopyable_session  # a large package

        return uncopyable_session(session) or ""

    def _size(self, group: Group) -> int:
        session = self._fresh()
        nbytes = 6 * session.weight_bytes + sum(array.nbytes for array in (*group.train.inputs, *group.train.labels))
        return max(2, min(_MOST, _MOST_BYTES // max(nbytes, 1)))

    def _together(self, groups: Sequence[Group], places: Sequence[int]) -> dict[int, Trained]:
        """Train groups as copies of one session; none of them if an operation has no batched form."""
        from udfs.stacking.torch import Copies  # a large package

        members = [groups[place] for place in places]
        begun = time.perf_counter()
        try:
            session: Any = self._fresh()
            copies = Copies(session, [group.train for group in members])
            for epoch in range(self._epochs):
                sums = copies.train([self._order(group, epoch) for group in members])
            outputs = copies.predict([scored_rows(group) for group in members])
            tensors = copies.weights()
        except Exception as error:  # noqa: BLE001 - of an operation without a batched form
            text, _, _ = str(error).strip().partition("\n")
            self.pace.refusal = f"{type(error).__name__}: {text[:200]}"
            return {}
        results = {}
        for place, part, answers, named in zip(places, sums, outputs, tensors, strict=True):
            if isinstance(part, Exception):
                results[place] = Trained(reason=_reason(part))
                continue
            try:
                scored = scored_rows(groups[place])
                metrics = session.sums.results(session.scored(answers, scored))
                metrics = {"train_loss": session.sums.results(part)["loss"], **metrics}
                results[place] = Trained(metrics, answers[0].float().cpu().numpy(), _Packing(named))
            except Exception as error:  # noqa: BLE001 - of a metric, for this group alone
                results[place] = Trained(reason=_reason(error))
        rows = sum(group.train.rows for group in members)
        self.pace.together = (time.perf_counter() - begun) / self._epochs / rows
        return results

    def _alone(self, group: Group) -> Trained:
        try:
            session = self._fresh()
            for epoch in range(self._epochs):
                sums = session.train(group.train, self._order(group, epoch), ends_epoch=True)
                if getattr(session, "metric_mode", None) is not None and epoch + 1 < self._epochs:
                    value = session.sums.results(session.evaluate(scored_rows(group)))[self._metric]
                    session.follow_metric(value)
            trained = session.sums.results(sums)["loss"]
            scored = scored_rows(group)
            metrics = {"train_loss": trained, **session.sums.results(session.evaluate(scored))}
            outputs, *_ = session.predict(scored.inputs)
            state = session.checkpoint()
            return Trained(metrics, outputs, lambda: weights_of(state))
        except Exception as error:  # noqa: BLE001 - of the user's code, for this group alone
            # The session may be in any state.
            self._session = None
            return Trained(reason=_reason(error))

    def _fresh(self) -> Session:
        """Open the configuration, or set the open session back to its first state."""
        if self._session is None:
            self._session = self._opened()
            self._first = self._session.checkpoint()
        else:
            self._session.restore(self._first)
        return self._session

    def _order(self, group: Group, epoch: int) -> NDArray[np.int64]:
        return row_order(self._seed, f"{self._configuration}/{group.key}", epoch, 0, group.train.rows)


@dataclass(frozen=True, slots=True)
class _Packing:
    tensors: dict[str, NDArray[Any]]

    def __call__(self) -> bytes:
        return packed_weights(self.tensors)


def scored_rows(group: Group) -> Tensors:
    """Return the rows that a model of a group is scored on: those held out, or else those that it was trained on."""
    return group.held_out if group.held_out.rows else group.train


def _reason(error: Exception) -> str:
    detail = traceback.format_exception_only(error)[-1].strip()[:500]
    return f"{reason_of(error)}: {detail}"
