"""Open models of a backend, and batches through a group of sessions."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from udfs.serving._heads import Head, read_head
from udfs.serving._outputs import split_outputs
from udfs.serving._recipes import FunctionRecipe, NetworkRecipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import TracedModel
    from udfs.serving._input_readers import InputReader
    from udfs.serving._recipes import Function, GroupRecipe, Trunk

    Arrays = dict[str, NDArray[Any]]

__all__ = ["OpenGroup", "OpenModels", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """A decoded row."""

    session: str
    key: str  # digest of the content; rows with the same key have the same content. "" if not computed.
    arrays: Arrays
    variant: int = 0  # variant for which it was read
    inputs: Mapping[str, Any] = field(default_factory=dict)  # as received, if another variant may read it again


class OpenModels:
    """Networks of a process, each opened once, however many groups and sessions use it.

    Parameters
    ----------
    opened : mapping of str to TracedModel, optional
        Networks that are open already, by the key of their source.
    """

    def __init__(self, device: str, threads: int, opened: Mapping[str, TracedModel] | None = None) -> None:
        self._device = device
        self._threads = threads
        self._open: dict[str, TracedModel] = dict(opened or {})
        self._locks: dict[str, threading.Lock] = {}

    def open(self, recipe: GroupRecipe) -> OpenGroup:
        """Open a group.

        Raises
        ------
        Exception
            Any error of the model's code or weights.
        """
        if recipe.variants:
            (session,) = recipe.members
            variants = {
                name: self.open(replace(recipe, members={session: member}, variants={}))
                for name, member in recipe.variants.items()
            }
            for name, variant in variants.items():
                variant.variant, variant.variants = name, tuple(variants.values())
            return variants[next(iter(variants))]
        functions: dict[str, Function] = {}
        networks: dict[str, _Network] = {}
        keys: set[str] = set()
        for session, member in recipe.members.items():
            if isinstance(member, FunctionRecipe):
                functions[session] = member.function
            else:
                networks[session] = self._network(member)
                keys.add(member.source.key)
        if recipe.trunk is not None:
            _share_weights([network.model for network in networks.values()])
        readers = {session: member.reader for session, member in recipe.members.items()}
        # All groups lock in the same order, so that two groups cannot deadlock.
        locks = [self._locks.setdefault(key, threading.Lock()) for key in sorted(keys)]
        return OpenGroup(readers, functions, networks, recipe.trunk, locks)

    def retain(self, recipes: Sequence[GroupRecipe]) -> None:
        """Close the networks that none of these groups uses."""
        used = {
            member.source.key
            for recipe in recipes
            for member in (*recipe.members.values(), *recipe.variants.values())
            if isinstance(member, NetworkRecipe)
        }
        self._open = {key: model for key, model in self._open.items() if key in used}
        self._locks = {key: lock for key, lock in self._locks.items() if key in used}

    def _network(self, recipe: NetworkRecipe) -> _Network:
        source = recipe.source
        if source.key not in self._open:
            self._open[source.key] = source.open(self._device)
        model = self._open[source.key].prepare(self._threads)
        return _Network(model, recipe.outputs, None if recipe.head is None else read_head(recipe.head))


@runtime_checkable
class _Sharing(Protocol):
    def share_weights(self, other: object) -> int: ...


@dataclass(frozen=True, slots=True)
class _Network:
    model: TracedModel
    outputs: tuple[tuple[str, str], ...]
    head: Head | None

    def run(self, feeds: Arrays) -> Arrays:
        """Compute the outputs from any tensors, which may include some outputs."""
        want = [layer for layer in dict.fromkeys(layer for _, layer in self.outputs) if layer not in feeds]
        tensors = {**feeds, **(self.model.run(feeds, want) if want else {})}
        outputs = {name: tensors[layer] for name, layer in self.outputs}
        return outputs if self.head is None else {name: self.head(array) for name, array in outputs.items()}


class OpenGroup:
    """An opened group of sessions.

    Parameters
    ----------
    locks : sequence of Lock
        Locks of its networks: two threads never run a network that two groups share.

    Attributes
    ----------
    variant : str
        Name of the variant of a catalog, which each row's outputs have as ``variant``; ``""`` without a catalog.
    variants : tuple of OpenGroup
        All variants, from the most accurate to the cheapest one; empty without a catalog.
    """

    def __init__(
        self,
        readers: Mapping[str, InputReader],
        functions: Mapping[str, Function],
        networks: Mapping[str, _Network],
        trunk: Trunk | None,
        locks: Sequence[threading.Lock] = (),
    ) -> None:
        self.readers = readers
        self._functions = functions
        self._networks = networks
        self._trunk = trunk
        self._locks = tuple(locks)
        self.variant = ""
        self.variants: tuple[OpenGroup, ...] = ()

    def read_again(self, row: Row, place: int) -> Row:
        """Return a row as the variant at a place reads it, for example at another image size.

        Raises
        ------
        Exception
            Any error of the reader.
        """
        reader = self.variants[place].readers[row.session]
        if reader == self.variants[row.variant].readers[row.session]:
            return row
        return replace(row, arrays=reader.read(row.inputs), variant=place)

    def run(self, rows: Sequence[Row]) -> list[Arrays]:
        """Run one batch and return the outputs of each row, without a batch axis.

        Parameters
        ----------
        rows : sequence of Row
            Rows of any of the group's sessions. With a trunk, rows of the same content pass it once.

        Raises
        ------
        Exception
            Any error of a model.
        """
        with ExitStack() as locked:
            for lock in self._locks:
                locked.enter_context(lock)
            if self._trunk is None:
                (session,) = self.readers
                answers = split_outputs(self._whole(session, rows), len(rows), session)
                if self.variant:
                    name = np.array(self.variant, object)
                    answers = [{**answer, "variant": name} for answer in answers]
                return answers
            return self._shared(rows, self._trunk)

    def _whole(self, session: str, rows: Sequence[Row]) -> Any:
        stacked = _stacked(rows)
        network = self._networks.get(session)
        return self._functions[session](stacked) if network is None else network.run(stacked)

    def _shared(self, rows: Sequence[Row], trunk: Trunk) -> list[Arrays]:
        places: dict[str, int] = {}
        below: list[Row] = []
        of_row = []
        for row in rows:
            place = places.get(row.key) if row.key else None
            if place is None:
                place = len(below)
                below.append(row)
                if row.key:
                    places[row.key] = place
            of_row.append(place)
        first = next(iter(self._networks.values()))
        feeds = _stacked(below)
        tensors = {**feeds, **first.model.run(feeds, [layer for layer in trunk.layers if layer not in feeds])}
        answers: list[Arrays] = [{} for _ in rows]
        for session in dict.fromkeys(row.session for row in rows):
            mine = [at for at, row in enumerate(rows) if row.session == session]
            places_of_rows = [of_row[at] for at in mine]
            every = places_of_rows == list(range(len(below)))
            names = trunk.names[session]
            crossing = {
                layer: tensors[theirs] if every else tensors[theirs][places_of_rows] for layer, theirs in names.items()
            }
            outputs = self._networks[session].run(crossing)
            for at, answer in zip(mine, split_outputs(outputs, len(mine), session), strict=True):
                answers[at] = answer
        return answers


def _share_weights(models: Sequence[TracedModel]) -> None:
    """Keep equal weights of several networks in memory once, if their framework supports it."""
    first, *others = dict.fromkeys(models)
    for other in others:
        if isinstance(other, _Sharing):
            other.share_weights(first)


def _stacked(rows: Sequence[Row]) -> Arrays:
    return {name: np.stack([row.arrays[name] for row in rows]) for name in rows[0].arrays}
