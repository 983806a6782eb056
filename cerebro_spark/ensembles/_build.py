"""Choice of the members of an ensemble, by their predictions on held-out rows."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from cerebro_spark.ensembles._model import EnsembleModel, MemberRecord
from cerebro_spark.ensembles._scores import Candidates, CandidateScores
from cerebro_spark.errors import InvalidArgumentError, NoModelError, TrainerError
from cerebro_spark.hopper import uses_slots
from cerebro_spark.sequences import window_facts
from optimizer.arguments import one_of, whole
from optimizer.ensembles import Choice, Elimination, choose_greedily
from udfs.ensembles import VOTES, Combination, Member, ShardPrediction, ShardPredictions
from udfs.handlers import call_trainer, settings_kept
from udfs.sequences import Windows, common_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from udfs.inference import PortableNetwork
    from udfs.shards import TensorGroup
    from udfs.training import Task

__all__ = ["EnsembleSettings", "build_ensemble"]

# Predictions that the driver receives, in 4 bytes each.
_MOST_BYTES = 2**28


class ExportedModel(Protocol):
    """Network of a configuration for other processes; :class:`TunedModel` is one."""

    @property
    def network(self) -> PortableNetwork:
        """Trained network."""

    @property
    def inputs(self) -> tuple[TensorGroup, ...]:
        """Inputs of the network."""

    @property
    def task(self) -> Task:
        """Meaning of its outputs."""

    @property
    def windows(self) -> Windows | None:
        """Windows that it reads; ``None`` for single rows."""


class Exporter(Protocol):
    """Function that exports the network of a configuration after an epoch."""

    def __call__(self, trial_id: str, epoch: int, /) -> ExportedModel:
        """Export the network."""


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """Settings of :meth:`Selection.ensemble`, which documents them.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    """

    k: int
    metrics: tuple[str, ...] = ()
    vote: str = "mean"
    replace: bool = True
    elimination: Elimination = field(default_factory=Elimination)

    def __post_init__(self) -> None:
        whole("k", self.k)
        one_of("vote", self.vote, VOTES)


def build_ensemble(
    job: ShardPredictions, settings: EnsembleSettings, searched_metric: str, export: Exporter, spark: SparkSession
) -> EnsembleModel:
    """Predict the held-out rows with all candidates on the workers, choose members, and export their networks.

    Parameters
    ----------
    job : ShardPredictions
        Candidates, in the order of their ranks, and the rows.
    settings : EnsembleSettings
        Settings of the ensemble.
    searched_metric : str
        Metric of the search, which decides unless ``settings.metrics`` does.
    export : callable
        Function that exports a configuration's network.
    spark : SparkSession
        Session whose workers predict.

    Raises
    ------
    InvalidArgumentError
        A setting does not fit the search; the job has not run. Or the candidates predict different classes, or too few
        are left.
    NoModelError
        No candidate can predict.
    BusyError
        A run of the session holds its task slots.
    """
    configurations = len(job.candidates)
    if settings.k > configurations:
        raise InvalidArgumentError(
            f"k must be at most the number of configurations with a model, {configurations}, got {settings.k}."
        )
    if not job.prepared.rows("validation"):
        raise InvalidArgumentError(
            "the search must have held-out rows to choose the members by, got test_fraction=0. Search with "
            "test_fraction=0.25"
        )
    if job.decision is not None:
        expected = Combination.from_tasks([job.decision.task], settings.vote)
        for metric in settings.metrics:
            expected.check_metric(metric)
    partitions = len(job.prepared.partitions)
    job = replace(job, most_rows=_most_rows(job), windows=_windows(job))
    with uses_slots(spark):
        rows = spark.range(0, partitions, 1, partitions).mapInArrow(job, job.schema).collect()
    return _chosen(job, settings, searched_metric, export, [ShardPrediction.from_row(row) for row in rows])


def _windows(job: ShardPredictions) -> Windows | None:
    """Return windows that contain those of all candidates; ``None`` if they read single rows."""
    views: list[Any] = []
    if job.prepared.series is not None:
        for each in job.candidates:
            # The workers report errors, as those of each candidate.
            with suppress(TrainerError), settings_kept():
                views.append(getattr(call_trainer(job.trainer_fn, each.params, job.seed), "view", None))
    windows = [view for view in views if isinstance(view, Windows)]
    return common_windows(windows) if windows else None


def _most_rows(job: ShardPredictions) -> int:
    """Return the rows of a shard whose predictions fit into the driver's memory."""
    outputs = 1 if job.decision is None else job.decision.task.num_outputs or 1
    states = sum(len(each.states) for each in job.candidates)
    return max(2, _MOST_BYTES // (4 * outputs * states * len(job.prepared.partitions)))


def _chosen(
    job: ShardPredictions,
    settings: EnsembleSettings,
    searched_metric: str,
    export: Exporter,
    predictions: Sequence[ShardPrediction],
) -> EnsembleModel:
    candidates = Candidates.from_predictions(job, predictions)
    if not candidates.usable:
        reasons = "; ".join(sorted(set(candidates.errors.values())))
        raise NoModelError(
            f"members must predict the held-out rows, got no configuration that does ({reasons}). Correct trainer_fn"
        )
    combination = Combination.from_tasks([candidates.tasks[number] for number in candidates.usable], settings.vote)
    metric = settings.metrics[0] if settings.metrics else combination.default_metric(searched_metric)
    facts = None if job.decision is None else job.decision.facts
    scores = CandidateScores(candidates, combination, combination.check_metric(metric), settings.k, facts)
    eliminated = _eliminated(candidates, scores, combination, settings)
    left = [number for number in range(len(candidates.names)) if number not in eliminated]
    choices = choose_greedily(
        scores.ensemble,
        left,
        settings.k,
        replace=settings.replace,
        larger_is_better=combination.larger_is_better(metric),
    )
    report = {"metric": metric, **_report(candidates, scores, choices, eliminated)}
    counts = Counter(choice.candidate for choice in choices)
    members, records = _members(job, candidates, scores, counts, export)
    windows = None if job.windows is None else window_facts(job.windows, job.prepared)
    return EnsembleModel.from_members(members, records, combination, report, windows)


def _eliminated(
    candidates: Candidates, scores: CandidateScores, combination: Combination, settings: EnsembleSettings
) -> dict[int, str]:
    """Return the candidates that cannot be members, with the reasons."""
    eliminated = dict(candidates.errors)
    values = {name: scores.by_block(name) for name in settings.metrics}
    directions = {name: combination.larger_is_better(name) for name in settings.metrics}
    for place, reason in settings.elimination.reasons(values, directions).items():
        eliminated[candidates.usable[place]] = reason
    left = len(candidates.names) - len(eliminated)
    if left < (1 if settings.replace else settings.k):
        reasons = "; ".join(f"{candidates.names[number][0]}: {reason}" for number, reason in eliminated.items())
        raise InvalidArgumentError(
            f"k must be at most the number of candidates that are left, {left}, got {settings.k} ({reasons}). Name "
            "fewer metrics, or pass elimination=Elimination(errors=..., spread=...) with larger limits"
        )
    return eliminated


def _report(
    candidates: Candidates, scores: CandidateScores, choices: Sequence[Choice], eliminated: Mapping[int, str]
) -> dict[str, Any]:
    """Describe the choices as plain data."""
    order = tuple(choice.candidate for choice in choices)
    steps = [
        {
            **_named(candidates.names[choice.candidate]),
            "selection_score": choice.score,
            "report_score": scores.ensemble(order[: place + 1], part=1),
        }
        for place, choice in enumerate(choices)
    ]
    table = [
        {
            **_named(name),
            "selection_score": scores.alone(number, 0) if number in candidates.tasks else math.nan,
            "report_score": scores.alone(number, 1) if number in candidates.tasks else math.nan,
            "reason": eliminated.get(number, ""),
        }
        for number, name in enumerate(candidates.names)
    ]
    # The first choice is the best candidate alone.
    best = order[0]
    ensemble = {"selection": steps[-1]["selection_score"], "report": steps[-1]["report_score"]}
    alone = {"best_selection": scores.alone(best, 0), "best_report": scores.alone(best, 1)}
    return {"scores": {**ensemble, **alone}, "steps": steps, "candidates": table}


def _members(
    job: ShardPredictions, candidates: Candidates, scores: CandidateScores, counts: Mapping[int, int], export: Exporter
) -> tuple[list[Member], list[MemberRecord]]:
    members, records = [], []
    params = {each.trial_id: each.params for each in job.candidates}
    total = sum(scores.weights[number] * count for number, count in counts.items())
    for number, count in counts.items():
        trial_id, epoch = candidates.names[number]
        exported = export(trial_id, epoch)
        weight = float(scores.weights[number] * count / total)
        inputs = exported.inputs if job.windows is None else job.prepared.viewed(job.windows).inputs
        members.append(Member(exported.network, inputs, candidates.tasks[number], weight, count, exported.windows))
        records.append(
            MemberRecord(
                trial_id,
                epoch,
                params[trial_id],
                count,
                weight,
                scores.alone(number, 0),
                scores.alone(number, 1),
            )
        )
    return members, records


def _named(name: tuple[str, int]) -> dict[str, Any]:
    return {"trial_id": name[0], "epoch": name[1]}
