"""Validation of the settings of a search, before anything is prepared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pyspark import cloudpickle

from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import CHECKPOINTS, KEEPS, ROUNDS, STACKS
from optimizer.arguments import one_of
from optimizer.hopper import POLICIES
from udfs.driver import argument_types, check_types

__all__ = ["check_settings"]


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
