"""Freezing schedules of Keras: in each phase, what lies at or below a layer does not learn."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._call_graph import is_functional, is_numbered, unnumbered
from udfs.handlers.keras._capture import capture
from udfs.tensors import TensorSpec
from udfs.training import TrainerError, frozen_up_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from udfs.handlers.keras._capture import Capture, Step
    from udfs.training import Trainer

__all__ = ["Freezing"]


class Freezing:
    """The schedule of a trainer, and which layers of its model each phase freezes.

    Only layers that learn as the user built the model are ever switched, and between two units all of them are as they
    were built. Each phase has training functions of its own, for those of Keras have what learned as they were traced.
    Raise TrainerError if a phase names no layer of the model, one that Keras numbered itself, or one of which nothing
    learns; if nothing is left that learns; or if the model does not say what lies below a layer.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._model, self._phases = trainer.model, trainer.freeze_until
        self._frozen: dict[str, list[Any]] = {}
        self._functions: dict[tuple[int, str], Any] = {}
        self._begun: tuple[Any, str] | None = None
        if not self._phases:
            return
        captured = _captured(self._model)
        layers = self._model._flatten_layers(include_self=False)
        self._built = [(each, each.trainable) for each in (*layers, *self._model.variables)]
        learning = {id(variable) for variable in self._model.trainable_variables}
        for epoch, layer in sorted(self._phases.items()):
            if layer is not None and layer not in self._frozen:
                _check_layer(captured, layers, epoch, layer)
                frozen = _below(captured, layers, layer)
                if learning <= {id(variable) for each in frozen for variable in each.variables}:
                    raise TrainerError(
                        f"freeze_until leaves nothing that learns in epoch {epoch}: all that does lies at "
                        f"or below {layer!r}"
                    )
                self._frozen[layer] = frozen

    def begin(self, epoch: int, network: Any) -> None:
        """Freeze what does not learn in an epoch."""
        self.end()
        if not self._phases:
            return
        layer = frozen_up_to(self._phases, epoch)
        for frozen in () if layer is None else self._frozen[layer]:
            frozen.trainable = False
        self._begun = network, layer or ""
        network.train_function = self._functions.get((id(network), layer or ""))

    @property
    def begun(self) -> bool:
        """True if an epoch has begun and not ended."""
        return self._begun is not None

    def end(self) -> None:
        """Unfreeze all layers that were trainable when the model was built."""
        if self._begun is None:
            return
        network, layer = self._begun
        self._functions[id(network), layer], network.train_function = network.train_function, None
        self._begun = None
        # A layer switches all that is in it, which may have to be switched back.
        while changed := [(each, trainable) for each, trainable in self._built if each.trainable != trainable]:
            for each, trainable in changed:
                each.trainable = trainable


def _captured(model: Any) -> Capture:
    """Open a model as it infers, which says what lies below a layer."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise TrainerError(
            f"freeze_until must be empty where Keras runs on {backend}: it follows a schedule on "
            "TensorFlow alone, where "
            "an optimizer steps some of its variables and keeps the slots of the others"
        )
    if not is_functional(model):
        raise TrainerError(
            f"the model of freeze_until, a {type(model).__name__}, has a call of its own, which does "
            "not say what lies below a layer: "
            "build the model with keras.Model(inputs, outputs) or keras.Sequential"
        )
    try:
        return capture(model, [TensorSpec(tuple(symbol.shape[1:]), symbol.dtype) for symbol in model.inputs])
    except UntraceableModelError as error:
        raise TrainerError(f"freeze_until needs the layers below a layer, which are not known: {error}") from error


def _below(captured: Capture, layers: list[Any], layer: str) -> list[Any]:
    """Find the layers that a layer consists of and those that its output is computed from."""
    maker = {index: step for step in captured.steps for index in step.writes}
    waiting = list(_steps(captured, layer))
    frozen: dict[int, Any] = {}
    seen: set[int] = set()
    while waiting:
        step = waiting.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        frozen.setdefault(id(step.operation), step.operation)
        waiting.extend(maker[index] for index in step.reads if index in maker)
    # A layer of the user's own that is made of layers takes its way in inference once all of them do.
    called = {id(step.operation) for step in captured.steps}
    for each in layers:
        inside = {id(inner) for inner in each._flatten_layers(include_self=False)} & called
        if not is_functional(each) and id(each) not in called and inside and inside <= frozen.keys():
            frozen[id(each)] = each
    return [each for each in frozen.values() if isinstance(each, keras.Layer)]


def _steps(captured: Capture, layer: str) -> Iterator[Step]:
    for step in captured.steps:
        if step.path == layer or step.path.startswith(f"{layer}/"):
            yield step


def _check_layer(captured: Capture, layers: list[Any], epoch: int, layer: str) -> None:
    matching = [step for step in _steps(captured, layer) if isinstance(step.operation, keras.Layer)]
    numbered = {each.name for each in layers if is_numbered(each)}
    # A layer that is found under a name without a number may well have it from the user.
    told = {unnumbered(each) for each in layers if each.name in numbered and not matching}
    told |= {each.name for each in layers if each.name in numbered and each.name != unnumbered(each)}
    odd = next((name for name in layer.split("/") if name in told), None)
    if odd is not None:
        raise TrainerError(
            f"freeze_until[{epoch}]={layer!r}: Keras itself gave a layer the name {odd!r}, and numbers by all that a "
            "process ever made, so another one has it elsewhere: give the layer a name of your own"
        )
    if not matching:
        known = {path for step in captured.steps if isinstance(step.operation, keras.Layer) for path in _paths(step)}
        named = sorted(path for path in known if numbered.isdisjoint(path.split("/")))
        close = difflib.get_close_matches(layer, named, n=3, cutoff=0.4)
        meant = f": do you mean {', '.join(map(repr, close))}?" if close else "; model.summary() lists them"
        raise TrainerError(f"freeze_until[{epoch}]: the model has no layer {layer!r}{meant}")
    weights = [variable for step in matching for variable in step.operation.weights]
    if weights and not any(variable.trainable for variable in weights):
        raise TrainerError(
            f"freeze_until[{epoch}]: {layer!r} does not learn as the model is built, so no phase can free it. The "
            "schedule freezes: leave trainable=True for all that learns in any phase"
        )


def _paths(step: Step) -> Iterator[str]:
    """Yield the paths of the models around a step, and its own."""
    parts = step.path.split("/")
    yield from ("/".join(parts[: count + 1]) for count in range(len(parts)))
