"""What a search brought: the configurations with their histories, the best model, and how the run went."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError, NoModelError, RunError
from cerebro_spark.hopper import Journal, Run, RunSpec, Trial, probe
from cerebro_spark.tune._model import TunedModel
from cerebro_spark.tune._tracking import tracked
from optimizer.errors import nearest
from optimizer.hopper import Placement, Unit
from udfs.hopper import Checkpoints
from udfs.shards import PreparedData
from udfs.training import initial_seed, open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from matplotlib.figure import Figure

    from cerebro_spark.hopper import Outcome, SparkBackend
    from udfs.store import Store

__all__ = ["Selection", "TrialResult"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One configuration.

    Attributes
    ----------
    config : str
        Its id.
    params : dict
    status : str
        ``"finished"``, or why not: ``"raised"``, ``"diverged"``, ``"out of memory"``, ``"killed its workers"``,
        ``"lost its state"``.
    metric : float
        The evaluation metric after its last epoch; NaN where it has none.
    history : list of dict
        By epoch: the training loss, and loss and metrics of validation with ``val_`` before the name.
    visits : tuple of (int, int)
        Epoch and partition of each unit, in the order of training.
    seconds : float
        In training units.
    traceback : str
        Why it ended early, in its worker's words.
    """

    config: str
    params: dict[str, Any]
    status: str
    metric: float
    history: list[dict[str, float]]
    visits: tuple[tuple[int, int], ...]
    seconds: float
    traceback: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of :meth:`GridSearch.fit`.

    Attributes
    ----------
    spec : RunSpec
        What was asked for; ``spec.run`` is the id of the run.
    prepared : PreparedData
    outcome : Outcome
        What it took: units, losses, seconds.
    """

    spec: RunSpec
    prepared: PreparedData
    _trials: tuple[Trial, ...]
    outcome: Outcome
    trainer_fn: Callable[[dict[str, Any]], Any]

    @property
    def run_id(self) -> str:
        """Of the run, in its store."""
        return self.spec.run

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The configurations, the best first; those that did not finish come last."""
        return tuple(sorted(map(self._result, self._trials), key=self._place))

    @property
    def best(self) -> TrialResult:
        """The best of those that finished.

        Raises
        ------
        NoModelError
            None did.
        """
        first = self.trials[0]
        if first.status != "finished" or first.metric != first.metric:
            said = "; ".join(f"{one.config} {one.status}" for one in self.trials)
            last = first.traceback.strip().splitlines()[-1:] or ["no number to compare"]
            raise NoModelError(f"no configuration finished with a {self.spec.metric}: {said}. The first one: {last[0]}")
        return first

    @property
    def best_model(self) -> TunedModel:
        """The best configuration's network, as a Spark ML Transformer."""
        return self.model(self.best.config)

    def model(self, config: str) -> TunedModel:
        """A configuration's network after its last unit, as a Spark ML Transformer.

        Parameters
        ----------
        config : str
            Its id.

        Raises
        ------
        NoModelError
            There is no such configuration, or it has not been trained at all.
        """
        trial = next((one for one in self._trials if one.config == config), None)
        if trial is None or not trial.version:
            raise NoModelError(
                f"{config!r} has no model: configurations {', '.join(one.config for one in self._trials)}"
            )
        session = open_session(self.trainer_fn, trial.params, initial_seed(self.spec.seed, config))
        session.restore(
            Checkpoints(self.prepared.store, self.spec.run).read(config, trial.kept, trial.digests[trial.kept])
        )
        return TunedModel.of(session, self.prepared)

    def history(self) -> dict[str, list[dict[str, float]]]:
        """By configuration: an entry an epoch."""
        return {trial.config: list(trial.history) for trial in self._trials}

    def to_pandas(self) -> pd.DataFrame:
        """A row a configuration and epoch: id, params, epoch, and its numbers."""
        import pandas as pd  # noqa: PLC0415 - heavy, and not everybody asks

        rows = [
            {"config": trial.config, **trial.params, "status": trial.status, "epoch": epoch, **numbers}
            for trial in self.trials
            for epoch, numbers in enumerate(trial.history)
        ]
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Learning curves: the evaluation metric by epoch, a line a configuration."""
        from cerebro_spark.tune._pictures import learning_curves  # noqa: PLC0415 - matplotlib, where a picture is wanted

        return learning_curves(self.trials, self.spec.metric)

    def gantt(self, follow: str | None = None) -> Figure:
        """Which configuration trained where and when (Cerebro, Figure A.14).

        Parameters
        ----------
        follow : str, optional
            Id of a configuration; a line joins its units: its hops.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        """
        from cerebro_spark.tune._pictures import gantt  # noqa: PLC0415

        known = [trial.config for trial in self._trials]
        if follow is not None and follow not in known:
            raise InvalidArgumentError(f"no configuration {follow!r}{nearest(follow, known)}; there are {len(known)}")
        return gantt(self.outcome.events, self.outcome.losses, follow)

    def explain(self) -> str:
        """The run in words."""
        outcome, events = self.outcome, self.outcome.events
        busy = sum(event.seconds for event in events)
        trained = [event for event in events if event.kind == "train"]
        hops = [event for event in events if event.fetched_bytes and not event.from_store]
        hopped, training = sum(event.fetched_bytes for event in hops), sum(event.kind == "train" for event in hops)
        workers = sorted({event.worker for event in events})
        what = f"{len(self._trials)} configurations, {self.spec.epochs} epochs, {len(self.prepared.partitions)} shards"
        lines = [
            f"{what} on {len(workers)} workers: {outcome.seconds:,.1f} s",
            f"  {len(trained)} training units, {len(events) - len(trained)} of validation; {busy:,.1f} s in them",
            f"  {len(hops)} hops, {training} of them to train; {hopped / 2**20:,.1f} MiB in all",
            f"  {outcome.decision_seconds:.2f} s of scheduling; {outcome.kept_seconds:.1f} s of states written",
            f"  {outcome.redone} units redone after {len(outcome.losses)} lost workers",
            *(f"    {loss}" for loss in outcome.losses),
            *([f"  {outcome.refused} calls refused that were not this run's own"] if outcome.refused else []),
        ]
        return "\n".join(lines)

    @classmethod
    def resume(
        cls,
        store: Store,
        run_id: str,
        *,
        backend: SparkBackend,
        trainer_fn: Callable[[dict[str, Any]], Any] | None = None,
        num_epochs: int | None = None,
        unit_timeout_s: float | None = None,
        experiment: str | None = None,
        tensorboard: str | None = None,
        progress: bool = True,
    ) -> Selection:
        """Go on with a run that stopped, from the last states that its store has.

        Parameters
        ----------
        store : Store
        run_id : str
        backend : SparkBackend
        trainer_fn : callable, optional
            The function that the run began with; where it lies in a module that can be imported here, it is found.
        num_epochs : int, optional
            More epochs than the run began with.
        unit_timeout_s, experiment, tensorboard, progress
            As for :class:`GridSearch`; MLflow gets a run of its own with the whole history.

        Returns
        -------
        Selection

        Raises
        ------
        RunError
            There is no such run, or its function is neither given nor found.
        """
        journal = Journal(store, run_id)
        spec = journal.spec()
        if num_epochs is not None:
            spec = replace(spec, epochs=max(num_epochs, spec.epochs))
        prepared = PreparedData.load(store, spec.prepared)
        trainer_fn = trainer_fn or _imported(spec.trainer)
        trials = journal.trials(spec)
        for trial in trials:
            if trial.status == "finished" and len(trial.history) < spec.epochs:
                trial.status = "running"
        backend.admit()
        probed = probe(trainer_fn, spec.configs[0], prepared, spec.seed, backend)
        run = Run(spec, journal, backend, prepared, trainer_fn, trials, probed, progress, unit_timeout_s=unit_timeout_s)
        return tracked(
            lambda followers: cls(spec, prepared, tuple(trials), run.execute(followers), trainer_fn),
            experiment=experiment,
            tensorboard=tensorboard,
            run=run_id,
            parameters={"resumed": run_id, "num_epochs": spec.epochs, "seed": spec.seed},
        )

    def replay(self, *, backend: SparkBackend, run_id: str | None = None, progress: bool = True) -> Selection:
        """Train everything once more, with every visit where and in the order in which it was: the same bits.

        A configuration that ended before its time is not tried again; it is as it was.

        Parameters
        ----------
        backend : SparkBackend
            Of as many workers.
        run_id : str, optional
            Of the new run; ``<run>-replay`` by default.
        progress : bool

        Returns
        -------
        Selection

        Raises
        ------
        RunError
            There is a run of that id.
        """
        spec = replace(self.spec, run=run_id or f"{self.spec.run}-replay")
        journal = Journal(self.prepared.store, spec.run)
        backend.admit()
        probed = probe(self.trainer_fn, spec.configs[0], self.prepared, spec.seed, backend)
        journal.begin(spec)
        trials = [
            Trial(before.config, before.params)
            if before.status == "finished"
            else Trial(before.config, before.params, before.status, before.traceback)
            for before in self._trials
        ]
        finished = {trial.config for trial in trials if trial.running}
        run = Run(
            spec,
            journal,
            backend,
            self.prepared,
            self.trainer_fn,
            trials,
            probed,
            progress,
            replay={
                epoch: tuple(placement for placement in placements if placement.unit.config in finished)
                for epoch, placements in self.placements().items()
            },
        )
        return replace(self, spec=spec, _trials=tuple(trials), outcome=run.execute())

    def placements(self) -> dict[int, tuple[Placement, ...]]:
        """By epoch: which unit ran where and when; what a replay follows."""
        found: dict[int, list[Placement]] = {}
        for event in self.outcome.events:
            if event.kind == "train":
                unit = Unit(event.trial_id, event.partition)
                found.setdefault(event.epoch, []).append(Placement(unit, event.worker, event.began, event.ended))
        return {epoch: tuple(placements) for epoch, placements in found.items()}

    def _result(self, trial: Trial) -> TrialResult:
        last = trial.history[-1].get(self.spec.metric) if trial.history else None
        return TrialResult(
            trial.config,
            dict(trial.params),
            trial.status,
            float("nan") if last is None else last,
            list(trial.history),
            tuple(trial.visits),
            trial.seconds,
            trial.traceback,
        )

    def _place(self, result: TrialResult) -> tuple[bool, float, str]:
        known = result.status == "finished" and result.metric == result.metric
        return (
            not known,
            (-result.metric if self.spec.larger_is_better else result.metric) if known else 0.0,
            result.config,
        )


def _imported(name: str) -> Callable[[dict[str, Any]], Any]:
    module, _, attribute = name.partition(":")
    try:
        if module == "__main__":
            raise ImportError("it was defined in a script or a notebook")  # noqa: TRY301 - the same message
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise RunError(f"the run's trainer_fn, {name}, cannot be imported here ({error}): give trainer_fn") from error
    function: Callable[[dict[str, Any]], Any] = found
    return function
