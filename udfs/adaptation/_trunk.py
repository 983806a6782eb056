"""Joint execution of the frozen layers of several models, each layer once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from optimizer.errors import InvalidArgumentError
from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph

__all__ = ["Trunk", "TrunkModel", "frozen_layers"]


class TrunkModel(Protocol):
    """Model whose frozen layers can run, such as :class:`udfs.handlers.Adapted`."""

    @property
    def graph(self) -> LayerGraph:
        """Graph of the layers."""

    def trunk(self, have: Mapping[str, NDArray[Any]], want: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Compute layers in inference mode from some tensors, both by the graph's names."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Call of a model, with the expressions of its inputs and outputs and their layers' names."""

    model: TrunkModel
    have: tuple[tuple[str, str], ...]
    want: tuple[tuple[str, str], ...]


class Trunk:
    """Function of stored outputs that computes frozen layers of several models.

    ``loads`` are expressions of available layers, with inputs of the models; the attribute has those that the function
    needs, in the same order. ``flops`` are for one record. Raise InvalidArgumentError if no model has a layer of
    ``wants`` frozen, and GraphError if a layer cannot be computed from ``loads``.

    Each model computes its wanted layers that are still unknown, and those of its layers that later models need. So no
    layer runs twice, even if it is neither available nor wanted. The bits of a row depend on the size of its batch and
    its place there, since vectorised code computes the last numbers of a tensor differently. The same batch gives the
    same bits.
    """

    def __init__(self, models: Sequence[TrunkModel], loads: Collection[str], wants: Sequence[str]) -> None:
        self.wants = tuple(dict.fromkeys(wants))
        loads = tuple(dict.fromkeys(loads))
        self._steps, self.flops = _steps(models, loads, self.wants)
        read = {expression for step in self._steps for expression, _ in step.have} | set(self.wants)
        self.loads = tuple(expression for expression in loads if expression in read)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the layers on a batch, from arrays of at least :attr:`loads` to those of ``wants``."""
        known = {expression: arrays[expression] for expression in self.loads}
        for step in self._steps:
            outputs = step.model.trunk({name: known[key] for key, name in step.have}, [name for _, name in step.want])
            known |= {key: outputs[name] for key, name in step.want}
        return {expression: known[expression] for expression in self.wants}


def frozen_layers(model: TrunkModel) -> dict[str, str]:
    """Return the names of a model's frozen layers by expression."""
    layers: dict[str, str] = {}
    for name in materialisable(model.graph):
        layers.setdefault(model.graph.expression(name), name)
    return layers


def _steps(models: Sequence[TrunkModel], loads: Sequence[str], wants: Sequence[str]) -> tuple[tuple[_Step, ...], int]:
    """Plan the calls: what each model computes, and then what other models need of it."""
    known = set(loads)
    computed_by: dict[str, int] = {}
    owed: list[list[str]] = []
    read: list[tuple[tuple[str, str], ...]] = []
    layers_of = [frozen_layers(model) for model in models]
    flops = 0
    for number, (model, layers) in enumerate(zip(models, layers_of, strict=True)):
        computed = [want for want in wants if want not in known and want not in computed_by and want in layers]
        owed.append(computed)
        read.append(())
        if computed:
            keys = {name: model.graph.expression(name) for name in materialisable(model.graph)}
            at_hand = [name for name, key in keys.items() if key in known or key in computed_by]
            part = model.graph.part(have=at_hand, want=[layers[key] for key in computed])
            read[-1] = tuple((keys[name], name) for name in part.inputs)
            flops += part.flops
            for name in part.layers:
                computed_by.setdefault(keys[name], number)
    missing = [want for want in wants if want not in known and want not in computed_by]
    if missing:
        raise InvalidArgumentError(
            f"a model must have the frozen layer {missing[0][:12]}..., got none: its weights differ from those of "
            "the plan, "
            "so seed random weights, or the layer trains"
        )
    for pairs in read:
        for key, _ in pairs:
            if key not in known and key not in owed[computed_by[key]]:
                owed[computed_by[key]].append(key)
    return tuple(
        _Step(model, pairs, tuple((key, layers[key]) for key in keys_owed))
        for model, layers, pairs, keys_owed in zip(models, layers_of, read, owed, strict=True)
        if keys_owed
    ), flops
