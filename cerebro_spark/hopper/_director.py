"""Director: requests to the procedure of a run after epochs, journalled before they are carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.errors import RunError
from optimizer.procedures import (
    Added,
    Continue,
    DivergedLogError,
    Ended,
    EpochResult,
    Exchange,
    Extended,
    Origin,
    OutOfTime,
    Pause,
    ProcedureError,
    Start,
    Stop,
    Stopped,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cerebro_spark.hopper._journal import Journal
    from cerebro_spark.hopper._trial import Trial
    from optimizer.procedures import Decision, Procedure, Result, UserRequest

__all__ = ["Director"]


class Director:
    """Link between a run and its procedure, which gets results and decides about trials.

    One call at a time. Decisions are in the store before they are carried out, so that a run that is resumed asks again
    with the same results and gets the same decisions. ``slots`` is the number of trials that can train at the same
    time; ``trial`` makes a trial of an id and params, as far as the store has it. ``trials`` grows in the order of
    their starts. Raise RunError if the procedure decides otherwise than the journal says: it has other arguments.
    """

    def __init__(
        self, procedure: Procedure, journal: Journal, *, slots: int, trial: Callable[[str, dict[str, object]], Trial]
    ) -> None:
        self.trials: list[Trial] = []
        self._procedure = procedure
        self._journal = journal
        self._slots = slots
        self._trial = trial
        self._told: dict[str, int] = {}
        # Decisions about the commands in the journal, by the ids of the commands.
        self._commands: dict[str, tuple[Decision, ...]] = {}
        self._ended: set[str] = set()
        # Trials whose last checkpoint is damaged, with the statuses that they had: they train up to there again.
        self._again: dict[str, str] = {}
        orders = journal.orders()
        try:
            replay(procedure, orders)
        except DivergedLogError as error:
            raise RunError(
                f"run {journal.run!r} cannot go on: {error}. Make the search that began it again, stoppers and limits "
                f"included, and call its resume({journal.run!r})"
            ) from error
        for order in orders:
            self._note(order)
            self.carry_out(order.decisions)
        self._asked = bool(orders)
        for each in self.trials:
            told = self._told.get(each.trial_id, 0)
            if not each.running and not each.failed and each.epoch < told:
                self._again[each.trial_id], each.status, each.granted = each.status, "running", told

    def begin(self) -> None:
        """Ask for the first configurations; of a resumed run, tell what the procedure has not heard."""
        fresh = [trial for trial in self.trials if self._results(trial)]
        if fresh or not self._asked:
            self.carry_out(self.ask(fresh))
        while fresh := [trial for trial in self.trials if self._results(trial)]:
            # Of a run that is given more epochs, or that an earlier release began: no procedure was told of these.
            self.carry_out(self.ask(fresh))

    def ask(self, trials: Sequence[Trial]) -> tuple[Decision, ...]:
        """Report trials that have finished epochs or ended, and return the decisions."""
        for trial in trials:
            if trial.trial_id in self._again and trial.epoch >= trial.granted:
                trial.status = self._again.pop(trial.trial_id)
        return self._exchange([result for trial in trials for result in self._results(trial)], self._busy)

    def request(self, request: UserRequest) -> tuple[Decision, ...]:
        """Report a request of the user, and return the decisions.

        Raises
        ------
        ProcedureError
            It cannot be carried out; nothing has changed.
        InvalidArgumentError
            It adds a configuration that is no plain data.
        """
        if self._procedure.done:
            raise ProcedureError("the search is over")
        return self._exchange([request], self._busy)

    def out_of_time(self, reason: str, origin: Origin | None = None) -> tuple[Decision, ...]:
        """Report that the time is over, or that the user ends the search, and return the decisions."""
        if self.decisions_about(origin) is not None:
            return ()
        return self._exchange([OutOfTime(reason, origin)], self._slots)

    def decisions_about(self, origin: Origin | None) -> tuple[Decision, ...] | None:
        """Return the decisions that the journal has about a command; None if it has not been carried out yet."""
        return None if origin is None else self._commands.get(origin.command)

    def carry_out(self, decisions: Sequence[Decision]) -> list[Trial]:
        """Change the trials as decided; give those that are new or changed."""
        by_id = {trial.trial_id: trial for trial in self.trials}
        changed: list[Trial] = []
        for decision in decisions:
            match decision:
                case Start():
                    trial = self._trial(decision.trial_id, dict(decision.params))
                    trial.granted, trial.reason, trial.source = decision.epochs, decision.reason, decision.source
                    if not trial.failed:
                        trial.status = "running"
                    by_id[decision.trial_id] = trial
                    self.trials.append(trial)
                case Continue():
                    trial = by_id[decision.trial_id]
                    if not trial.live:
                        self._revive(trial)
                    trial.granted += decision.epochs
                    trial.status, trial.reason = "running", decision.reason
                    self._again.pop(trial.trial_id, None)
                case Pause():
                    trial = by_id[decision.trial_id]
                    trial.status, trial.reason = "paused", decision.reason
                case Stop():
                    trial = by_id[decision.trial_id]
                    trial.reason = decision.reason
                    self._ended.add(trial.trial_id)
                    self._again.pop(trial.trial_id, None)
                    if not trial.failed:
                        trial.status = self._status(trial)
            changed.append(trial)
        return changed

    @property
    def _busy(self) -> int:
        return sum(trial.running and not trial.is_paused and trial.epoch < trial.granted for trial in self.trials)

    def _exchange(self, results: Sequence[Result], busy: int) -> tuple[Decision, ...]:
        exchange = Exchange.with_procedure(self._procedure, results, idle=max(0, self._slots - busy))
        if exchange.results or exchange.decisions:
            self._journal.order(exchange)
        self._note(exchange)
        return exchange.decisions

    def _results(self, trial: Trial) -> list[Result]:
        """Return the results of a trial that the procedure does not have yet."""
        told = self._told.get(trial.trial_id, 0)
        results: list[Result] = [
            EpochResult(trial.trial_id, epoch + 1, trial.history[epoch]) for epoch in range(told, len(trial.history))
        ]
        if trial.failed and trial.trial_id not in self._ended:
            results.append(Ended(trial.trial_id, trial.status))
        return results

    def _note(self, exchange: Exchange) -> None:
        for result in exchange.results:
            match result:
                case EpochResult():
                    self._told[result.trial_id] = result.epoch
                case Ended():
                    self._ended.add(result.trial_id)
                case (
                    Added(origin=Origin(command))
                    | Stopped(origin=Origin(command))
                    | Extended(origin=Origin(command))
                    | OutOfTime(origin=Origin(command))
                ):
                    self._commands[command] = exchange.decisions

    def _revive(self, trial: Trial) -> None:
        """Prepare a trial that has ended for more epochs after the last one that the procedure knows."""
        trial.granted = self._told.get(trial.trial_id, 0)
        trial.is_paused = trial.urgent = False
        self._ended.discard(trial.trial_id)

    def _status(self, trial: Trial) -> str:
        if self._procedure.ledger[trial.trial_id].status == "diverged":
            return "diverged"
        return "finished" if trial.trial_id in self._told else "stopped"
