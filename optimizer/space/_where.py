"""Conditions: when a dimension is live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.space._errors import SpaceError
from optimizer.space._plain import Value, plain

__all__ = ["ALWAYS", "Condition", "Test", "Where", "condition"]

Test = Callable[[dict[str, Any]], bool]
Where = Mapping[str, Value | Sequence[Value]] | Test


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunction of equalities, or a function.

    Parameters
    ----------
    needs : tuple of (str, tuple)
        Name in the configuration, dotted where it is nested, and the values of which it must have one.
    test : callable, optional
        Function of the configuration drawn so far.
    """

    needs: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    test: Test | None = None

    def __bool__(self) -> bool:
        return bool(self.needs or self.test)

    def __str__(self) -> str:
        if self.test:
            return f"{getattr(self.test, '__name__', repr(self.test))}(...)"
        return " and ".join(
            f"{name} = {values[0]!r}" if len(values) == 1 else f"{name} in {', '.join(map(repr, values))}"
            for name, values in self.needs
        )

    def __repr__(self) -> str:
        if self.test:
            return repr(self.test)
        return repr({name: values[0] if len(values) == 1 else list(values) for name, values in self.needs})


ALWAYS = Condition()


def condition(where: Where | None) -> Condition:
    """Freeze a ``where=``."""
    if where is None:
        return ALWAYS
    if callable(where):
        return Condition(test=where)
    if not isinstance(where, Mapping) or not where:
        raise SpaceError(
            f"where={where!r}: give the values that other dimensions must have, as in "
            "{'optimizer': 'sgd'}, or a function of the configuration drawn so far"
        )
    needs = []
    for name, values in where.items():
        if not isinstance(name, str):
            raise SpaceError(f"where={where!r}: {name!r} is no name of a dimension, which is a string")
        listed = list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else [values]
        if not listed:
            raise SpaceError(f"where={where!r}: no value of {name!r} is allowed, so the dimension would never be live")
        needs.append((name, tuple(plain(value, f"where[{name!r}]") for value in listed)))
    return Condition(tuple(needs))
