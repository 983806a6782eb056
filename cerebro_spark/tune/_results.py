"""Results of a run for people to read: scores, tables and pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError, NoModelError
from cerebro_spark.tune._placements import placements
from cerebro_spark.tune._ranking import pareto_front, rank_key
from cerebro_spark.tune._result import TrialResult, result_of
from cerebro_spark.tune._tables import run_tables
from optimizer.errors import nearest
from optimizer.notebook import html_details, html_table, html_text
from optimizer.procedures import schedule_of
from optimizer.procedures.studies import study_of
from optimizer.space import Space
from udfs.training import TaskDecision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import optuna
    import pandas as pd
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

    from cerebro_spark.hopper import Event, Outcome, RunResult, RunSpec, Trial
    from optimizer.hopper import Placement
    from optimizer.procedures import Ledger, Schedule
    from udfs.shards import PreparedData

__all__ = ["Results"]


# Configurations that a notebook's table has.
_SHOWN = 20


@dataclass(eq=False)
class Results:
    """Configurations of a run that is over, and its course.

    Parameters
    ----------
    run : RunResult
        Result of the run.
    """

    run: RunResult

    @property
    def spec(self) -> RunSpec:
        """Settings of the run; ``spec.run`` is its id."""
        return self.run.spec

    @property
    def prepared(self) -> PreparedData:
        """Data that the run trained on."""
        return self.run.prepared

    @property
    def outcome(self) -> Outcome:
        """Units, losses and seconds of the run."""
        return self.run.outcome

    @property
    def ledger(self) -> Ledger:
        """Final knowledge of the run's procedure about the configurations, a :class:`optimizer.procedures.Ledger`."""
        return self.run.ledger

    @property
    def _trials(self) -> tuple[Trial, ...]:
        return self.run.trials

    @property
    def run_id(self) -> str:
        """Id of the run in its store."""
        return self.spec.run

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """The configurations, the best first; those that did not finish come last."""
        objectives = self.spec.objectives
        results = (result_of(trial, self.spec) for trial in self._trials)
        return tuple(sorted(results, key=lambda result: rank_key(result, objectives)))

    @property
    def best(self) -> TrialResult:
        """The best of those that finished, by their last epochs; with ``keep="best"`` and ``"epochs"`` by their best.

        Where several metrics decide, it is the best in the first one; :attr:`front` has all that are worth having.

        Raises
        ------
        NoModelError
            None did.
        """
        first = self.trials[0]
        if not pareto_front((first,), self.spec.objectives):
            statuses = "; ".join(f"{trial.trial_id} {trial.status}" for trial in self.trials)
            last = first.traceback.strip().splitlines()[-1:] or ["no number to compare"]
            raise NoModelError(
                f"all configurations ended without a {self.spec.metric}: {statuses}. Error of the first: {last[0]}"
            )
        return first

    @property
    def front(self) -> tuple[TrialResult, ...]:
        """The results no other of which is as good in all metrics and better in one, :attr:`best` first.

        By the epochs of :attr:`best`. A configuration that failed, or has no number for one of the metrics, is not
        among them.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        _ = self.best
        return pareto_front(self.trials, self.spec.objectives)

    @property
    def best_params(self) -> dict[str, Any]:
        """The params of :attr:`best`.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        return self.best.params

    @property
    def best_score(self) -> float:
        """The metric of :attr:`best`; ``spec.metric`` is its name.

        Raises
        ------
        NoModelError
            No configuration finished.
        """
        return self.best.metric

    def lineage(self, trial_id: str) -> tuple[tuple[str, int], ...]:
        """List the configurations that led to one, the first ancestor first, each with the epochs it gave.

        Parameters
        ----------
        trial_id : str
            Id of the configuration.

        Returns
        -------
        tuple of (str, int)
            Ids and epochs; the last is the configuration itself, with all epochs that it has finished.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        """
        line = self.ledger.lineage(self._known(trial_id).trial_id)
        return tuple((trial.trial_id, epochs) for trial, epochs in line)

    def schedule_of(self, trial_id: str | None = None) -> Schedule:
        """List the params that led to a configuration, for :class:`ScheduleSearch` to train alone.

        Parameters
        ----------
        trial_id : str, optional
            By default that of :attr:`best`; then up to the epoch of its metric.

        Returns
        -------
        optimizer.procedures.Schedule
            Params and epochs along its lineage.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        optimizer.procedures.ProcedureError
            It has finished no epoch.
        NoModelError
            No configuration finished.
        """
        if trial_id is None:
            return schedule_of(self.ledger, self.best.trial_id, self.best.epoch)
        return schedule_of(self.ledger, self._known(trial_id).trial_id)

    @property
    def facts(self) -> dict[str, float]:
        """Numbers of the whole run, by name, as MLflow gets them."""
        return {"seconds": self.outcome.seconds, "redone_units": self.outcome.redone}

    @property
    def unit_seconds(self) -> float:
        """Mean seconds in which a worker trained one configuration over one shard, its validation included.

        :meth:`Search.plan` makes times and costs of it. NaN where nothing was trained.
        """
        trained = sum(event.kind == "train" for event in self.outcome.events)
        return sum(event.seconds for event in self.outcome.events) / trained if trained else math.nan

    def history(self) -> dict[str, list[dict[str, float]]]:
        """List the metrics of each epoch, by trial id."""
        return {trial.trial_id: list(trial.history) for trial in self._trials}

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per trial and epoch: ``trial_id``, params, ``status``, ``epoch`` and the metrics."""
        import pandas as pd  # heavy, and not everybody asks

        rows = [
            {"trial_id": trial.trial_id, **trial.params, "status": trial.status, "epoch": epoch, **metrics}
            for trial in self.trials
            for epoch, metrics in enumerate(trial.history)
        ]
        return pd.DataFrame(rows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Read the run's record as tables: experiment, configurations, params, metrics, units, decisions, states.

        As :func:`run_tables`.
        """
        return run_tables(self.prepared.store, self.spec.run)

    def study(self, search_space: Mapping[str, Any] | Space) -> optuna.Study:
        """Make an Optuna study of the configurations, for its pictures and importances, or for a later search.

        Parameters
        ----------
        search_space : mapping or Space
            Search space of the search.

        Returns
        -------
        optuna.Study
            In memory: see :func:`optimizer.procedures.studies.study_of`.

        Raises
        ------
        InvalidArgumentError
            Optuna is not installed.
        SpaceError
            A configuration does not belong to the search space.
        """
        space = search_space if isinstance(search_space, Space) else Space(search_space)
        return study_of(space, self.ledger)

    def plot(self) -> Figure:
        """Draw learning curves: the metric by epoch, one line per configuration."""
        from cerebro_spark.tune._pictures import learning_curves  # matplotlib, where a picture is wanted

        return learning_curves(self.trials, self.spec.metric)

    def gantt(self, follow: str | None = None) -> Figure:
        """Draw which configuration trained where and when (Cerebro, Figure A.14).

        Parameters
        ----------
        follow : str, optional
            Trial id; a line joins its units: its hops.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        """
        from cerebro_spark.tune._pictures import gantt

        if follow is not None:
            self._known(follow)
        names = [trial.trial_id for trial in self._trials]
        return gantt(self.outcome.events, self.outcome.losses, follow, names)

    def interactive(self) -> go.Figure:
        """Draw learning curves with plotly: each point says its params and all of its metrics.

        Raises
        ------
        ImportError
            Plotly is not installed: the extra ``plot`` has it.
        """
        from cerebro_spark.tune._interactive import interactive_curves

        return interactive_curves(self.trials, self.spec.metric)

    def interactive_gantt(self, follow: str | None = None) -> go.Figure:
        """Draw which configuration trained where and when with plotly; a click on the legend hides one.

        Parameters
        ----------
        follow : str, optional
            Trial id; a line joins its units: its hops.

        Raises
        ------
        InvalidArgumentError
            There is no such configuration.
        ImportError
            Plotly is not installed: the extra ``plot`` has it.
        """
        from cerebro_spark.tune._interactive import interactive_gantt

        if follow is not None:
            self._known(follow)
        names = [trial.trial_id for trial in self._trials]
        return interactive_gantt(self.outcome.events, self.outcome.losses, follow, names)

    def explain(self) -> str:
        """Describe the run in words."""
        outcome, events = self.outcome, self.outcome.events
        busy = sum(event.seconds for event in events)
        trained = [event for event in events if event.kind == "train"]
        hops = [event for event in events if event.fetched_bytes and not event.from_store]
        hopped, training = sum(event.fetched_bytes for event in hops), sum(event.kind == "train" for event in hops)
        workers = sorted({event.worker for event in events})
        what = f"{len(self._trials)} configurations, {self.spec.epochs} epochs, {len(self.prepared.partitions)} shards"
        lines = [
            *self._front_in_words(),
            *([TaskDecision.from_dict(self.spec.task).explain()] if self.spec.task else []),
            f"{what} on {len(workers)} workers: {outcome.seconds:,.1f} s",
            f"  {len(trained)} training units, {len(events) - len(trained)} of validation; {busy:,.1f} s in them",
            *self._stacks_in_words(trained),
            *self._teams_in_words(trained),
            f"  {len(hops)} hops, {training} of them to train; {hopped / 2**20:,.1f} MiB in all",
            f"  {outcome.decision_seconds:.2f} s of scheduling; {outcome.checkpoint_seconds:.1f} s writing checkpoints",
            f"  {outcome.redone} units redone after {len(outcome.losses)} lost workers",
            *(f"    {loss}" for loss in outcome.losses),
            *([f"  {outcome.refused} calls refused that did not come from this run"] if outcome.refused else []),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        trials = self.trials
        metrics = [each.metric for each in self.spec.objectives]
        params = list(dict.fromkeys(name for trial in trials for name in trial.params))
        rows = [
            [trial.trial_id, *(trial.params.get(name) for name in params), trial.status, trial.epoch]
            + [trial.scores.get(metric) for metric in metrics]
            for trial in trials[:_SHOWN]
        ]
        more = html_text(f"and {len(trials) - _SHOWN} more") if len(trials) > _SHOWN else ""
        table = html_table(["trial", *params, "status", "epoch", *metrics], rows)
        return table + more + html_details(f"run {self.spec.run}", html_text(self.explain()))

    def _stacks_in_words(self, trained: Sequence[Event]) -> list[str]:
        together = [event for event in trained if event.members > 1]
        if not together:
            return []
        largest = max(event.members for event in together)
        return [f"  {len(together)} of the training units in groups of up to {largest} configurations"]

    def _teams_in_words(self, trained: Sequence[Event]) -> list[str]:
        joint = [event for event in trained if event.ranks > 1]
        if not joint:
            return []
        epochs = len({(event.trial_id, event.epoch) for event in joint})
        sent = sum(event.exchanged_bytes for event in joint) / 2**20
        most = max(event.ranks for event in joint)
        return [
            f"  {epochs} epochs on up to {most} workers together; {sent:,.1f} MiB of gradients or weights exchanged"
        ]

    def _front_in_words(self) -> list[str]:
        objectives = self.spec.objectives
        if len(objectives) == 1:
            return []
        goals = ", ".join(f"{each.metric} ({each.mode})" for each in objectives)
        rows = [
            f"  {result.trial_id}: " + ", ".join(f"{result.scores[each.metric]:.4g}" for each in objectives)
            for result in pareto_front(self.trials, objectives)
        ]
        return [f"front of {goals}:", *rows]

    def placements(self) -> dict[int, tuple[Placement, ...]]:
        """List by epoch which unit ran where and when: a replay follows it."""
        return placements(self._trials, self.outcome.events)

    def _known(self, trial_id: str) -> Trial:
        known = {trial.trial_id: trial for trial in self._trials}
        if trial_id not in known:
            raise InvalidArgumentError(
                f"trial_id must name one of the {len(known)} trials, got {trial_id!r}{nearest(trial_id, known)}"
            )
        return known[trial_id]
