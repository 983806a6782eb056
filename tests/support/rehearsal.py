"""Coordinator without training, which checks that a procedure's decisions can be carried out."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

from optimizer.procedures import Continue, Ended, EpochResult, Exchange, Pause, Start, Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.procedures import Decision, Procedure, Result

__all__ = ["Rehearsal"]

_CALLS = 20_000


class Rehearsal:
    """Drive a procedure with epochs that finish in random order.

    It tracks the state of the configurations from the decisions, and fails at an impossible decision.

    Parameters
    ----------
    procedure : Procedure
        New procedure.
    measure : callable
        ``measure(trial_id, epoch)`` returns the metric, or None where the trial fails in that epoch. Further objectives
        get numbers from 0 to 1 that depend on their names, the trial and the epoch.
    seed : int
        Seed of the order in which epochs finish. Default 0.
    slots : int
        Configurations that can train at the same time; the rest are reported as idle slots. Default 3.
    """

    def __init__(
        self, procedure: Procedure, measure: Callable[[str, int], float | None], seed: int = 0, slots: int = 3
    ) -> None:
        self.procedure = procedure
        self.log: list[Exchange] = []
        self.granted: dict[str, int] = {}
        self.finished: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self._measure = measure
        self._random = random.Random(seed)
        self._slots = slots
        self._paused: set[str] = set()

    @property
    def training(self) -> list[str]:
        """Trials that have an epoch to train."""
        return [
            name
            for name, granted in self.granted.items()
            if name not in self.reasons and name not in self._paused and self.finished[name] < granted
        ]

    def run(self, calls: int = _CALLS) -> Rehearsal:
        """Run until the procedure is done, or for some calls, and return this object."""
        if not self.log:
            self.tell([])
        while not self.procedure.done and len(self.log) < calls:
            assert self.training, "it is not done, and nothing has an epoch to train"
            self.tell(self.results())
        assert self.procedure.done or calls < _CALLS, f"not done after {calls} calls"
        return self

    def results(self) -> list[Result]:
        """Finish an epoch of some training configurations, in random order."""
        training = self.training
        finishing = self._random.sample(training, self._random.randint(1, len(training)))
        results: list[Result] = []
        for name in finishing:
            epoch = self.finished[name] + 1
            measured = self._measure(name, epoch)
            if measured is None:
                results.append(Ended(name, "failed"))
                self.reasons[name] = "failed"
            else:
                metrics = {
                    each.metric: zlib.crc32(f"{each.metric} {name} {epoch}".encode()) / 2**32
                    for each in self.procedure.ledger.objectives
                }
                results.append(EpochResult(name, epoch, metrics | {self.procedure.metric: measured}))
                self.finished[name] = epoch
        return results

    def tell(self, results: list[Result]) -> None:
        """Report results and carry out the decisions; then offer the idle slots."""
        self._call(results, 0)
        while not self.procedure.done:
            idle = self._slots - len(self.training)
            if idle <= 0 or not self._call([], idle):
                break

    def _call(self, results: list[Result], idle: int) -> bool:
        exchange = Exchange.with_procedure(self.procedure, results, idle=idle)
        self.log.append(exchange)
        for decision in exchange.decisions:
            self._carry_out(decision)
        waiting = [
            name
            for name, granted in self.granted.items()
            if name not in self.reasons and name not in self._paused and self.finished[name] == granted
        ]
        assert not waiting, f"no decision about {waiting}, which have trained all that they were granted"
        return bool(exchange.decisions)

    def _carry_out(self, decision: Decision) -> None:
        name = decision.trial_id
        match decision:
            case Start():
                assert name == f"c{len(self.granted):03d}", "ids are c000, c001, ... in the order of starts"
                assert decision.epochs >= 1
                if decision.source is not None:
                    done = self.finished[decision.source.trial_id]
                    assert 1 <= decision.source.epoch <= done, f"{decision.source} is cloned, but has finished {done}"
                self.granted[name] = decision.epochs
                self.finished[name] = 0
            case Continue():
                assert decision.reason
                assert decision.epochs >= 1
                if name in self.reasons:
                    assert self.procedure.ledger[name].extended or self.procedure.ledger[name].guest
                    self.granted[name] = self.finished[name]
                    del self.reasons[name]
                self._paused.discard(name)
                self.granted[name] += decision.epochs
            case Pause():
                assert decision.reason
                assert name not in self.reasons
                self._paused.add(name)
            case Stop():
                assert decision.reason
                assert name not in self.reasons, f"{name} has ended before: {self.reasons[name]}"
                self._paused.discard(name)
                self.reasons[name] = decision.reason
