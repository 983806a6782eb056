"""Search spaces as frozen trees: choices with their branches, constants, nested mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.space._errors import SpaceError
from optimizer.space._plain import Value, plain, same
from optimizer.space._range import Range
from optimizer.space._streams import below
from optimizer.space._where import ALWAYS, Condition, Where, condition

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Choice", "Constant", "Domain", "Entry", "Group", "choice", "grown"]

# They would make the path of a dimension ambiguous.
_RESERVED = ".[]"


@dataclass(frozen=True)
class Constant:
    """One value, of no dimension.

    Parameters
    ----------
    value : str, int, float, bool or None
    """

    value: Value
    where: Condition = ALWAYS
    kind = "constant"
    several = False

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return f"always {self.value!r}"

    def draw(self, word: int) -> Value:  # as every domain
        """Give the value."""
        return self.value

    def holds(self, value: Any) -> bool:
        """Tell whether this is the value."""
        return same(self.value, value)

    def moved(self, value: Value, factor: float) -> Value:  # as every domain
        """Leave the value."""
        return value

    def spread(self, points: int | None) -> list[Value]:  # as every domain
        """List the one value."""
        return [self.value]


@dataclass(frozen=True)
class Choice:
    """One of several values, each as likely as the other.

    Parameters
    ----------
    options : tuple
    branches : tuple of Group, optional
        The dimensions that each option brings with it.
    where : Condition
        When the dimension is live.
    """

    options: tuple[Value, ...]
    branches: tuple[Group, ...] | None = None
    where: Condition = ALWAYS
    kind = "choice"

    @property
    def several(self) -> bool:
        """Whether there is more than one option."""
        return len(self.options) > 1

    def __repr__(self) -> str:
        if self.branches is None:
            options = repr(list(self.options))
        else:
            options = repr(dict(zip(self.options, self.branches, strict=True)))
        return f"choice({options}{f', where={self.where!r}' if self.where else ''})"

    def __str__(self) -> str:
        return f"choice {', '.join(map(repr, self.options))}"

    def draw(self, word: int) -> Value:
        """Make an option of a word of a stream."""
        return self.options[below(word, len(self.options))]

    def holds(self, value: Any) -> bool:
        """Tell whether a value is an option."""
        return any(same(option, value) for option in self.options)

    def moved(self, value: Value, factor: float) -> Value:
        """Take the next smaller or larger number; options that are not all numbers have no order, and stay."""
        numbers = sorted(
            option for option in self.options if isinstance(option, int | float) and not isinstance(option, bool)
        )
        if len(numbers) < len(self.options):
            return value
        place = next(place for place, number in enumerate(numbers) if same(number, value))
        return numbers[min(max(place + (1 if factor > 1 else -1), 0), len(numbers) - 1)]

    def spread(self, points: int | None) -> list[Value]:  # as every domain
        """List the options."""
        return list(self.options)


@dataclass(frozen=True)
class Group:
    """Entries by name: a space, a nested mapping, or a branch.

    Parameters
    ----------
    entries : tuple of (str, Range, Choice, Constant or Group)
    """

    entries: tuple[tuple[str, Entry], ...]

    def __repr__(self) -> str:
        return repr(dict(self.entries))


Domain = Range | Choice | Constant
Entry = Domain | Group


def choice(
    options: Sequence[Value] | NDArray[Any] | Mapping[str, Mapping[str, Any]],
    *,
    where: Where | None = None,
) -> Choice:
    """Take one of several values, each as likely as the other.

    Parameters
    ----------
    options : sequence, or mapping of str to mapping
        Strings, numbers, booleans or None. Or branches: what is to be drawn only where a name is chosen. Then a
        configuration has the name, and beside it the values of its branch.
    where : mapping or callable, optional
        When the dimension is live: see :class:`Space`.

    Returns
    -------
    Choice

    Raises
    ------
    SpaceError
        No option, an option twice, one that is not plain; a branch that is no mapping, or with a bad name.

    Examples
    --------
    >>> choice([32, 128])
    choice([32, 128])
    >>> choice({"cnn": {"channels": [16, 32]}, "linear": {}})
    choice({'cnn': {'channels': choice([16, 32])}, 'linear': {}})
    """
    if isinstance(options, Mapping):
        if not options:
            raise SpaceError("choice({}) is empty: give at least one branch")
        branches = tuple(_branch(name, branch) for name, branch in options.items())
        return Choice(tuple(options), branches, condition(where))
    if isinstance(options, str | bytes) or not isinstance(options, Sequence | np.ndarray):
        raise SpaceError(f"choice({options!r}): give a list of values, or a mapping of branches")
    listed = [plain(option, f"choice: option {place}") for place, option in enumerate(options)]
    if not listed:
        raise SpaceError("choice([]) is empty: give at least one option")
    for place, option in enumerate(listed):
        if any(same(option, before) for before in listed[:place]):
            raise SpaceError(f"choice: the option {option!r} is there twice, which would make it twice as likely")
    return Choice(tuple(listed), None, condition(where))


def _branch(name: Any, branch: Any) -> Group:
    if not isinstance(name, str) or not name or set(name) & set(_RESERVED[1:]):
        raise SpaceError(
            f"choice: the branch {name!r} needs a name, a string without brackets; for other values make a choice of a "
            "list, and give where= to what depends on it"
        )
    if not isinstance(branch, Mapping):
        raise SpaceError(f"choice: the branch {name!r} is {branch!r}: give a mapping, {{}} if it has no dimensions")
    return grown(branch)


def grown(mapping: Mapping[str, Any]) -> Group:
    """Freeze a mapping of a search space.

    Raises
    ------
    SpaceError
        A name or a value that is not allowed, or a name that is also one of a branch beside it.
    """
    entries = []
    for name, value in mapping.items():
        if not isinstance(name, str) or not name or set(name) & set(_RESERVED):
            raise SpaceError(
                f"{name!r} is no name of a dimension: give a string without dots and brackets, and a nested mapping "
                "for what belongs together"
            )
        entries.append((name, _entry(name, value)))
    group = Group(tuple(entries))
    _names(group)
    return group


def _entry(name: str, value: Any) -> Entry:
    if isinstance(value, Range | Choice):
        return value
    if isinstance(value, Mapping):
        if not value:
            raise SpaceError(f"{name!r} is an empty mapping: leave it out, or name what is in it")
        return grown(value)
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        try:
            return choice(value)
        except SpaceError as error:
            raise SpaceError(f"{name!r}: {error}") from None
    return Constant(plain(value, name))


def _names(group: Group) -> set[str]:
    """Name what lies beside each other in a configuration: branches of one choice never do, all else may."""
    known: set[str] = set()
    for name, entry in group.entries:
        branches = (entry.branches or ()) if isinstance(entry, Choice) else ()
        own = {name}
        for inner in map(_names, branches):
            if name in inner:
                raise SpaceError(
                    f"the name {name!r} of a choice is also one of its branch: in a configuration they "
                    "lie beside each other, so rename one"
                )
            own |= inner
        if clash := sorted(known & own):
            raise SpaceError(
                f"the name {clash[0]!r} is there twice: a branch's names lie beside those around it in a "
                "configuration, so rename one, or put it in a nested mapping"
            )
        known |= own
    return known
