"""A trainer of Keras, opened where its frozen layers end."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from keras.layers import Lambda

from optimizer.errors import CerebroError, GraphError
from optimizer.graph import frontier, materialisable
from udfs.handlers._adapted_trainer import Cut, Phase, open_phases, trained_whole, unchanged, with_columns
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers._read_inputs import read_specs
from udfs.handlers._record_checks import check_trunk
from udfs.handlers.keras._branch_session import BranchSession
from udfs.handlers.keras._call_graph import is_functional
from udfs.handlers.keras._capture import capture
from udfs.handlers.keras._fingerprint import structure
from udfs.handlers.keras._graph import layer_graph
from udfs.handlers.keras._measure import BATCHES, measure
from udfs.handlers.keras._model import KerasModel
from udfs.handlers.keras._names import value_names
from udfs.handlers.keras._record_independence import keeps_records_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from optimizer.graph import LayerGraph
    from udfs.handlers._adapted_trainer import Adapted
    from udfs.handlers.keras._capture import Capture
    from udfs.handlers.keras._measure import Measure
    from udfs.tensors import TensorSpec
    from udfs.training import Trainer

__all__ = ["open_adapted"]

# A class of the user's that has its own of these does with a batch what Keras would not.
_STEPS = (
    *("train_step", "test_step", "predict_step", "train_on_batch", "make_train_function"),
    *("compute_loss", "compute_metrics", "__call__"),
)

# Measures of the architectures of a search, by structure: with places for the ids of variables.
_KEPT = 64
_NOBODY = -1
_known: dict[str, list[Measure]] = {}


def open_adapted(
    trainer: Trainer,
    inputs: Sequence[TensorSpec],
    columns: Sequence[str],
    device: str,
    placed: Callable[[], AbstractContextManager[None]],
) -> Adapted:
    """Open a trainer; see :meth:`udfs.handlers.Framework.open_adapted`, and :class:`KerasSession` for ``placed``."""
    session = BranchSession(trainer, placed)
    slots = _slots(session)
    try:
        _check_own(trainer)
        return _opened(trainer, session, inputs, columns, device, slots)
    except (UntraceableModelError, GraphError) as error:
        return trained_whole(session, trainer, inputs, columns, str(error), slots=slots)
    except (CerebroError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except Exception as error:  # noqa: BLE001 - opening runs the user's layers, which may raise anything
        reason = next(iter(str(error).splitlines()), "")
        why = f"opening {trainer.model.name} into layers ended in {type(error).__name__}: {reason}"
        return trained_whole(session, trainer, inputs, columns, why, slots=slots)


def _opened(
    trainer: Trainer,
    session: BranchSession,
    inputs: Sequence[TensorSpec],
    columns: Sequence[str],
    device: str,
    slots: int,
) -> Adapted:
    phases: list[Phase] = []
    learned: frozenset[int] = frozenset()
    for epoch in sorted({0, *trainer.freeze_until}):
        with session.phase(epoch) as learning:
            learned |= learning
            constant = None if not phases else phases[-1].cut.constant
            phases.append(_phase(trainer.model, (inputs, columns, device), epoch, learned, constant))
    return open_phases(trainer, session, phases, slots)


def _phase(
    model: Any,
    described: tuple[Sequence[TensorSpec], Sequence[str], str],
    epoch: int,
    learned: frozenset[int],
    constant: frozenset[str] | None,
) -> Phase:
    """Trace a model as it trains in a phase; `constant` are the layers that no phase before has changed."""
    inputs, columns, device = described
    # The session divides pixels by 255.
    read = read_specs(inputs)
    captured = capture(model, read, training=True)
    measures = _measured(captured, read, model)
    traced = KerasModel(captured, read, device)
    traced.graph = layer_graph(captured, measures, learned)
    shown = unchanged(with_columns(traced.graph, inputs, columns), constant)
    _check_effects(captured, measures[0], shown)
    moving = frozenset[int]().union(*(effects.moves for effects in measures[0].effects))
    feeds = frontier(shown)
    if set(feeds) == set(shown.inputs):
        return Phase(Cut(epoch, shown, shown.inputs, traced), None, moving)
    run = traced.branch(feeds)
    if not all(map(keeps_records_apart, traced.trunk(feeds))):
        check_trunk(shown, traced, dict(zip(shown.inputs, read, strict=True)), feeds)
    pixels = [place for place, name in enumerate(feeds) if name in shown.inputs]
    return Phase(Cut(epoch, shown, feeds, traced), (run, pixels), moving)


def _measured(captured: Capture, inputs: Sequence[TensorSpec], model: Any) -> list[Measure]:
    """Measure a model in training; of candidates with one architecture, made of Keras's layers, only the first."""
    layers = model._flatten_layers()
    if not all(type(layer).__module__.startswith("keras.") and not isinstance(layer, Lambda) for layer in layers):
        return [measure(captured, inputs, batch, model) for batch in BATCHES]
    variables = {id(variable): place for place, variable in enumerate(model.variables)}
    key = f"{structure(captured, model)} {inputs}"
    if key not in _known:
        made = [measure(captured, inputs, batch, model) for batch in BATCHES]
        _known[key] = [_renamed(measure_, {**variables, 0: _NOBODY}) for measure_ in made]
        while len(_known) > _KEPT:
            _known.pop(next(iter(_known)))
    ids = {place: variable for variable, place in variables.items()}
    return [_renamed(measure_, {**ids, _NOBODY: 0}) for measure_ in _known[key]]


def _renamed(measured: Measure, names: Mapping[int, int]) -> Measure:
    """Call the variables that the steps move by other names: ids, or places among a model's variables."""
    effects = [replace(done, moves=frozenset(map(names.__getitem__, done.moves))) for done in measured.effects]
    return replace(measured, effects=effects)


def _check_own(trainer: Trainer) -> None:
    """Refuse a model that does more with a batch than Keras's own steps."""
    model, kind = trainer.model, type(trainer.model)
    if trainer.freeze_until and getattr(model.optimizer, "ema_overwrite_frequency", None):
        raise UntraceableModelError(
            "its optimizer overwrites weights with their averages (ema_overwrite_frequency), those of frozen layers too"
        )
    if not is_functional(model):
        raise UntraceableModelError(
            f"{kind.__name__} has a call of its own, which may take another way in training: build the model with "
            "keras.Model(inputs, outputs) or keras.Sequential"
        )
    overridden = [name for name in _STEPS if not str(getattr(kind, name).__module__).startswith("keras.")]
    if overridden:
        raise UntraceableModelError(
            f"{kind.__name__} has a {overridden[0]} of its own, which reads the whole model's inputs"
        )
    if model.compute_dtype != model.variable_dtype:
        raise UntraceableModelError(
            f"{model.name} computes in {model.compute_dtype} and keeps {model.variable_dtype}: its inputs are "
            "converted before any layer"
        )


def _check_effects(captured: Capture, measured: Measure, graph: LayerGraph) -> None:
    """Refuse what a stored tensor would not have: a mask beside it, a part of the loss, states that no model holds."""
    names = value_names(captured)
    constant = set(materialisable(graph))
    for step, done in zip(captured.steps, measured.effects, strict=True):
        layer = f"layer {step.path!r}"
        if 0 in done.moves:
            raise UntraceableModelError(
                f"{layer} changes a variable that the model does not hold: give what draws random numbers a "
                "keras.random.SeedGenerator of its own"
            )
        if constant.isdisjoint(names[index] for index in step.writes):
            continue
        if done.adds_loss:
            raise UntraceableModelError(f"{layer} is frozen and adds to the loss, as an activity regularizer does")
        if measured.masked.intersection(step.writes):
            raise UntraceableModelError(f"{layer} is frozen and hands on a mask, which is no part of its tensor")


def _slots(session: BranchSession) -> int:
    """Count the tensors that the optimizer keeps for each variable, of its shape."""
    learn = Counter(tuple(variable.shape) for variable in session.model.trainable_variables)
    kept = Counter(tuple(variable.shape) for variable in session.model.optimizer.variables)
    return max((kept[shape] // count for shape, count in learn.items() if shape), default=0)
