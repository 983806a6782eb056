"""Whether a search is the one whose run it resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.errors import RunError

if TYPE_CHECKING:
    from cerebro_spark.hopper import RunSpec
    from udfs.shards import PreparedData

__all__ = ["check_no_replay", "check_same", "check_weights"]

# A search's settings, by the user's name, and the field of the run that has them. The run's files are read by them.
_SETTINGS = {
    "metric": "metric",
    "mode": "mode",
    "metrics beside the first": "others",
    "schedule": "policy",
    "rounds": "rounds",
    "keep": "keep",
    "replicas": "replicas",
}


def check_no_replay(spec: RunSpec) -> None:
    """Refuse a run that repeats another: its store has not the visits that are to be repeated.

    Parameters
    ----------
    spec : RunSpec

    Raises
    ------
    RunError
        It is a replay.
    """
    if spec.replays:
        raise RunError(
            f"run {spec.run!r} is a replay of {spec.replays!r}, and is not resumed: call replay of that one again, "
            "with another run_id"
        )


def check_same(stored: RunSpec, own: RunSpec) -> None:
    """Refuse a search whose settings are not its run's, which would be taken in their place without a word.

    What decides, as the space and the seed, is not looked at: a decision that differs is refused when it is taken.

    Parameters
    ----------
    stored : RunSpec
        Of the run.
    own : RunSpec
        As this search would begin it.

    Raises
    ------
    RunError
        A setting differs.
    """
    for setting, field in _SETTINGS.items():
        _check(stored.run, setting, getattr(stored, field), getattr(own, field))


def check_weights(run_id: str, prepared: PreparedData, weight_column: str | None) -> None:
    """Refuse a search whose rows have other weights than its run's; the prepared data say which.

    Parameters
    ----------
    run_id : str
    prepared : PreparedData
        Of the run.
    weight_column : str, optional
        Of the search.

    Raises
    ------
    RunError
        They differ.
    """
    _check(run_id, "weight_column", None if prepared.weights is None else prepared.weights.name, weight_column)


def _check(run_id: str, setting: str, theirs: object, ours: object) -> None:
    if theirs != ours:
        raise RunError(
            f"run {run_id!r} has {setting}={theirs!r}, and this search {setting}={ours!r}: resume it with the run's "
            "settings"
        )
