"""Recipes by which a backend opens models. They travel in Spark's closure and contain no weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from udfs.inference import ModelSource
    from udfs.serving._input_readers import InputReader

    Function = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]

__all__ = ["FunctionRecipe", "GroupRecipe", "NetworkRecipe", "Trunk"]


@dataclass(frozen=True, slots=True)
class NetworkRecipe:
    """Recipe of a network."""

    source: ModelSource
    reader: InputReader  # reader of the graph's inputs
    outputs: tuple[tuple[str, str], ...]  # name and layer of each output
    head: str | None = None  # file of a linear layer over the only output's layer, accessible to the backend


@runtime_checkable
class FileFunction(Protocol):
    """A function whose model is in a file."""

    @property
    def file(self) -> str:
        """Path, or what :func:`udfs.weights.local_file` finds on a worker."""

    def at(self, file: str) -> Function:
        """Return the same function with its file in another place."""


@dataclass(frozen=True, slots=True)
class FunctionRecipe:
    """Recipe of a function of whole batches, which shares no trunk."""

    # Function that maps arrays by name to arrays by name, each with the batch in front.
    function: Function = field(repr=False)
    reader: InputReader

    def placed(self, place: Callable[[str], str]) -> FunctionRecipe:
        """Return the recipe with its file in the place that `place` returns; other functions stay unchanged."""
        function: object = self.function
        if isinstance(function, FileFunction):
            return replace(self, function=function.at(place(function.file)))
        return self


@dataclass(frozen=True, slots=True)
class Trunk:
    """Common part of several networks (prefix batching, section 3.4.2 of the thesis)."""

    layers: tuple[str, ...]  # layers of the first member's graph whose outputs leave the trunk
    # By session, the first member's layer for each layer that its own graph reads.
    names: Mapping[str, Mapping[str, str]]
    share: float = 0.0  # smallest share of a member's FLOPs in the trunk


@dataclass(frozen=True, slots=True)
class GroupRecipe:
    """Recipe of sessions that a backend runs together: one session, or several with a common trunk."""

    name: str
    members: Mapping[str, NetworkRecipe | FunctionRecipe]  # recipes by session
    trunk: Trunk | None = None  # common part of the members, which are then all networks
    # Recipes of the only member by variant, from the most accurate to the cheapest one; empty without a catalog.
    variants: Mapping[str, NetworkRecipe | FunctionRecipe] = field(default_factory=dict)
    # Row, as it travels, that warms the group up before its first request.
    sample: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False, compare=False)
