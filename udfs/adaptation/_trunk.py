"""The frozen layers of several models, run together: each layer once, whoever needs it."""

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
    """A model whose frozen layers can be run; :class:`udfs.handlers.Adapted` is one."""

    @property
    def graph(self) -> LayerGraph:
        """Its layers."""

    def trunk(self, have: Mapping[str, NDArray[Any]], want: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Compute layers in inference mode from tensors at hand, both by the graph's names."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One call of a model: expressions to feed and to take, each with the layer's name."""

    model: TrunkModel
    have: tuple[tuple[str, str], ...]
    want: tuple[tuple[str, str], ...]


class Trunk:
    """The frozen layers of several models as one function from stored outputs to those that their branches read.

    Parameters
    ----------
    models : sequence of TrunkModel
    loads : collection of str
        Expressions of layers at hand, inputs of the models among them. Those that are not needed are not read.
    wants : sequence of str
        Expressions of layers to yield; those among `loads` are passed on.

    Attributes
    ----------
    loads : tuple of str
        The expressions to be given, in the order of `loads`.
    flops : int
        Computed for one record.

    Raises
    ------
    InvalidArgumentError
        No model has a layer of an expression of `wants` that training leaves alone.
    GraphError
        It cannot be computed from `loads`.

    Notes
    -----
    Each model computes what is wanted of it and still unknown, and what later models need of the layers that it runs
    anyway. So no layer is run twice, also where the layer that two models share is neither at hand nor wanted.

    The bits of a row depend on the other rows of its batch: on their number, and on its place among them, for a
    processor computes the last numbers of a tensor in another way than the others. The same batch gives the same bits.
    """

    def __init__(self, models: Sequence[TrunkModel], loads: Collection[str], wants: Sequence[str]) -> None:
        self.wants = tuple(dict.fromkeys(wants))
        loads = tuple(dict.fromkeys(loads))
        self._steps, self.flops = _steps(models, loads, self.wants)
        read = {expression for step in self._steps for expression, _ in step.have} | set(self.wants)
        self.loads = tuple(expression for expression in loads if expression in read)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the layers on a batch.

        Parameters
        ----------
        arrays : mapping of str to array
            At least those of :attr:`loads`, each of shape ``(rows, ...)``.

        Returns
        -------
        dict of str to array
            Those of `wants`.
        """
        known = {expression: arrays[expression] for expression in self.loads}
        for step in self._steps:
            found = step.model.trunk({name: known[key] for key, name in step.have}, [name for _, name in step.want])
            known |= {key: found[name] for key, name in step.want}
        return {expression: known[expression] for expression in self.wants}


def frozen_layers(model: TrunkModel) -> dict[str, str]:
    """Name the layers of a model that training never changes, by their expressions."""
    layers: dict[str, str] = {}
    for name in materialisable(model.graph):
        layers.setdefault(model.graph.expression(name), name)
    return layers


def _steps(models: Sequence[TrunkModel], loads: Sequence[str], wants: Sequence[str]) -> tuple[tuple[_Step, ...], int]:
    """Plan the calls: a first pass finds what each model computes, a second one what others take of it."""
    known = set(loads)
    computed_by: dict[str, int] = {}
    owed: list[list[str]] = []
    read: list[tuple[tuple[str, str], ...]] = []
    layers_of = [frozen_layers(model) for model in models]
    flops = 0
    for number, (model, layers) in enumerate(zip(models, layers_of, strict=True)):
        own = [want for want in wants if want not in known and want not in computed_by and want in layers]
        owed.append(own)
        read.append(())
        if own:
            keys = {name: model.graph.expression(name) for name in materialisable(model.graph)}
            at_hand = [name for name, key in keys.items() if key in known or key in computed_by]
            part = model.graph.part(have=at_hand, want=[layers[key] for key in own])
            read[-1] = tuple((keys[name], name) for name in part.inputs)
            flops += part.flops
            for name in part.layers:
                computed_by.setdefault(keys[name], number)
    missing = [want for want in wants if want not in known and want not in computed_by]
    if missing:
        raise InvalidArgumentError(
            f"no model has a frozen layer of the expression {missing[0][:12]}...: its weights differ from those it was "
            "planned with (were they drawn at random? seed them), or it learns"
        )
    for pairs in read:
        for key, _ in pairs:
            if key not in known and key not in owed[computed_by[key]]:
                owed[computed_by[key]].append(key)
    return tuple(
        _Step(model, pairs, tuple((key, layers[key]) for key in own))
        for model, layers, pairs, own in zip(models, layers_of, read, owed, strict=True)
        if own
    ), flops
