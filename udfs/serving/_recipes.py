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
    """Recipe of a network.

    Parameters
    ----------
    reader : InputReader
        Reader of the graph's inputs.
    outputs : tuple of (str, str)
        Name and layer of each output.
    head : str, optional
        File of a linear layer over the only output's layer, accessible to the backend.
    """

    source: ModelSource
    reader: InputReader
    outputs: tuple[tuple[str, str], ...]
    head: str | None = None


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
    """Recipe of a function of whole batches, which shares no trunk.

    Parameters
    ----------
    function : callable
        Function that maps arrays by name to arrays by name, each with the batch in front.
    """

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
    """Common part of several networks (prefix batching, section 3.4.2 of the thesis).

    Parameters
    ----------
    layers : tuple of str
        Layers of the first member's graph whose outputs leave the trunk.
    names : mapping of str to mapping of str to str
        By session, the first member's layer for each layer that its own graph reads.
    share : float
        Smallest share of a member's FLOPs in the trunk.
    """

    layers: tuple[str, ...]
    names: Mapping[str, Mapping[str, str]]
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupRecipe:
    """Recipe of sessions that a backend runs together: one session, or several with a common trunk.

    Parameters
    ----------
    members : mapping of str to recipe
        Recipes by session.
    trunk : Trunk, optional
        Common part of the members, which are then all networks.
    sample : mapping of str to array, optional
        Row, as it travels, that warms the group up before its first request.
    """

    name: str
    members: Mapping[str, NetworkRecipe | FunctionRecipe]
    trunk: Trunk | None = None
    sample: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False, compare=False)
