"""Start of a run: the one way into training, for a new search, a resumed run and a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cerebro_spark.hopper import Journal, Run
from cerebro_spark.tune._tracking import Finished, tracked

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.hopper import Coordinator, Interrupts, Lease, RunContext, RunResult, RunSpec
    from cerebro_spark.tune._tracking import Followers
    from optimizer.procedures import Procedure

__all__ = ["metric_and_mode", "train", "trainer_name"]

_Result = TypeVar("_Result", bound=Finished)


def trainer_name(trainer_fn: Callable[..., Any]) -> str:
    """Name a user's function as ``module:name``, for people to recognise; nothing is imported by it."""
    return f"{getattr(trainer_fn, '__module__', '?')}:{getattr(trainer_fn, '__qualname__', '?')}"


def metric_and_mode(spec: RunSpec) -> dict[str, Any]:
    """Return the metrics that decide in a run, and their modes, as keyword arguments of a procedure."""
    return {"metric": [each.metric for each in spec.objectives], "mode": [each.mode for each in spec.objectives]}


def train(
    context: RunContext,
    procedure: Procedure,
    result_of: Callable[[RunResult], _Result],
    *,
    lease: Lease,
    interrupts: Interrupts,
    followers: Followers,
    begun: Callable[[Coordinator, RunSpec], None] | None = None,
) -> _Result:
    """Train the configurations that a procedure starts, and track the run.

    ``result_of`` makes the search's result, such as a :class:`Selection`, from that of the run. The lease is acquired
    and the interrupts are entered. ``begun`` is called with the coordinator and the settings before the first unit.

    Raises
    ------
    RunError
        The run stopped.
    """
    run = Run(
        context=context,
        procedure=procedure,
        journal=Journal(context.prepared.store, context.spec.run),
        lease=lease,
        interrupts=interrupts,
        begun=begun,
    )
    with tracked(followers, run=context.spec.run) as following:
        result = result_of(run.execute(following.callbacks))
        following.finish(result)
    return result
