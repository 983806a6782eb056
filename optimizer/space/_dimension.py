"""Dimensions of a space, which are domains with their places in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optimizer.space._condition import Condition
from optimizer.space._errors import SpaceError
from optimizer.space._range import Range
from optimizer.space._repeat import Repeat
from optimizer.space._tree import Choice, Group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optimizer.space._plain_values import Value
    from optimizer.space._tree import Domain

__all__ = ["Dimension", "beside", "dimensions", "within"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """Domain with its place in a configuration, as samplers need it.

    Parameters
    ----------
    path : str
        Unique name with the branches above it: ``"net[cnn].channels"``.
    name : str
        Place in a configuration, dotted where it is nested: ``"channels"``. Branches of one choice may share it.
    domain : Range, Choice or Constant
        Values of the dimension.
    parent : (str, str or int), optional
        Path of the choice and name of the branch that the dimension belongs to, or path of the repeated blocks and
        place of the block, from 0; None outside of them.
    """

    path: str
    name: str
    domain: Domain
    parent: tuple[str, str | int] | None = None

    @property
    def kind(self) -> str:
        """Kind of the domain: uniform, log_uniform, integer, log_integer or choice."""
        return self.domain.kind

    @property
    def low(self) -> float | None:
        """Smallest value of a range; None for a choice."""
        return self.domain.low if isinstance(self.domain, Range) else None

    @property
    def high(self) -> float | None:
        """Upper bound of a range; None for a choice."""
        return self.domain.high if isinstance(self.domain, Range) else None

    @property
    def step(self) -> float | None:
        """Distance between neighbouring values; None without steps."""
        return self.domain.step if isinstance(self.domain, Range) else None

    @property
    def log(self) -> bool:
        """True if the scale is logarithmic."""
        return isinstance(self.domain, Range) and self.domain.log

    @property
    def integral(self) -> bool:
        """True for a range of integers."""
        return isinstance(self.domain, Range) and self.domain.integral

    @property
    def choices(self) -> tuple[Value, ...] | None:
        """Options of a choice, or names of its branches; None for a range."""
        return self.domain.options if isinstance(self.domain, Choice) else None

    @property
    def count(self) -> int | None:
        """Number of values; None if continuous."""
        if isinstance(self.domain, Range):
            return self.domain.count
        return len(self.domain.options) if isinstance(self.domain, Choice) else 1

    @property
    def condition(self) -> Mapping[str, tuple[Value, ...]]:
        """Names in the configuration with their allowed values, without branches and functions."""
        return MappingProxyType(dict(self.domain.where.needs))

    def nearest(self, value: float) -> float:
        """Return the value of a range that is nearest to a number, within the bounds and on a step.

        Parameters
        ----------
        value : float
            Any number.

        Returns
        -------
        float or int
            Nearest value of the range.

        Raises
        ------
        SpaceError
            The dimension is a choice, whose options have no distances.
        """
        if not isinstance(self.domain, Range):
            raise SpaceError(f"{self.path} must be a range, got {self.domain}")
        return self.domain.nearest(value)

    def __str__(self) -> str:
        reasons = []
        if self.parent:
            path, place = self.parent
            reasons.append(f"{path} > {place}" if isinstance(place, int) else f"{path} = {place!r}")
        reasons += [str(self.domain.where)] if self.domain.where else []
        return f"{self.domain}{' where ' if reasons else ''}{' and '.join(reasons)}"


def beside(prefix: str, name: str) -> str:
    """Return the path of an entry of a nested mapping or a branch."""
    return f"{prefix}.{name}" if prefix else name


def within(path: str, branch: Any) -> str:
    """Return the path of a branch."""
    return f"{path}[{branch}]"


def dimensions(
    group: Group, path: str = "", nested: str = "", parent: tuple[str, str | int] | None = None
) -> Iterator[Dimension]:
    """List the dimensions and constants of a tree, a choice before its branches and a number before its blocks."""
    for name, entry in group.entries:
        here, there = beside(path, name), beside(nested, name)
        if isinstance(entry, Group):
            yield from dimensions(entry, here, there, parent)
            continue
        yield Dimension(here, there, entry, parent)
        if isinstance(entry, Choice) and entry.branches is not None:
            for option, branch in zip(entry.options, entry.branches, strict=True):
                yield from dimensions(branch, within(here, option), nested, (here, str(option)))
        if isinstance(entry, Repeat):
            names = {name for name, _ in entry.block.entries} | _branch_names(entry.block)
            for place in range(int(entry.high)):
                for dimension in dimensions(entry.block, within(here, place), within(there, place), (here, place)):
                    yield _localised(dimension, names, within(there, place))


def _localised(dimension: Dimension, names: set[str], block: str) -> Dimension:
    """Read the names of a condition within the block, where the block has them."""
    needs = dimension.domain.where.needs
    if not needs:
        return dimension
    local = tuple((beside(block, name) if name.split(".")[0] in names else name, values) for name, values in needs)
    return replace(dimension, domain=replace(dimension.domain, where=Condition(local)))


def _branch_names(group: Group) -> set[str]:
    """List the names that the branches of a group add next to its entries."""
    branches = [branch for _, entry in group.entries if isinstance(entry, Choice) for branch in entry.branches or ()]
    return {name for branch in branches for name in {each for each, _ in branch.entries} | _branch_names(branch)}
