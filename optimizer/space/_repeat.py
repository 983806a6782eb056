"""Repeated blocks of dimensions, whose number is a dimension too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.space._condition import Where, condition
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import whole
from optimizer.space._range import Range
from optimizer.space._tree import Choice, Group, grown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.space._tree import Entry

__all__ = ["Repeat", "repeat"]

# Blocks are laid out in advance, each with its dimensions.
_MOST = 1000


@dataclass(frozen=True)
class Repeat(Range):
    """Number of blocks, with the entries that each block has."""

    block: Group = field(default_factory=lambda: Group(()))

    @property
    def several(self) -> bool:
        """True if there are several numbers of blocks."""
        return self.low < self.high

    def __repr__(self) -> str:
        where = f", where={self.where!r}" if self.where else ""
        return f"repeat({self.block!r}, {self.low!r}, {self.high!r}{where})"

    def __str__(self) -> str:
        return f"{self.low!r} .. {self.high!r} blocks"


def repeat(block: Mapping[str, Any], low: int, high: int, *, where: Where | None = None) -> Repeat:
    """Return a domain of lists of blocks, such as the layers of a network.

    A configuration has a list with a dict for each block. A mutation adds a block at the end, removes the last one, or
    changes a value of one block.

    Parameters
    ----------
    block : mapping of str
        Entries of each block, as of a :class:`Space`. A ``where=`` in it reads the names of the same block, and those
        outside of it.
    low, high : int
        Smallest and largest number of blocks, from 0 to 1000.
    where : mapping or callable, optional
        Condition under which the list is live; see :class:`Space`.

    Returns
    -------
    Repeat
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        The block is empty or has an invalid entry or a condition that is a function, or a number is not allowed.

    Examples
    --------
    >>> from optimizer.space import Space, choice
    >>> block = choice({"conv": {"kernel": [3, 5]}, "pool": {}})
    >>> space = Space({"layers": repeat({"kind": block}, 1, 3)})
    >>> space.sample(seed=0, number=0)
    {'layers': [{'kind': 'pool'}, {'kind': 'pool'}, {'kind': 'conv', 'kernel': 5}]}
    >>> print(space)
    layers                       1 .. 3 blocks
    layers[0].kind               choice 'conv', 'pool' where layers > 0
    layers[0].kind[conv].kernel  choice 3, 5 where layers[0].kind = 'conv'
    layers[1].kind               choice 'conv', 'pool' where layers > 1
    layers[1].kind[conv].kernel  choice 3, 5 where layers[1].kind = 'conv'
    layers[2].kind               choice 'conv', 'pool' where layers > 2
    layers[2].kind[conv].kernel  choice 3, 5 where layers[2].kind = 'conv'
    """
    if not isinstance(block, Mapping) or not block:
        raise SpaceError(f"block must be a mapping of names to domains, got {block!r}")
    low = whole(low, "low", least=0)
    high = whole(high, "high", least=max(low, 1))
    if high > _MOST:
        raise SpaceError(f"high must be at most {_MOST} blocks, got {high}")
    group = grown(block)
    for name, entry in _entries(group):
        if getattr(getattr(entry, "where", None), "test", None) is not None:
            raise SpaceError(
                f"where of {name!r} in a block must be a mapping such as {{'kind': 'conv'}}, got a function: set a "
                "function as where= of the space"
            )
    return Repeat("integer", low, high, 1, condition(where), group)


def _entries(group: Group) -> Iterator[tuple[str, Entry]]:
    """List the entries of a group with those of its mappings, branches and blocks."""
    for name, entry in group.entries:
        yield name, entry
        inner: tuple[Group, ...] = (entry,) if isinstance(entry, Group) else ()
        if isinstance(entry, Choice):
            inner = entry.branches or ()
        for each in inner:
            yield from _entries(each)
