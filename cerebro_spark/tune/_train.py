"""Training of what a procedure starts, the one way into a run: of a new search, a resumed run and a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cerebro_spark.hopper import Budget, Journal, Run
from cerebro_spark.tune._tracking import Finished, tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.hopper import (
        Coordinator,
        Interrupts,
        Lease,
        Outcome,
        Probed,
        Recorded,
        RunSpec,
        SparkBackend,
        Trial,
    )
    from cerebro_spark.tune._adapted import Adapted
    from cerebro_spark.tune._tracking import Followers
    from optimizer.procedures import Ledger, Procedure
    from udfs.shards import PreparedData

    _TrainerFn = Callable[[dict[str, Any]], Any]

__all__ = ["metric_and_mode", "train", "trainer_name"]

_Result = TypeVar("_Result", bound=Finished)


def trainer_name(trainer_fn: Callable[..., Any]) -> str:
    """Name a user's function as ``module:name``, for people to recognise; nothing is imported by it."""
    return f"{getattr(trainer_fn, '__module__', '?')}:{getattr(trainer_fn, '__qualname__', '?')}"


def metric_and_mode(spec: RunSpec) -> dict[str, Any]:
    """Give the metrics that decide in a run, and their modes, as a procedure takes them."""
    return {"metric": [each.metric for each in spec.objectives], "mode": [each.mode for each in spec.objectives]}


def train(  # noqa: PLR0913 - what a run is made of
    kind: Callable[[RunSpec, PreparedData, tuple[Trial, ...], Outcome, Ledger, _TrainerFn], _Result],
    spec: RunSpec,
    prepared: PreparedData,
    procedure: Procedure,
    *,
    trainer_fn: _TrainerFn,
    probed: Probed,
    backend: SparkBackend,
    lease: Lease,
    interrupts: Interrupts,
    followers: Followers,
    parameters: Mapping[str, Any],
    unit_timeout_s: float | None = None,
    budget: Budget | None = None,
    recorded: Recorded | None = None,
    begun: Callable[[Coordinator, RunSpec], None] | None = None,
    adapted: Adapted | None = None,
) -> _Result:
    """Train what a procedure starts, with those following who are to follow.

    Parameters
    ----------
    kind : type
        Of the result, as :class:`Selection`.
    spec : RunSpec
        Of a run that its journal has.
    prepared : PreparedData
    procedure : Procedure
        New.
    trainer_fn : callable
    probed : Probed
        A configuration, as it was tried on the driver.
    backend : SparkBackend
    lease : Lease
        Of the run, held.
    interrupts : Interrupts
        Of this thread, entered.
    followers : Followers
    parameters : mapping
        Settings of the search, for MLflow.
    unit_timeout_s : float, optional
    budget : Budget, optional
        Without limits by default.
    recorded : Recorded, optional
        Earlier run to follow.
    begun : callable, optional
        Called with the coordinator and the settings before the first unit.
    adapted : Adapted, optional
        How trials train together, on outputs of frozen layers. By default each trains its whole model.

    Raises
    ------
    RunError
        The run stopped.
    """
    run = Run(
        spec=spec,
        journal=Journal(prepared.store, spec.run),
        backend=backend,
        prepared=prepared,
        trainer_fn=trainer_fn,
        procedure=procedure,
        probed=probed,
        lease=lease,
        interrupts=interrupts,
        unit_timeout_s=unit_timeout_s,
        budget=budget or Budget(),
        recorded=recorded,
        begun=begun,
        grouping=None if adapted is None else adapted.grouping,
        adaptation=None if adapted is None else adapted.settings,
    )
    part = (adapted.campaign, adapted.number) if adapted is not None and adapted.campaign else None
    with tracked(followers, run=spec.run, parameters=parameters, part=part) as following:
        trials, outcome = run.execute(following.callbacks)
        result = kind(spec, prepared, tuple(trials), outcome, procedure.ledger, trainer_fn)
        following.finish(result)
    return result
