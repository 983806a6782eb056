"""A trainer of torch, opened where its frozen layers end."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING

import torch

from optimizer.errors import GraphError
from optimizer.graph import LayerGraph, frontier
from udfs.handlers._adapted_trainer import Cut, Phase, open_phases, trained_whole, unchanged, with_columns
from udfs.handlers._protocol import ChangedWeightsError, UntraceableModelError
from udfs.handlers._read_inputs import read_specs
from udfs.handlers._record_checks import check_trunk
from udfs.handlers.torch._adoption import used_slots
from udfs.handlers.torch._branch_session import Branch, BranchSession
from udfs.handlers.torch._comparison import compare
from udfs.handlers.torch._fx import capture_training, check_training
from udfs.handlers.torch._graph import held_tensors, layer_graph
from udfs.handlers.torch._kept_modules import open_as_it_trains
from udfs.handlers.torch._measure import BATCHES, Measure, common_strides, measure
from udfs.handlers.torch._model import TorchModel
from udfs.handlers.torch._python_state import same_variables
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import fx, nn

    from udfs.handlers._adapted_trainer import Adapted
    from udfs.tensors import TensorSpec
    from udfs.training import Trainer

__all__ = ["open_adapted"]


def open_adapted(trainer: Trainer, inputs: Sequence[TensorSpec], columns: Sequence[str], device: str) -> Adapted:
    """Open a trainer; see :meth:`udfs.handlers.Framework.open_adapted`."""
    session = BranchSession(trainer, device)
    if not session.learning:
        raise TrainerError(
            "optimizer must have a parameter that requires a gradient, and that of "
            f"{type(trainer.model).__name__} has none"
        )
    slots = _slots(trainer)
    opened: Adapted | None = None
    before = _sums(trainer.model)
    try:
        with same_variables(trainer.model), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training repeats what the user's forward warns of
            opened = _opened(trainer, session, inputs, columns, slots)
    except (UntraceableModelError, GraphError) as error:
        why = str(error)
    if _sums(trainer.model) != before:
        raise ChangedWeightsError(
            f"{type(trainer.model).__name__} writes to its weights in forward, as a momentum encoder does: none of "
            "its layers can be stored"
        )
    return opened or trained_whole(session, trainer, inputs, columns, why, slots=slots)


def _sums(model: nn.Module) -> list[bytes]:
    """Sum each tensor of a model: two results differ if something has written to its weights."""
    with torch.no_grad():
        return [tensor.sum().cpu().numpy().tobytes() for tensor in (*model.parameters(), *model.buffers())]


def _opened(
    trainer: Trainer, session: BranchSession, inputs: Sequence[TensorSpec], columns: Sequence[str], slots: int
) -> Adapted:
    # The session divides pixels by 255.
    read = read_specs(inputs)
    check_training(trainer.model, read)
    phases: list[Phase] = []
    learned: frozenset[int] = frozenset()
    for epoch in sorted({0, *trainer.freeze_until}):
        with session.phase(epoch, read) as learning:
            again = learned - learning
            learned |= learning
            constant = None if not phases else phases[-1].cut.constant
            traced_phase = partial(_phase, trainer, session, (read, inputs, columns), epoch, learned, constant)
            phases.append(open_as_it_trains(traced_phase, trainer.model, read, learned))
            if again:
                _check_own(phases[-1], trainer)
    return open_phases(trainer, session, phases, slots)


def _phase(
    trainer: Trainer,
    session: BranchSession,
    described: tuple[Sequence[TensorSpec], Sequence[TensorSpec], Sequence[str]],
    epoch: int,
    learned: frozenset[int],
    constant: frozenset[str] | None,
    kept: Collection[str],
    *,
    compared: bool,
) -> Phase:
    """Trace a model as it trains in a phase; ``constant`` are the layers that no phase before has changed.

    The modules at the paths ``kept`` stay whole. With ``compared``, raise OtherModelError if the opened model trains
    otherwise than the user's.
    """
    read, inputs, columns = described
    module = capture_training(trainer.model, read, training=True, kept=kept)
    measures = [measure(module, read, batch, learning=True) for batch in BATCHES]
    traced = TorchModel(module, read, str(session.device), original=trainer.model)
    graph = layer_graph(module, read, measures, learned)
    traced.know(graph, common_strides(*measures))
    moving = _moving(module, measures[0])
    for first in (True, False) if len(session.losses) == 1 else (False,):
        outputs = traced.returned_layers(first=first)
        shown = unchanged(with_columns(LayerGraph(graph.layers, outputs), inputs, columns), constant)
        feeds = frontier(shown)
        training = traced.branch(feeds, first=first)
        idle = _effectful(measures[0]) - training.meta["nodes"]
        if not idle:
            break
    else:
        raise UntraceableModelError(
            f"{min(idle)} draws random numbers or moves a buffer, and nothing of what the model returns reads it"
        )
    if set(feeds) == set(shown.inputs):
        return Phase(Cut(epoch, shown, shown.inputs, traced), None, moving)
    evaluated = TorchModel(
        capture_training(trainer.model, read, training=False, kept=kept),
        read,
        str(session.device),
        original=trainer.model,
    )
    inference = evaluated.branch(_matched(traced, evaluated, feeds), first=first)
    check_trunk(shown, traced, dict(zip(shown.inputs, read, strict=True)), feeds)
    branch = Branch(traced, feeds, training, inference)
    if compared:
        compare(trainer.model, branch, read, learned | moving, first=first)
    return Phase(Cut(epoch, shown, feeds, traced), branch, moving)


def _check_own(phase: Phase, trainer: Trainer) -> None:
    """Refuse weights that a norm computed as the model was opened, of a module that learns before it is frozen."""
    parameters = {id(parameter) for parameter in trainer.model.parameters()}
    branch = phase.branch
    modules = () if branch is None else (branch.training, branch.inference)
    for module in modules:
        odd = next((name for name, weight in module.named_parameters() if id(weight) not in parameters), None)
        if odd is not None:
            raise UntraceableModelError(f"freeze_until freezes what has learned, and {odd} is computed from weights")


def _effectful(measured: Measure) -> set[str]:
    return {name for name, effects in measured.effects.items() if effects.draws or effects.moves}


def _moving(module: fx.GraphModule, measured: Measure) -> frozenset[int]:
    """Find the buffers that training moves, by id."""
    moving = [node for node in module.graph.nodes if measured.effects[node.name].moves]
    buffers = {id(buffer) for buffer in module.buffers()}
    read = [below for node in moving for below in node.all_input_nodes if below.op == "get_attr"]
    return frozenset(id(tensor) for tensor in held_tensors(module, [*moving, *read]) if id(tensor) in buffers)


def _matched(traced: TorchModel, evaluated: TorchModel, feeds: Sequence[str]) -> list[str]:
    """Find the same layers in the graph of inference by their expressions."""
    names, theirs = traced.keys(), evaluated.keys()
    missing = next((name for name in feeds if names[name] not in theirs.values()), None)
    if missing is not None:
        raise UntraceableModelError(f"{missing}, which does not learn, is computed in training alone")

    def matched(name: str) -> str:
        # Layers that compute the same are matched in their order.
        alike = [other for other, key in theirs.items() if key == names[name]]
        place = [other for other, key in names.items() if key == names[name]].index(name)
        return alike[min(place, len(alike) - 1)]

    return [matched(name) for name in feeds]


def _slots(trainer: Trainer) -> int:
    """Count the tensors that the optimizer keeps for each parameter, of its size."""
    slots = used_slots(trainer.optimizer)
    parameters = [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]
    counts = [
        sum(getattr(value, "dim", int)() == parameter.dim() > 0 for value in slots.get(place, {}).values())
        for place, parameter in enumerate(parameters)
    ]
    return max(counts, default=0)
