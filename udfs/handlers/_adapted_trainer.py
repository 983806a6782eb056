"""A trainer that is opened where training begins to matter: the frozen part apart from the part that learns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.graph import Layer, LayerGraph, materialisable
from udfs.packing import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.handlers._protocol import TracedModel
    from udfs.tensors import TensorSpec
    from udfs.training import Session

__all__ = [
    "Adapted",
    "Cut",
    "Phase",
    "check_frozen",
    "frozen_hash",
    "open_phases",
    "trained_whole",
    "unchanged",
    "with_columns",
]


@dataclass
class Adapted:
    """A trainer whose frozen layers run apart: once a record, not in every epoch (Nautilus, section 4).

    The class itself is for a model that trains whole; a framework that opens models subclasses it.
    :meth:`udfs.handlers.Framework.open_adapted` creates it; :func:`udfs.handlers.open_adapted` calls the user's
    function first. If the model has a freezing schedule, ``graph`` and ``feeds`` describe the first phase, and after a
    call of :meth:`follow` the phase of that call.

    Attributes
    ----------
    graph : LayerGraph
        The whole model as it trains: frozen modules in inference mode, the others drawing and moving their buffers. The
        fingerprints of its inputs name the columns that they read, so that expressions tell columns apart.
    feeds : tuple of str
        Layers of ``graph`` that the branch reads, in topological order: :func:`optimizer.graph.frontier`.
    slots : int
        Tensors that the optimizer keeps for each trained parameter: 2 for Adam, 1 for momentum, 0 for plain SGD.
    whole : str
        Reason why the model could not be opened; then ``feeds`` are the inputs, and the session trains the whole model.
        Empty where it was opened.
    model : object
        The user's whole model. The session trains its parameters in place.
    session : Session
        Trains, evaluates and predicts; its inputs are the tensors of ``feeds``, in that order. Its checkpoints hold
        what learns, buffers that move, optimizer, schedule and random numbers, and nothing of what is frozen.
    trainer : ModelTrainer or TrainingFunctions
        Return value of the user's function.
    """

    graph: LayerGraph
    feeds: tuple[str, ...]
    slots: int
    whole: str
    model: Any
    session: Session
    trainer: Any

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Phases of a freezing schedule; empty without one: one cut serves all epochs."""
        return ()

    def follow(self, *, trained: bool = False) -> None:
        """Cut the model where ends what was frozen in all epochs so far: before each unit, and after a restore.

        With ``trained`` it is for evaluation, after an epoch; else the next one is to be trained.
        """

    def trunk(self, have: Mapping[str, NDArray[Any]], want: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Compute layers that training never changes, in inference mode.

        ``have`` has tensors of shape ``(rows, ...)`` by layer: inputs as the columns hold them (eight-bit pixels too),
        or an earlier call's. ``want`` are layers of :func:`optimizer.graph.materialisable`; each is returned with the
        shape ``(rows, *layer.output_shape)``, in C order. Raise GraphError if they cannot be computed from ``have``.
        """
        self.graph.part(have, want)
        return {name: have[name] for name in want}


@dataclass(frozen=True)
class Cut:
    """Cut of a model from an epoch on: what lies below was frozen in all epochs before, too.

    ``traced`` runs the layers of the graph; for ``feeds`` see :class:`Adapted`.
    """

    start: int
    graph: LayerGraph
    feeds: tuple[str, ...]
    traced: TracedModel

    @cached_property
    def constant(self) -> frozenset[str]:
        """Expressions of the layers that no training changes so far."""
        return frozenset(self.graph.expression(name) for name in materialisable(self.graph))


@dataclass
class OpenedModel(Adapted):
    """The :class:`Adapted` of a model whose frozen layers run apart, in ``traced``, on pixels divided by 255."""

    traced: TracedModel = field(kw_only=True)
    phases: tuple[Cut, ...] = field(default=(), kw_only=True)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Cuts of the model, one for each phase of a freezing schedule."""
        return self.phases

    def follow(self, *, trained: bool = False) -> None:
        """Cut the model for an epoch; see :meth:`Adapted.follow`."""
        if not self.phases:
            return
        session: Any = self.session
        at = max(0, session.epoch - trained)
        begun = [number for number, cut in enumerate(self.phases) if cut.start <= at]
        # The source of the weights may have trained what is frozen here so far.
        place = len(self.phases) - 1 if session.adopted else begun[-1]
        cut = self.phases[place]
        self.graph, self.feeds, self.traced = cut.graph, cut.feeds, cut.traced
        session.follow(place)

    def trunk(self, have: Mapping[str, NDArray[Any]], want: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Compute layers that training never changes; see :meth:`Adapted.trunk`."""
        fed = {
            name: array.astype(np.float32) / np.float32(255) if self._is_pixels(name, array) else array
            for name, array in have.items()
        }
        computed = [name for name in want if name not in have]
        tensors = self.traced.run(fed, computed) if computed else {}
        return {name: np.ascontiguousarray(tensors[name]) if name in tensors else have[name] for name in want}

    def _is_pixels(self, name: str, array: NDArray[Any]) -> bool:
        return name in self.graph.inputs and array.dtype == np.uint8


@dataclass(frozen=True)
class Phase:
    """A model in one phase of its freezing schedule, cut where ends what has been frozen in all phases so far.

    ``cut`` has a graph whose frozen layers are those of all phases so far. ``branch`` is what ``session.open`` of the
    framework takes, ``None`` where it begins at the inputs. ``moving`` has the ids of the buffers that training moves.
    """

    cut: Cut
    branch: Any
    moving: frozenset[int]


def open_phases(trainer: Any, session: Any, phases: Sequence[Phase], slots: int) -> OpenedModel:
    """Make the :class:`Adapted` of a session that trains above cuts, one for each phase of the freezing schedule."""
    first, last = phases[0].cut, phases[-1].cut
    moving = frozenset[int]().union(*(phase.moving for phase in phases))
    session.open([phase.branch for phase in phases], moving, frozen_hash(last.graph, last.feeds))
    cuts = tuple(phase.cut for phase in phases) if trainer.freeze_until else ()
    return OpenedModel(
        first.graph, first.feeds, slots, "", trainer.model, session, trainer, traced=first.traced, phases=cuts
    )


def with_columns(graph: LayerGraph, inputs: Sequence[TensorSpec], columns: Sequence[str]) -> LayerGraph:
    """Fingerprint a graph's inputs by the columns that they read, in the types in which the columns hold them."""
    described = dict(zip(graph.inputs, zip(inputs, columns, strict=True), strict=True))
    layers = []
    for layer in graph:
        if layer.name in described:
            spec, column = described[layer.name]
            layers.append(Layer(layer.name, layer.op, (), spec.shape, spec.dtype, fingerprint=f"column:{column}"))
        else:
            layers.append(layer)
    return LayerGraph(layers, graph.outputs)


def unchanged(graph: LayerGraph, constant: frozenset[str] | None) -> LayerGraph:
    """Take for frozen only what was in all phases before: a block that learned or moved is another one in each run.

    ``constant`` is :attr:`Cut.constant` of the phase before, ``None`` in the first one.
    """
    if constant is None:
        return graph
    layers = [
        replace(layer, frozen=layer.frozen and (layer.op == "input" or graph.expression(layer.name) in constant))
        for layer in graph
    ]
    return LayerGraph(layers, graph.outputs)


def frozen_hash(graph: LayerGraph, feeds: Sequence[str]) -> str:
    """Hash all that training does not change: what the branch reads, and the frozen layers in it.

    The fingerprints of the graph's inputs name columns.
    """
    needed = graph.subgraph(graph.outputs)
    told = [graph.expression(name) for name in feeds]
    told += [layer.fingerprint for layer in needed if layer.frozen and layer.param_bytes]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def check_frozen(frozen: str | None, saved: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that was made over other frozen weights.

    ``frozen`` is the session's own :func:`frozen_hash`, ``None`` where it trains the whole model. Raise StateError if
    the checkpoint ``saved`` has another one.
    """
    if frozen != saved.get("frozen"):
        raise StateError(
            "a checkpoint over other frozen weights: trainer_fn has to make the same ones in every process; read "
            "them from a file, or draw them from a seed of your own"
        )


def trained_whole(
    session: Session,
    trainer: Any,
    inputs: Sequence[TensorSpec],
    columns: Sequence[str],
    why: str,
    *,
    slots: int = 2,
    flops: int = 0,
) -> Adapted:
    """Make an :class:`Adapted` of a session that trains a whole model.

    ``columns`` names what each input reads, and ``why`` is the reason, not empty. The optimizer keeps ``slots`` tensors
    for each trained parameter; ``flops`` are of the forward pass for one record, 0 where they are unknown.
    """
    names = [f"input_{place}" for place in range(1, len(inputs) + 1)]
    layers = [Layer(name, "input", (), spec.shape, spec.dtype) for name, spec in zip(names, inputs, strict=True)]
    op = type(session.model).__name__
    model = Layer("model", op, tuple(names), flops=flops, param_bytes=session.weight_bytes, frozen=False)
    graph = with_columns(LayerGraph([*layers, model], [model.name]), inputs, columns)
    return Adapted(graph, graph.inputs, slots, why, session.model, session, trainer)
