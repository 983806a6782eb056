"""Experiment: a search that runs in the background, and its control by the user."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from concurrent import futures
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.hopper import Interrupts
from cerebro_spark.steering.runner import attach_runner
from cerebro_spark.tune._result import TrialResult, result_of
from optimizer.errors import nearest
from optimizer.procedures import Added, Extended, ProcedureError, Source, Start, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.hopper import Coordinator, RunSpec
    from cerebro_spark.steering.runner import Connection, Runner
    from cerebro_spark.tune._selection import Selection
    from optimizer.procedures import Decision, Origin, UserRequest

    Begun = Callable[[Coordinator, RunSpec], None]

__all__ = ["Experiment"]

_LOG = logging.getLogger(__name__)

# Seconds for the report of an error, or of an interrupt by the user, who waits.
_FAILED_S = 5.0
# Between two looks at whether only paused configurations are left.
_LOOK_S = 0.5


class Experiment:
    """Search that runs in the background; :meth:`Search.start` starts it.

    The user may add and stop configurations meanwhile. Requests are written to the store before they are carried out,
    so that :meth:`Search.resume` continues a stopped run with them; pauses and priorities end with the driver. The
    procedure does not decide about configurations that the user adds: they train the epochs of the request. Stoppers
    and limits apply to them, and one of them may be the best.

    Several experiments on equal backends of one session share the workers.

    Every method may be called from any thread. The first ones wait until the data are prepared.

    Parameters
    ----------
    run_id : str
        Name of the run in its store.
    epochs : int
        Default number of epochs of a configuration that the user adds.
    search : callable
        Runs the search; calls its argument with the coordinator and the settings of the run.
    connection : Connection, optional
        Server whose users steer the search. By default none.
    details : mapping, optional
        Plain data for the server's pages. By default none.
    background : bool
        Whether the search runs in a thread (the default), or before the constructor returns.

    Examples
    --------
    >>> def follow(search, df):
    ...     experiment = search.start(df)
    ...     experiment.stop("c001")
    ...     experiment.add({"lr": 0.01, "hidden": 64}, epochs=5)
    ...     return experiment.wait().best
    """

    def __init__(
        self,
        run_id: str,
        epochs: int,
        search: Callable[[Begun], Selection],
        *,
        connection: Connection | None = None,
        details: Mapping[str, Any] | None = None,
        background: bool = True,
    ) -> None:
        self.run_id = run_id
        self._epochs = epochs
        self._connection, self._details = connection, dict(details or {})
        self._runner: Runner | None = None
        self._begun: futures.Future[tuple[Coordinator, RunSpec]] = futures.Future()
        self._selection: futures.Future[Selection] = futures.Future()
        if background:
            # The interpreter may end without it: the run can be resumed.
            context = contextvars.copy_context()  # in which the caller may cancel trials
            threading.Thread(
                target=context.run, args=(self._run, search), name=f"experiment {run_id}", daemon=True
            ).start()
        else:
            self._run(search)

    def _run(self, search: Callable[[Begun], Selection]) -> None:
        try:
            selection = search(self._begin)
            self._report_end("")
        except BaseException as error:  # noqa: BLE001 - raised again in wait()
            self._report_end(f"{type(error).__name__}: {error}", limit_s=_FAILED_S)
            self._selection.set_exception(error)
            if not self._begun.done():
                self._begun.set_exception(error)
        else:
            self._selection.set_result(selection)
            if not self._begun.done():
                self._begun.set_exception(RunError(f"run {self.run_id!r} had nothing to train"))

    def _begin(self, coordinator: Coordinator, spec: RunSpec) -> None:
        self._begun.set_result((coordinator, spec))
        if self._connection is not None:
            self._runner = attach_runner(self._connection, coordinator.context, self, self._details)

    def _report_end(self, error: str, **limit: float) -> None:
        if self._runner is not None:
            self._runner.close(error, **limit)

    @property
    def done(self) -> bool:
        """True if the search is over, or has failed."""
        return self._selection.done()

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The configurations as they are now, in the order of their starts."""
        coordinator, spec = self._begun.result()
        return tuple(result_of(trial, spec) for trial in list(coordinator.trials))

    def stop(self, trial_id: str, *, origin: Origin | None = None) -> None:
        """End a configuration; the epochs that it has finished count.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.
        origin : Origin, optional
            Command of a server, which is carried out once: a second call with its id changes nothing. By default none.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, or it has ended.
        RunError
            The search is over.
        """

        def stopped() -> Stopped:
            self._attached().find(trial_id, live=True)
            return Stopped(trial_id, f"stopped by {_user(origin)}", origin)

        self._request(stopped, origin)

    def extend(self, trial_id: str, epochs: int, *, origin: Origin | None = None) -> None:
        """Train a configuration for more epochs after those of the procedure, which decides nothing about them.

        Parameters
        ----------
        trial_id : str
            Id of the configuration, which may have ended.
        epochs : int
            Number of additional epochs.
        origin : Origin, optional
            As for :meth:`stop`.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, it has failed, ``epochs`` is no number of epochs, or a limit is reached.
        RunError
            The search is over.
        """
        self._request(lambda: Extended(self._attached().find(trial_id).trial_id, epochs, origin), origin)

    def add(self, params: Mapping[str, Any], *, epochs: int | None = None, origin: Origin | None = None) -> str:
        """Train another configuration.

        Parameters
        ----------
        params : mapping
            Plain data.
        epochs : int, optional
            By default as many as the search gives its best ones.
        origin : Origin, optional
            As for :meth:`stop`; a second call with its id returns the same configuration.

        Returns
        -------
        str
            Its id.

        Raises
        ------
        InvalidArgumentError
            The params are no plain data, ``epochs`` is no number of epochs, or a limit is reached.
        RunError
            The search is over.
        """
        request = Added(dict(params), self._epochs if epochs is None else epochs, origin=origin)
        return self._started(lambda: request, origin)

    def clone(
        self,
        trial_id: str,
        /,
        params: Mapping[str, Any] | None = None,
        *,
        epoch: int | None = None,
        epochs: int | None = None,
        origin: Origin | None = None,
        **changes: Any,
    ) -> str:
        """Train a copy of a configuration on from one of its epochs, with other hyperparameters.

        Weights, buffers, and the optimizer's moments and step counts are those of that epoch, all hyperparameters the
        new ones.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.
        params : mapping, optional
            Values that differ, by name.
        epoch : int, optional
            Counted from 1; by default the last that it has finished.
        epochs : int, optional
            Number of epochs that the clone trains; by default the number that the best trials of the search get.
        origin : Origin, optional
            As for :meth:`add`.
        **changes
            The same as ``params``.

        Returns
        -------
        str
            Id of the clone.

        Raises
        ------
        InvalidArgumentError
            No such configuration or parameter, or the store has no state of that epoch: it is not finished yet, or the
            search keeps the last ones alone (``keep="epochs"`` keeps all).
        RunError
            The search is over.
        """
        trial = self._attached().find(trial_id)
        values = {**(params or {}), **changes}
        for name in values:
            if name not in trial.params:
                raise InvalidArgumentError(f"{trial_id} has no parameter {name!r}{nearest(name, trial.params)}")

        def added() -> Added:
            source = Source(trial_id, len(trial.history) if epoch is None else epoch)
            granted = self._epochs if epochs is None else epochs
            return Added({**trial.params, **values}, granted, source, origin)

        return self._started(added, origin)

    def pause(self, trial_id: str) -> None:
        """Pause a configuration once the unit in flight has ended.

        A procedure that compares it with others waits for it.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, it has ended, or it is paused already.
        RunError
            The search is over.
        """
        self._attached().set_paused(trial_id, paused=True)

    def resume(self, trial_id: str) -> None:
        """Resume a paused configuration.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, or it is not paused.
        RunError
            The search is over.
        """
        self._attached().set_paused(trial_id, paused=False)

    def prioritise(self, trial_id: str) -> None:
        """Assign a configuration's units before those of all others that are not prioritised too.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration, or it has ended.
        RunError
            The search is over.
        """
        self._attached().prioritise(trial_id)

    def end(self, *, origin: Origin | None = None) -> None:
        """End the search: every configuration keeps the epochs that it has finished.

        Parameters
        ----------
        origin : Origin, optional
            As for :meth:`stop`.

        Raises
        ------
        RunError
            The search is over.
        """
        try:
            self._attached().out_of_time(f"ended by {_user(origin)}", origin).result()
        except (RuntimeError, futures.CancelledError) as error:
            raise self._over() from error

    def wait(self, timeout_s: float | None = None) -> Selection:
        """Wait for the end of the search.

        An interrupt ends the waiting; the search goes on.

        Parameters
        ----------
        timeout_s : float, optional
            Default none.

        Returns
        -------
        Selection
            Result of the search.

        Raises
        ------
        TimeoutError
            The search goes on.
        InvalidArgumentError
            Only configurations are left that are paused, and no server whose users could resume them: resume or stop
            them.
        RunError
            The run stopped; and whatever else :meth:`Search.fit` raises.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        reported: tuple[str, ...] = ()
        with Interrupts():
            while True:
                left = _LOOK_S if until is None else min(_LOOK_S, max(0.0, until - time.monotonic()))
                futures.wait([self._selection], left)
                if self._selection.done():
                    return self._selection.result()
                paused = self._paused_alone()
                if paused and self._connection is None:
                    raise InvalidArgumentError(
                        f"only paused configurations are left: {', '.join(paused)}; resume or stop them"
                    )
                if paused and paused != reported:
                    _LOG.warning("run %s waits until a user resumes or stops %s", self.run_id, ", ".join(paused))
                reported = paused
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"run {self.run_id!r} is not over after {timeout_s:g} s; it goes on")

    def _paused_alone(self) -> tuple[str, ...]:
        known = self._begun.done() and self._begun.exception() is None
        return self._begun.result()[0].only_paused_left if known else ()

    def _attached(self) -> Coordinator:
        coordinator, _ = self._begun.result()
        if self._selection.done():
            raise self._over()
        return coordinator

    def _started(self, request: Callable[[], Added], origin: Origin | None) -> str:
        return next(decision.trial_id for decision in self._request(request, origin) if isinstance(decision, Start))

    def _request(self, request: Callable[[], UserRequest], origin: Origin | None) -> tuple[Decision, ...]:
        try:
            return self._attached().request(request, origin).result()
        except ProcedureError as error:
            if self._selection.done():
                raise self._over() from error
            raise InvalidArgumentError(str(error)) from error
        except (RuntimeError, futures.CancelledError) as error:
            raise self._over() from error

    def _over(self) -> RunError:
        return RunError(f"run {self.run_id!r} is over: nothing can be asked of it")


def _user(origin: Origin | None) -> str:
    return origin.user if origin is not None and origin.user else "the user"
