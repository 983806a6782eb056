"""A trainer of torch, opened where its frozen layers end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.errors import GraphError
from optimizer.graph import LayerGraph, frontier
from udfs.handlers._adapted import OpenedModel, frozen_hash, trained_whole, with_columns
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers._records import check_trunk
from udfs.handlers.torch._adoption import used_slots
from udfs.handlers.torch._branch_session import Branch, BranchSession
from udfs.handlers.torch._fx import capture_training, check_training
from udfs.handlers.torch._graph import held_tensors, layer_graph
from udfs.handlers.torch._measure import BATCHES, Measure, common_strides, measure
from udfs.handlers.torch._model import TorchModel
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import fx

    from udfs.handlers import Adapted, Trainer
    from udfs.handlers._protocol import TensorSpec

__all__ = ["open_adapted"]


def open_adapted(trainer: Trainer, inputs: Sequence[TensorSpec], columns: Sequence[str], device: str) -> Adapted:
    """Open a trainer; see :meth:`udfs.handlers.Framework.open_adapted`."""
    session = BranchSession(trainer, device)
    if not session.learning:
        raise TrainerError(
            f"nothing of {type(trainer.model).__name__} learns: the optimizer has no parameter that requires a gradient"
        )
    slots = _slots(trainer)
    if trainer.freeze_until:
        why = "freeze_until moves the part that learns from epoch to epoch, and one cut serves all epochs"
        return trained_whole(session, trainer, inputs, columns, why, slots=slots)
    try:
        return _opened(trainer, session, inputs, columns, slots)
    except (UntraceableModelError, GraphError) as error:
        return trained_whole(session, trainer, inputs, columns, str(error), slots=slots)


def _opened(
    trainer: Trainer, session: BranchSession, inputs: Sequence[TensorSpec], columns: Sequence[str], slots: int
) -> Adapted:
    # The session divides pixels by 255.
    read = [replace(spec, dtype="float32") if spec.dtype == "uint8" else spec for spec in inputs]
    check_training(trainer.model, read)
    module = capture_training(trainer.model, read, training=True)
    measures = [measure(module, read, batch, learning=True) for batch in BATCHES]
    traced = TorchModel(module, read, str(session.device), original=trainer.model)
    graph = layer_graph(module, read, measures, session.learning)
    traced.know(graph, common_strides(*measures))
    moving = _moving(module, measures[0])
    for first in (True, False) if len(session.losses) == 1 else (False,):
        outputs = traced.returned_layers(first=first)
        shown = LayerGraph(graph.layers, outputs)
        feeds = frontier(shown)
        training = traced.branch(feeds, first=first)
        idle = _effectful(measures[0]) - training.meta["nodes"]
        if not idle:
            break
    else:
        raise UntraceableModelError(
            f"{min(idle)} draws random numbers or moves a buffer, and nothing of what the model returns reads it"
        )
    shown = with_columns(shown, inputs, columns)
    frozen = frozen_hash(shown, feeds)
    if set(feeds) == set(shown.inputs):
        branch = None
        feeds = tuple(name for name in shown.inputs)
    else:
        evaluated = TorchModel(
            capture_training(trainer.model, read, training=False), read, str(session.device), original=trainer.model
        )
        inference = evaluated.branch(_matched(traced, evaluated, feeds), first=first)
        check_trunk(shown, traced, dict(zip(shown.inputs, read, strict=True)), feeds)
        branch = Branch(traced, feeds, training, inference)
    session.open(branch, moving, frozen)
    return OpenedModel(shown, feeds, slots, "", trainer.model, session, trainer, traced=traced)


def _effectful(measured: Measure) -> set[str]:
    return {name for name, effects in measured.effects.items() if effects.draws or effects.moves}


def _moving(module: fx.GraphModule, measured: Measure) -> frozenset[int]:
    """Find the buffers that training moves, by id."""
    moving = [node for node in module.graph.nodes if measured.effects[node.name].moves]
    buffers = {id(buffer) for buffer in module.buffers()}
    read = [below for node in moving for below in node.all_input_nodes if below.op == "get_attr"]
    return frozenset(id(tensor) for tensor in held_tensors(module, [*moving, *read]) if id(tensor) in buffers)


def _matched(traced: TorchModel, evaluated: TorchModel, feeds: Sequence[str]) -> list[str]:
    """Find the same layers in the graph of inference, by what they compute."""
    theirs = {key: name for name, key in evaluated.keys().items()}
    own = traced.keys()
    missing = next((name for name in feeds if own[name] not in theirs), None)
    if missing is not None:
        raise UntraceableModelError(f"{missing}, which does not learn, is computed in training alone")
    return [theirs[own[name]] for name in feeds]


def _slots(trainer: Trainer) -> int:
    """Count the tensors that the optimizer keeps for each parameter, of its size."""
    slots = used_slots(trainer.optimizer)
    parameters = [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]
    counts = [
        sum(getattr(value, "dim", int)() == parameter.dim() > 0 for value in slots.get(place, {}).values())
        for place, parameter in enumerate(parameters)
    ]
    return max(counts, default=0)
