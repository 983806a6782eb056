"""Whoever follows a run: the numbers of each epoch, a live table, and a tracking server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from rich.table import Table

from udfs.driver import live_table
from udfs.training import merge_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from cerebro_spark.hopper._coordinator import Coordinator
    from cerebro_spark.hopper._journal import RunSpec
    from cerebro_spark.hopper._trial import Trial

__all__ = ["Follower", "Watching"]

_LOG = logging.getLogger(__name__)

# Rows of the live table; a terminal has not many more.
_SHOWN = 20


class Follower(Protocol):
    """Hears of each epoch; a tracking server, for example."""

    def epoch(self, epoch: int, trials: Sequence[Trial]) -> None:
        """An epoch is over."""


class Watching:
    """What is said of a run while it goes on.

    Parameters
    ----------
    results : callable
        Makes numbers of the sums of loss and metrics.
    spec : RunSpec
        Of the metric that the table is ordered by.
    units : int
        Training units of the whole run.
    shown : bool
        A live table in the terminal, or in the notebook.
    followers : sequence of Follower
        One that fails is logged, and the run goes on.
    """

    def __init__(
        self,
        results: Callable[[Mapping[str, Any]], dict[str, float]],
        *,
        spec: RunSpec,
        units: int,
        shown: bool,
        followers: Sequence[Follower] = (),
    ) -> None:
        self._results = results
        self._metric = spec.metric
        self._sign = -1.0 if spec.larger_is_better else 1.0
        self._units = units
        self._followers = followers
        self._live = live_table() if shown else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def results(self, epoch: int, trial: Trial) -> dict[str, float]:
        """The numbers of an epoch: of training by name, of validation with ``val_`` before it."""
        found = dict(self._results(trial.training_sums(epoch)))
        merged: dict[str, Any] = {}
        # In the order of the partitions, so that the same sums give the same bits.
        for partition in sorted(trial.evaluated):
            merged = merge_sums(merged, trial.evaluated[partition])
        return found | {f"val_{name}": value for name, value in self._results(merged).items()}

    def epoch(self, epoch: int, trials: Sequence[Trial]) -> None:
        """Tell those who follow."""
        for follower in self._followers:
            try:
                follower.epoch(epoch, trials)
            except Exception:  # noqa: BLE001 - whatever a tracking server does, hours of training must not go with it
                _LOG.exception("the run goes on, but %s could not follow it", type(follower).__name__)

    def look(self, coordinator: Coordinator) -> None:
        """Draw the table anew."""
        if self._live is not None:
            self._live.update(self._table(coordinator), refresh=True)

    def _table(self, coordinator: Coordinator) -> Table:
        trials = coordinator.trials
        trained = sum(trial.version for trial in trials)
        title = (
            f"epoch {coordinator.epoch + 1}, {trained} of {self._units} units, {len(coordinator.alive)} workers, "
            f"{coordinator.seconds:.0f} s" + (f", {coordinator.redone} units redone" if coordinator.redone else "")
        )
        table = Table(title=title)
        for name in ("", "params", "status", "units", self._metric):
            table.add_column(name, justify="right" if name in {"units", self._metric} else "left")
        for trial in sorted(trials, key=self._place)[:_SHOWN]:
            params = ", ".join(f"{name}={value}" for name, value in trial.params.items())
            last = trial.history[-1].get(self._metric) if trial.history else None
            table.add_row(trial.config, params, trial.status, str(trial.version), "" if last is None else f"{last:.4f}")
        if len(trials) > _SHOWN:
            table.caption = f"and {len(trials) - _SHOWN} more"
        return table

    def _place(self, trial: Trial) -> tuple[float, str]:
        last = trial.history[-1].get(self._metric) if trial.history else None
        return (float("inf") if last is None or last != last else self._sign * last, trial.config)  # noqa: PLR0124 - NaN
