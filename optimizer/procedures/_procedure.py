"""The template of every procedure: ``ask(results) -> decisions``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from optimizer.procedures._decisions import Continue, Pause, Source, Start, Stop
from optimizer.procedures._errors import ProcedureError
from optimizer.procedures._ledger import Ledger
from optimizer.procedures._limits import Limits
from optimizer.procedures._objectives import objectives_of
from optimizer.procedures._plain_data import plain
from optimizer.procedures._requests import Added, Extended, Stopped
from optimizer.procedures._results import OutOfTime
from optimizer.procedures._trial import WORST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.procedures._decisions import Decision
    from optimizer.procedures._plan import Plan
    from optimizer.procedures._results import Result
    from optimizer.procedures._stoppers import Stopper
    from optimizer.procedures._trial import Trial

__all__ = ["Procedure"]


class Procedure(ABC):
    """Base of the procedures, which decide which configurations start, continue, pause and stop (Section 3.3).

    A procedure is a state machine without a clock that a coordinator drives. Its decisions are a function of its
    arguments and of the results of each call; the order of the results within a call does not matter. So its log
    determines its state: see :func:`replay`.

    An algorithm is a subclass with :meth:`decide` and :meth:`plan`. :meth:`decide` calls :meth:`start`,
    :meth:`carry_on`, :meth:`pause` and :meth:`stop`. It has to decide about every trial that has finished its granted
    epochs, and to start or continue a trial where none is running; otherwise the search is over. This class handles
    what all procedures share: trials without a finite metric, which stop and rank last, stoppers, limits, and the end.

    Parameters
    ----------
    metric : str or sequence of str
        Metric that decides. Default ``"loss"``. With several, all of them rank the trials (:func:`best_first`), and the
        first one decides for stoppers and :attr:`best`.
    mode : {"min", "max"}, or sequence of them
        Direction in which the metric improves; one for each of several metrics. Default ``"min"``.
    stoppers : sequence of Stopper
        Rules that end configurations early, in the order in which they are asked.
    limits : Limits, optional
        Limits of configurations and epochs. No limits by default.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Attributes
    ----------
    ledger : Ledger
        Configurations and their results, for reading only.
    """

    def __init__(
        self,
        *,
        metric: str | Sequence[str] = "loss",
        mode: str | Sequence[str] = "min",
        stoppers: Sequence[Stopper] = (),
        limits: Limits | None = None,
    ) -> None:
        objectives = objectives_of(metric, mode)
        for stopper in stoppers:
            if not callable(getattr(stopper, "reason", None)):
                raise InvalidArgumentError(
                    f"stoppers must be rules with a method reason, such as Patience(3), got {stopper!r}"
                )
            if len(objectives) > 1 and getattr(stopper, "needs_one_objective", False):
                raise InvalidArgumentError(
                    f"stoppers must support {len(objectives)} objectives, got {stopper!r}, which supports one: use "
                    "Patience, Threshold or MedianRule, which look at the first one"
                )
        if not isinstance(limits, Limits | None):
            raise InvalidArgumentError(
                f"limits must be Limits(max_configurations=..., max_total_epochs=...), got {limits!r}"
            )
        self.ledger = Ledger(objectives)
        self.stoppers = tuple(stoppers)
        self.limits = limits or Limits()
        self._decisions: list[Decision] = []
        self._done = False

    @abstractmethod
    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        """Make the decisions of one call.

        Parameters
        ----------
        fresh : sequence of Trial
            Trials that finished epochs or ended since the last call, in the order of their starts.
        idle : int
            Slots that could train further configurations.
        """

    @abstractmethod
    def plan(self) -> Plan:
        """Lay out the search before it runs."""

    @property
    def metric(self) -> str:
        """Metric that decides."""
        return self.ledger.metric

    @property
    def mode(self) -> str:
        """``"min"`` or ``"max"``."""
        return self.ledger.mode

    @property
    def done(self) -> bool:
        """True if every configuration has ended and none will start."""
        return self._done

    @property
    def best(self) -> Trial | None:
        """Configuration with the best epoch by the metric that decides."""
        return self.ledger.best

    def ask(self, results: Sequence[Result] = (), *, idle: int = 0) -> list[Decision]:
        """Report the results since the last call, and return the decisions.

        Parameters
        ----------
        results : sequence of EpochResult, Ended, OutOfTime, Added, Stopped and Extended
            Results in any order; configurations that the user adds start in the order given. Results of ended
            configurations are ignored.
        idle : int
            Slots that could train another configuration now. A procedure with an open number of configurations starts
            some. Ask again with ``idle`` whenever a worker has nothing to train. Default 0.

        Returns
        -------
        list of Start, Continue, Pause and Stop
            Decisions in the order in which they were made.

        Raises
        ------
        ProcedureError
            A result is impossible, or a request cannot be carried out; the procedure is unchanged.
        InvalidArgumentError
            ``idle`` is not a number of slots.
        """
        idle = whole("idle", idle, 0, "It is the number of slots that could train another configuration.")
        if self.ledger.epochs_each is None:
            self.ledger.epochs_each = self.plan().epochs_each
        added = [self._checked(result) for result in results if isinstance(result, Added)]
        stopped = [(self.ledger[result.trial_id], result) for result in results if isinstance(result, Stopped)]
        extended = [self._extensible(result) for result in results if isinstance(result, Extended)]
        free = {*self.ledger.guests, *self.ledger.extended}
        told = self.ledger.tell(results)
        self._decisions = []
        over = next((result.reason for result in results if isinstance(result, OutOfTime)), "")
        if self._done:
            return []
        if over:
            self._end(over)
            return self._decisions
        for trial in told:
            self._tell(trial)
            self._end_early(trial)
        ended = [trial for trial, request in stopped if self._stop_as_asked(trial, request)]
        self._carry_out(added, extended)
        fresh = sorted({*told, *ended} - free - set(self.ledger.guests), key=lambda trial: trial.number)
        self.decide(fresh, idle)
        self._end_complete()
        if forgotten := [trial.trial_id for trial in fresh if trial.waiting]:
            raise ProcedureError(f"{type(self).__name__}.decide must decide about {', '.join(forgotten)}")
        if not self.ledger.runs:
            self._train_owed()
        if not self.ledger.runs:
            self._end("the search is over" if self.may_start else f"the search is over: {self._limit}")
        return self._decisions

    def hear(self, trial: Trial) -> None:  # noqa: B027 - most procedures read the ledger
        """Observe a trial that finished epochs or ended, in the order of the log; does nothing by default."""

    @property
    def started(self) -> int:
        """Number of configurations that the procedure has started, without those that the user added."""
        return len(self.ledger) - len(self.ledger.guests)

    @property
    def training(self) -> int:
        """Number of its configurations that train or wait for a decision."""
        return self.ledger.runs - sum(trial.running for trial in (*self.ledger.guests, *self.ledger.extended))

    @property
    def may_start(self) -> bool:
        """True if the limits allow another configuration."""
        most = self.limits.max_configurations
        return (most is None or len(self.ledger) < most) and self._granted(1) > 0

    def start(
        self, params: Mapping[str, Any], epochs: int, *, source: Source | None = None, reason: str = ""
    ) -> Trial | None:
        """Start a configuration, if the limits allow it.

        Parameters
        ----------
        params : mapping
            Configuration as plain data.
        epochs : int
            Epochs before the next decision; fewer near the limit of epochs.
        source : Source, optional
            Epoch of another trial whose state is cloned. By default the weights are new.
        reason : str
            Reason for the log. Default ``""``.

        Returns
        -------
        Trial or None
            Started trial; None where a limit is reached.
        """
        return self._start(params, epochs, source, reason) if self.may_start else None

    def carry_on(self, trial: Trial, epochs: int, reason: str = "") -> bool:
        """Continue a configuration, or stop it where the limit of epochs is reached.

        Parameters
        ----------
        trial : Trial
            Configuration to continue.
        epochs : int
            Additional epochs; fewer near the limit of epochs.
        reason : str
            Reason for the log. Default ``""``.

        Returns
        -------
        bool
            True if the configuration continues.
        """
        granted = self._granted(epochs)
        if not granted:
            self.stop(trial, self._no_epochs)
            return False
        self.ledger.carry_on(trial, granted, reason)
        trial.cut = granted < epochs
        self._decisions.append(Continue(trial.trial_id, granted, reason))
        return True

    def pause(self, trial: Trial, reason: str) -> None:
        """Pause a configuration, with a reason for the log."""
        self.ledger.rest(trial, "paused", reason)
        self._decisions.append(Pause(trial.trial_id, reason))

    def stop(self, trial: Trial, reason: str) -> None:
        """End a configuration, with a reason for the log; epochs that the user asked for follow."""
        self._finish(trial, "stopped", reason)
        if trial.owed:
            self._go_beyond(trial)

    def _carry_out(self, added: Sequence[Added], extended: Sequence[tuple[Trial, int]]) -> None:
        """Start the configurations that the user asked for, and grant those that it extends their epochs."""
        for request in added:
            self._start(request.params, request.epochs, request.source, "added by the user", guest=True)
        for trial, epochs in extended:
            trial.owed += epochs
            if not trial.competes:
                self._go_beyond(trial)

    def _end_complete(self) -> None:
        """End the trials that the procedure does not decide about, once they have trained their epochs."""
        for trial in (*self.ledger.guests, *self.ledger.extended):
            if trial.waiting:
                self.stop(trial, f"finished its {trial.granted} epochs")

    def _go_beyond(self, trial: Trial) -> None:
        """Train the epochs that the user asked for, about which the procedure decides nothing."""
        owed, trial.owed = trial.owed, 0
        if not trial.guest and not trial.extended:
            trial.extended = True
            self.ledger.extended.append(trial)
        if self._granted(1):
            self.carry_on(trial, owed, f"{owed} more epochs for the user")

    def _train_owed(self) -> None:
        """Train the epochs that the user asked for of trials that would have waited until the end."""
        for trial in [trial for trial in self.ledger if trial.live and trial.owed]:
            self.stop(trial, trial.reason)

    def _finish(self, trial: Trial, status: str, reason: str) -> None:
        self.ledger.rest(trial, status, reason)
        self._decisions.append(Stop(trial.trial_id, reason))
        self._tell(trial)

    def _start(
        self, params: Mapping[str, Any], epochs: int, source: Source | None, reason: str, *, guest: bool = False
    ) -> Trial:
        granted = self._granted(epochs)
        trial = self.ledger.start(plain(params), granted, source, reason)
        trial.cut = granted < epochs
        if guest:
            trial.guest = True
            self.ledger.guests.append(trial)
        self._decisions.append(Start(trial.trial_id, dict(trial.params), granted, source, reason))
        return trial

    def _tell(self, trial: Trial) -> None:
        if not trial.guest and not trial.extended:
            self.hear(trial)

    def _stop_as_asked(self, trial: Trial, request: Stopped) -> bool:
        if not trial.live:
            return False
        trial.owed = 0
        self.stop(trial, request.reason)
        return True

    def _extensible(self, request: Extended) -> tuple[Trial, int]:
        """Validate a request for more epochs before anything changes."""
        trial = self.ledger[request.trial_id]
        whole("epochs", request.epochs, why="It is the number of additional epochs.")
        if not trial.live and trial.status != "stopped":
            raise ProcedureError(
                f"trial_id must be a configuration that neither failed nor diverged, got {trial.trial_id}, which has "
                f"{trial.status}. Clone one of its finished epochs instead"
            )
        if not self._granted(1):
            raise ProcedureError(f"epochs must be within the limits of the search, got epochs beyond the {self._limit}")
        return trial, request.epochs

    def _checked(self, request: Added) -> Added:
        """Validate a request of the user before anything changes."""
        plain(request.params)
        whole("epochs", request.epochs, why="The configuration ends after them.")
        if request.source is not None:
            self.ledger.check_source(request.source)
        if not self.may_start:
            raise ProcedureError(
                f"a configuration must be within the limits of the search, got one beyond the {self._limit}"
            )
        return request

    @property
    def _no_epochs(self) -> str:
        return f"limit of {self.limits.max_total_epochs} epochs"

    @property
    def _limit(self) -> str:
        return f"limit of {self.limits.max_configurations} configurations" if self._granted(1) else self._no_epochs

    def _granted(self, epochs: int) -> int:
        most = self.limits.max_total_epochs
        return epochs if most is None else max(0, min(epochs, most - self.ledger.epochs))

    def _end_early(self, trial: Trial) -> None:
        if not trial.running or not trial.scores:
            return
        if WORST in trial.scores:
            metrics = trial.metrics[trial.scores.index(WORST)]
            name = next(
                each.metric for each in self.ledger.objectives if each.score(float(metrics[each.metric])) == WORST
            )
            self._finish(trial, "diverged", f"diverged: {name} is {metrics[name]}")
            return
        for stopper in () if trial.extended else self.stoppers:
            if reason := stopper.reason(trial, self.ledger):
                self.stop(trial, reason)
                return
        if trial.cut and trial.waiting:
            self.stop(trial, self._no_epochs)

    def _end(self, reason: str) -> None:
        for trial in [trial for trial in self.ledger if trial.live]:
            earlier = f"{reason}; {trial.reason}" if trial.status == "paused" else reason
            trial.owed = 0
            self.stop(trial, earlier)
        self._done = True
