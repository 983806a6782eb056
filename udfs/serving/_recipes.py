"""Recipes: what travels to a backend in Spark's own closure so that it can open a model. No weights are in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from udfs.inference import ModelSource
    from udfs.serving._reading import InputReader

    Function = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]

__all__ = ["FunctionRecipe", "GroupRecipe", "NetworkRecipe", "Trunk"]


@dataclass(frozen=True, slots=True)
class NetworkRecipe:
    """A network that is opened into layers.

    Parameters
    ----------
    source : ModelSource
    reader : InputReader
        Gives the tensors of the graph's inputs.
    outputs : tuple of (str, str)
        Name of each output, and the layer that it is of.
    head : str, optional
        File of a linear layer over the only output's layer, in reach of the backend.
    """

    source: ModelSource
    reader: InputReader
    outputs: tuple[tuple[str, str], ...]
    head: str | None = None


@runtime_checkable
class FileFunction(Protocol):
    """A function whose model lies in a file."""

    @property
    def file(self) -> str:
        """A path, or what :func:`udfs.weights.local_file` finds on a worker."""

    def at(self, file: str) -> Function:
        """Give the same function with its file in another place."""


@dataclass(frozen=True, slots=True)
class FunctionRecipe:
    """A function of whole batches that nothing is known of: it shares no trunk.

    Parameters
    ----------
    function : callable
        Of arrays by name, each with the batch in front, and so are its results.
    reader : InputReader
    """

    function: Function = field(repr=False)
    reader: InputReader

    def placed(self, place: Callable[[str], str]) -> FunctionRecipe:
        """Give the recipe whose files are where `place` brings them; a function of the user's own has none."""
        function: object = self.function
        if isinstance(function, FileFunction):
            return replace(self, function=function.at(place(function.file)))
        return self


@dataclass(frozen=True, slots=True)
class Trunk:
    """What several networks compute alike (prefix batching, section 3.4.2 of the thesis).

    Parameters
    ----------
    layers : tuple of str
        Of the first member's graph: the tensors that cross the cut.
    names : mapping of str to mapping of str to str
        By session, what its own graph calls each of those that it reads.
    share : float
        Part of the first member's FLOPs that is below the cut.
    """

    layers: tuple[str, ...]
    names: Mapping[str, Mapping[str, str]]
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupRecipe:
    """Sessions that a backend runs together: one, or several over one trunk.

    Parameters
    ----------
    name : str
    members : mapping of str to recipe
        By session.
    trunk : Trunk, optional
        Of networks alone.
    sample : mapping of str to array, optional
        A row as it travels, to run the group with before its first request.
    """

    name: str
    members: Mapping[str, NetworkRecipe | FunctionRecipe]
    trunk: Trunk | None = None
    sample: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False, compare=False)
