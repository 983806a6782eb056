"""Probe of the user's function on the driver, so that its errors show before a worker starts."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper._labels import check_label_samples, label_samples
from cerebro_spark.hopper._read_parameters import ReadParameters
from cerebro_spark.hopper._trial_limit import run_trial
from optimizer.errors import CerebroError, nearest
from optimizer.procedures import objectives_of
from udfs.handlers import check_metric_mode, framework_of, open_session, settings_kept, training_bytes, try_step
from udfs.hopper import reason_of
from udfs.node import memory_limit
from udfs.shards import Tensors, load_rows, load_sample
from udfs.training import decide_session_task, initial_seed, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.hopper._backend import SparkBackend
    from optimizer.procedures import Objective
    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["OPENING", "Probed", "probe"]

_LOG = logging.getLogger(__name__)

# Rows that the first configuration is tried on; batch norm needs more than one.
_ROWS = 4

# A network is built with the process's random numbers, and several searches may begin at once.
OPENING = threading.Lock()
"""Lock of the driver's process in which a configuration is opened."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The first configuration that can be trained, opened on the driver."""

    session: Session
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Callable[[Mapping[str, Any]], dict[str, float]]:
        """Function that makes metrics of sums."""
        return self.session.sums.results

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Name of the model's framework, for workers to import before the user's function runs."""
        backend = framework_of(self.session.model)
        return () if backend is None else (backend.name,)

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
        objectives = objectives_of(known, mode)
        check_metric_mode(self.session, larger_is_better=objectives[0].larger_is_better)
        return objectives

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


def probe(  # noqa: PLR0913 - what an Estimator knows of its run
    trainer_fn: Callable[[dict[str, Any]], Any],
    configurations: Sequence[Mapping[str, Any]],
    prepared: PreparedData,
    seed: int,
    backend: SparkBackend,
    opened: Callable[[Session], None] | None = None,
    epochs: int | None = None,
    limit_s: float | None = None,
    *,
    by_group: bool = False,
) -> Probed:
    """Build a configuration here and train it on a few rows: the first one that can be trained.

    A configuration that cannot ends as failed in the run, wherever it is in the list, with the error that is logged
    here. The process is left as it was.

    ``opened`` is called with the session before it sees the rows. ``epochs`` is the most that a configuration trains,
    where a new search says it. ``limit_s`` limits the seconds for each configuration; see :func:`run_trial`. With
    ``by_group``, the batches of whole shards are not checked, because groups have models of their own. If no
    configuration can be trained, raise the error of the first one: TrainerError if the function raises, takes longer
    than the limit, or gives what cannot be trained on these rows or in so few epochs, LabelError if the model has no
    output for a label, InvalidArgumentError if the model is larger than a worker's memory. Raise ShardError if a shard
    is gone or empty.
    """
    prepared.check()
    rows = load_rows(prepared, "train", _ROWS)
    failures: list[tuple[Mapping[str, Any], CerebroError]] = []
    for params in configurations:
        # Code that ends the process ends the driver here, so the log says which configuration it was.
        _LOG.info("trying configuration %s on the driver", dict(params))
        try:
            with OPENING, settings_kept():
                reads = ReadParameters(trainer_fn)
                work = partial(_opened, reads, params, prepared, rows, seed, opened, epochs, by_group=by_group)
                session = run_trial(work, params, limit_s)
                _note_unread(session, params, reads.unread(configurations, params))
                _check_memory(session, backend)
        except CerebroError as error:
            failures.append((params, error))
            continue
        for failed, reason in failures:
            _LOG.warning("configuration %s cannot be trained and ends as failed: %s", dict(failed), reason)
        return Probed(session, dict(params))
    raise failures[0][1]


def _opened(
    trainer_fn: Callable[[dict[str, Any]], Any],
    params: Mapping[str, Any],
    prepared: PreparedData,
    rows: Tensors,
    seed: int,
    opened: Callable[[Session], None] | None,
    epochs: int | None,
    *,
    by_group: bool,
) -> Session:
    """Open a configuration, evaluate it on a few rows and on the ends of the labels, and train a step."""
    weighted = rows.weights is not None
    seen = prepared
    try:
        session = open_session(
            trainer_fn,
            params,
            initial_seed(seed, "probe"),
            weighted=weighted,
            epochs=epochs,
            data=prepared,
            by_group=by_group,
        )
        if opened is not None:
            opened(session)
        view = view_of(session)
        if view is not None:
            seen, rows = prepared.viewed(view), load_rows(prepared, "train", _ROWS, view=view)
            session.sums.notes += view.notes(prepared.shards)
        decide_session_task(session, load_sample(prepared, view=view), [group.name for group in seen.labels])
        check_label_samples(label_samples(seen), prepared, session)
        # Unequal ones, so that the loss has to give one number a row.
        unequal = np.arange(1, rows.rows + 1, dtype=np.float32) if weighted else None
        weighed = replace(rows, weights=unequal)
        session.evaluate(weighed)
        _check_inputs(session, seen, rows)
        _try_step(session, weighed)
    except CerebroError:
        raise
    except Exception as error:
        raise TrainerError(
            f"trainer_fn({dict(params)}) does not run on the prepared data: {type(error).__name__}: {error}. "
            f"Inputs: {_shapes(seen, rows)}{_of_integers(seen)}"
        ) from error
    return session


def _try_step(session: Session, rows: Tensors) -> None:
    """Take a training step, unless this machine has no memory for it: the workers may have more."""
    if training_bytes(session) > memory_limit()[0] // 2:
        return
    try:
        try_step(session, rows)
    except Exception as error:
        if reason_of(error) != "out of memory":
            raise


def _note_unread(session: Session, params: Mapping[str, Any], names: Sequence[str]) -> None:
    """Add a note for each parameter that differs between configurations and changes nothing in this one."""
    for name in names:
        note = f"{name!r} is not read by trainer_fn({dict(params)}), so other values of it change nothing there"
        session.sums.notes.append(note)
        _LOG.warning(note)


def _check_memory(session: Session, backend: SparkBackend) -> None:
    needed = training_bytes(session)
    if backend.memory_bytes is not None and needed > backend.memory_bytes:
        raise InvalidArgumentError(
            f"the model has {session.weight_bytes:,} bytes of weights, and training it takes about {needed:,}, more "
            f"than memory_bytes={backend.memory_bytes:,} of a worker: give workers more memory, or run fewer per "
            "machine"
        )


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
