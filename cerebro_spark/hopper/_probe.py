"""Probe of the user's function on the driver, so that its errors show before a worker starts."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.errors import InvalidArgumentError, TrainerError
from optimizer.errors import CerebroError, nearest
from optimizer.procedures import objectives_of
from udfs.handlers import open_session, training_bytes
from udfs.shards import Tensors, load_rows, load_sample
from udfs.training import decide_session_task, initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper._backend import SparkBackend
    from optimizer.procedures import Objective
    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["Probed", "probe"]

# Rows that the first configuration is tried on; batch norm needs more than one.
_ROWS = 4

# A network is built with the process's random numbers, and several searches may begin at once.
_TURN = threading.Lock()


@dataclass(frozen=True, slots=True)
class Probed:
    """The first configuration, opened on the driver."""

    session: Session

    @property
    def results(self) -> Callable[[Mapping[str, Any]], dict[str, float]]:
        """Function that makes metrics of sums."""
        return self.session.sums.results

    @property
    def model_bytes(self) -> int:
        """Estimated memory of a model in training."""
        return training_bytes(self.session)

    def objectives(
        self, metric: str | Sequence[str], mode: str | Sequence[str] | None, *, validates: bool
    ) -> tuple[Objective, ...]:
        """Find the metrics that decide by their names in a history, and which way each is better.

        By default the metrics say the mode; a mode that contradicts one is taken at its word. Raise
        InvalidArgumentError if the trainer has no such metric, there are no validation rows (``validates``) to compute
        it on, or nothing states the direction of a metric.
        """
        names = [metric] if isinstance(metric, str) else list(metric)
        known = [self._known(name, validates=validates) for name in names]
        larger = self.session.sums.larger_is_better
        if mode is None:
            for name in names:
                _check_direction(name, larger[name.removeprefix("val_")])
            mode = ["max" if larger[name.removeprefix("val_")] else "min" for name in names]
        return objectives_of(known, mode)

    def _known(self, wanted: str, *, validates: bool) -> str:
        name = wanted.removeprefix("val_")
        known = list(self.session.sums.larger_is_better)
        if name not in known:
            raise InvalidArgumentError(
                f"metric must be one of the trainer's, {', '.join(known)}, got {wanted!r}{nearest(name, known)}"
            )
        if not validates and name != "loss":
            raise InvalidArgumentError(
                f"metric must be 'loss' without validation rows (test_fraction=0), got {wanted!r}"
            )
        return f"val_{name}" if validates else name


def probe(
    trainer_fn: Callable[[dict[str, Any]], Any],
    params: Mapping[str, Any],
    prepared: PreparedData,
    seed: int,
    backend: SparkBackend,
    opened: Callable[[Session], None] | None = None,
    epochs: int | None = None,
) -> Probed:
    """Build one configuration here and let it see a few rows.

    ``opened`` is called with the session before it sees the rows. ``epochs`` is the most that a configuration trains,
    where a new search says it. Raise TrainerError if the function raises, or gives what cannot be trained on these rows
    or in so few epochs, InvalidArgumentError if the model is larger than a worker's memory, and ShardError if a shard
    is gone or empty.
    """
    prepared.check()
    rows = load_rows(prepared, "train", _ROWS)
    try:
        weighted = rows.weights is not None
        with _TURN:
            session = open_session(
                trainer_fn, params, initial_seed(seed, "probe"), weighted=weighted, epochs=epochs, data=prepared
            )
            if opened is not None:
                opened(session)
            # Unequal ones, so that the loss has to give one number a row.
            unequal = np.arange(1, rows.rows + 1, dtype=np.float32) if weighted else None
            decide_session_task(session, load_sample(prepared), [group.name for group in prepared.labels])
            session.evaluate(replace(rows, weights=unequal))
            _check_inputs(session, prepared, rows)
    except CerebroError:
        raise
    except Exception as error:
        raise TrainerError(
            f"trainer_fn({dict(params)}) does not run on the prepared data: {type(error).__name__}: {error}. "
            f"Inputs: {_shapes(prepared, rows)}{_of_integers(prepared)}"
        ) from error
    probed = Probed(session)
    needed = probed.model_bytes
    if backend.memory_bytes is not None and needed > backend.memory_bytes:
        raise InvalidArgumentError(
            f"the model has {session.weight_bytes:,} bytes of weights, and training it takes about {needed:,}, more "
            f"than memory_bytes={backend.memory_bytes:,} of a worker: give workers more memory, or run fewer per "
            "machine"
        )
    return probed


def _check_inputs(session: Session, prepared: PreparedData, rows: Tensors) -> None:
    """Refuse features that the network does not read."""
    unused = getattr(session, "unused_inputs", None)
    for place in () if unused is None else unused(rows.inputs):
        name = prepared.inputs[place].name
        raise TrainerError(
            f"feature_columns must be read by the network, got the input {name!r}, which it takes and does not use. "
            "Leave it out of feature_columns, and out of the parameters of the network"
        )


def _check_direction(name: str, larger: bool | None) -> None:
    if larger is None:
        raise InvalidArgumentError(
            f"mode must be given for the metric {name!r}, because nothing states whether larger values are better, got "
            f"None. Set mode='min' or mode='max' in the search, or metrics=[metric({name.removeprefix('val_')}, "
            "maximize=...)] in the trainer"
        )


def _of_integers(prepared: PreparedData) -> str:
    names = [group.name for group in prepared.inputs if group.side_by_side and group.dtype == "int64"]
    return (
        f". {names[0]!r} is int64, being of integers alone: cast them to double for layers of floats" if names else ""
    )


def _shapes(prepared: PreparedData, rows: Tensors) -> str:
    named = [*zip(prepared.inputs, rows.inputs, strict=True), *zip(prepared.labels, rows.labels, strict=True)]
    return ", ".join(f"{group.name} {array.dtype}{array.shape}" for group, array in named)
