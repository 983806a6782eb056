"""Validation of the settings of a search, before anything is prepared."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import CHECKPOINTS, KEEPS, ROUNDS, STACKS
from optimizer.arguments import one_of
from optimizer.hopper import POLICIES
from optimizer.hybrids import HybridSettings
from udfs.driver import argument_types, check_types
from udfs.hybrids import unshareable_reason

if TYPE_CHECKING:
    from udfs.training import Session

__all__ = ["check_hybrid", "check_settings"]


def check_settings(search: Any) -> None:
    """Validate the settings of a search that its procedure does not validate.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.
    """
    check_types(
        argument_types(type(search).__init__.__annotations__),
        {each.name: getattr(search, each.name) for each in fields(search)} | {"backend.spark": search.backend.spark},
    )
    for name, value, known in (
        ("schedule", search.schedule, POLICIES),
        ("rounds", search.rounds, ROUNDS),
        ("stack", search.stack, STACKS),
        ("keep", search.keep, KEEPS),
        ("checkpoints", search.checkpoints, CHECKPOINTS),
    ):
        one_of(name, value, known)
    if search.hybrid != "off" or search.averaging_from is not None:
        _check_workers(search)
    if search.checkpoints == "end":
        _check_end(search)
    workers = search.backend.num_workers
    if not 1 <= search.replicas <= workers:
        raise InvalidArgumentError(
            f"replicas must be between 1 and the number of workers, {workers}, got {search.replicas}"
        )
    if search.num_shards is not None and search.num_shards < workers:
        raise InvalidArgumentError(
            f"num_shards must be at least the number of workers, {workers}, got {search.num_shards}. With fewer shards "
            "some workers are idle"
        )
    _check_trainer(search)


def check_hybrid(mode: str, session: Session) -> None:
    """Validate that workers can train the first configuration together.

    Raises
    ------
    InvalidArgumentError
        They cannot, and ``mode`` requires it.
    """
    if mode in {"all_reduce", "averaging"} and (reason := unshareable_reason(session)) is not None:
        raise InvalidArgumentError(f"hybrid must be 'off' or 'auto' for this trainer_fn, got {mode!r}: {reason}.")


def _check_workers(search: Any) -> None:
    """Validate that there are workers to train together, and no other way to do so."""
    HybridSettings(search.hybrid, search.averaging_from)
    workers = search.backend.num_workers
    if workers == 1 and search.hybrid in {"all_reduce", "averaging"}:
        raise InvalidArgumentError(
            f"hybrid must be 'off' or 'auto' with one worker, got {search.hybrid!r} and num_workers=1. Set num_workers "
            "of the backend to 2 or more"
        )
    if search.stack != "off" and search.hybrid != "off":
        raise InvalidArgumentError(
            f"hybrid must be 'off' where configurations train as a stack, got {search.hybrid!r} and "
            f"stack={search.stack!r}. Set one of the two to 'off'"
        )


def _check_end(search: Any) -> None:
    """Validate that no state is needed before the end, where states are stored at the end alone."""
    reasons = {
        f"keep={search.keep!r} keeps states of earlier epochs": search.keep != KEEPS[0],
        "stoppers end configurations earlier": bool(search.stoppers),
        "a limit may end configurations earlier": search.max_total_epochs or search.max_seconds or search.max_cost,
        f"{type(search).__name__} clones configurations": search.plan().clones,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InvalidArgumentError(
                f"checkpoints must be 'visits' or 'epochs' if states are needed before the end, got 'end', and {reason}"
            )


def _check_trainer(search: Any) -> None:
    try:
        cloudpickle.dumps(search.trainer_fn)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TrainerError(
            f"trainer_fn must be picklable, so that it can be sent to the workers ({error}). Build sessions, "
            "connections and open files inside it"
        ) from error
