"""Validation that a search is the one whose run it resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import RunError
from cerebro_spark.tune._train import metric_and_mode
from udfs.training import HELD_OUT_FOLD

if TYPE_CHECKING:
    from cerebro_spark.hopper import RunSpec
    from udfs.shards import PreparedData

__all__ = ["check_resumable", "check_same", "check_weights"]


def check_resumable(spec: RunSpec) -> None:
    """Refuse a run that cannot be resumed: a replay, whose store lacks the visits, or one that leaves folds out.

    Raises
    ------
    RunError
        It is a replay, or the cross-fitting of :func:`cerebro_spark.debugging.find_label_errors`.
    """
    if any(HELD_OUT_FOLD in configuration for configuration in spec.configs):
        raise RunError(
            f"run {spec.run!r} trains models without folds of rows, and is not resumed: call find_label_errors again"
        )
    if spec.replays:
        raise RunError(
            f"run {spec.run!r} is a replay of {spec.replays!r}, and is not resumed: call replay of that one again, "
            "with another run_id"
        )


def check_same(stored: RunSpec, current: RunSpec) -> None:
    """Refuse a search whose settings are not its run's, which would be taken in their place without a word.

    What decides, as the space and the seed, is not looked at: a decision that differs is refused when it is taken.
    """
    ours = _settings(current)
    for setting, theirs in _settings(stored).items():
        _check(stored.run, setting, theirs, ours[setting])


def check_weights(run_id: str, prepared: PreparedData, weight_column: str | None) -> None:
    """Refuse a search whose rows have other weights than its run's; the prepared data say which.

    Raises
    ------
    RunError
        They differ.
    """
    _check(run_id, "weight_column", prepared.weight_column, weight_column)


def _settings(spec: RunSpec) -> dict[str, Any]:
    """Return the settings by which the run's files are read, under the names of a search's settings."""
    several = len(spec.objectives) > 1
    return {
        **(metric_and_mode(spec) if several else {"metric": spec.metric, "mode": spec.mode}),
        "schedule": spec.policy,
        "rounds": spec.rounds,
        "keep": spec.keep,
        "checkpoints": spec.checkpoints,
        "replicas": spec.replicas,
        "hybrid": spec.hybrid.get("mode", "off"),
        "averaging_from": spec.hybrid.get("averaging_from"),
    }


def _check(run_id: str, setting: str, theirs: object, ours: object) -> None:
    if theirs != ours:
        raise RunError(
            f"run {run_id!r} has {setting}={theirs!r}, and this search {setting}={ours!r}: resume it with the run's "
            "settings"
        )
