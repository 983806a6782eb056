"""Frozen trees of search spaces, with choices, branches, constants and nested mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.space._condition import ALWAYS, Condition, Where, condition
from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, plain, same
from optimizer.space._range import Range
from optimizer.space._streams import below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Choice", "Constant", "Domain", "Entry", "Group", "choice", "grown"]

# Characters that would make the path of a dimension ambiguous.
_RESERVED = ".[]"


@dataclass(frozen=True)
class Constant:
    """Domain of a single value, which is not a dimension."""

    value: Value
    where: Condition = ALWAYS
    kind = "constant"
    several = False

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return f"always {self.value!r}"

    def draw(self, word: int) -> Value:
        """Return the value."""
        return self.value

    def holds(self, value: Any) -> bool:
        """Return True if this is the value."""
        return same(self.value, value)

    def moved(self, value: Value, factor: float) -> Value:
        """Return the value unchanged."""
        return value

    def spread(self, points: int | None) -> list[Value]:
        """List the value."""
        return [self.value]


@dataclass(frozen=True)
class Choice:
    """Domain of equally likely options.

    ``branches`` are the dimensions that are live with each option.
    """

    options: tuple[Value, ...]
    branches: tuple[Group, ...] | None = None
    where: Condition = ALWAYS
    kind = "choice"

    @property
    def several(self) -> bool:
        """True if there are several options."""
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
        """Convert a random word to an option."""
        return self.options[below(word, len(self.options))]

    def holds(self, value: Any) -> bool:
        """Return True if a value is an option."""
        return any(same(option, value) for option in self.options)

    def moved(self, value: Value, factor: float) -> Value:
        """Return the next smaller or larger number; options that are not all numbers do not change."""
        numbers = sorted(
            option for option in self.options if isinstance(option, int | float) and not isinstance(option, bool)
        )
        if len(numbers) < len(self.options):
            return value
        place = next(place for place, number in enumerate(numbers) if same(number, value))
        return numbers[min(max(place + (1 if factor > 1 else -1), 0), len(numbers) - 1)]

    def spread(self, points: int | None) -> list[Value]:
        """List the options."""
        return list(self.options)


@dataclass(frozen=True)
class Group:
    """Entries by name of a space, a nested mapping or a branch."""

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
    """Return a domain of equally likely options.

    Parameters
    ----------
    options : sequence, or mapping of str to mapping
        Options, which are strings, numbers, booleans or None. A mapping has branches, whose dimensions are drawn only
        if their name is chosen: the configuration then has the name, and the values of its branch next to it.
    where : mapping or callable, optional
        Condition under which the dimension is live; see :class:`Space`.

    Returns
    -------
    Choice
        Domain for a :class:`Space`.

    Raises
    ------
    SpaceError
        There is no option, an option comes twice or is not plain, or a branch is not a mapping or has an invalid name.

    Examples
    --------
    >>> choice([32, 128])
    choice([32, 128])
    >>> choice({"cnn": {"channels": [16, 32]}, "linear": {}})
    choice({'cnn': {'channels': choice([16, 32])}, 'linear': {}})
    """
    if isinstance(options, Mapping):
        if not options:
            raise SpaceError("options must have at least one branch, got {}")
        branches = tuple(_branch(name, branch) for name, branch in options.items())
        return Choice(tuple(options), branches, condition(where))
    if isinstance(options, str | bytes) or not isinstance(options, Sequence | np.ndarray):
        raise SpaceError(f"options must be a list of values or a mapping of branches, got {options!r}")
    listed = [plain(option, f"option {place}") for place, option in enumerate(options)]
    if not listed:
        raise SpaceError("options must have at least one value, got []")
    for place, option in enumerate(listed):
        if any(same(option, before) for before in listed[:place]):
            raise SpaceError(f"options must differ, got {option!r} twice")
    return Choice(tuple(listed), None, condition(where))


def _branch(name: Any, branch: Any) -> Group:
    if not isinstance(name, str) or not name or set(name) & set(_RESERVED[1:]):
        raise SpaceError(
            f"name of a branch must be a string without brackets, got {name!r}: for other values use a list of "
            "options, "
            "and where= for dependent dimensions"
        )
    if not isinstance(branch, Mapping):
        raise SpaceError(f"branch {name!r} must be a mapping, {{}} without dimensions, got {branch!r}")
    return grown(branch)


def grown(mapping: Mapping[str, Any]) -> Group:
    """Freeze a mapping of a search space.

    Raises
    ------
    SpaceError
        A name or a value is not allowed, or a name clashes with that of a branch.
    """
    entries = []
    for name, value in mapping.items():
        if not isinstance(name, str) or not name or set(name) & set(_RESERVED):
            raise SpaceError(
                f"name of a dimension must be a string without dots and brackets, got {name!r}: use a nested mapping "
                "for "
                "a group of dimensions"
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
            raise SpaceError(f"{name} must have at least one entry, got {{}}: leave it out")
        return grown(value)
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        try:
            return choice(value)
        except SpaceError as error:
            raise SpaceError(f"{name}: {error}") from None
    return Constant(plain(value, name))


def _names(group: Group) -> set[str]:
    """Collect names that may occur together in a configuration, and validate that they differ."""
    known: set[str] = set()
    for name, entry in group.entries:
        branches = (entry.branches or ()) if isinstance(entry, Choice) else ()
        names = {name}
        for inner in map(_names, branches):
            if name in inner:
                raise SpaceError(
                    f"name of a choice must differ from the names of its branches, got {name!r}: rename one of them"
                )
            names |= inner
        if clash := sorted(known & names):
            raise SpaceError(
                f"names must differ from those of branches in the same mapping, got {clash[0]!r} twice: rename one, or "
                "use a nested mapping"
            )
        known |= names
    return known
