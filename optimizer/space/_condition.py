"""Conditions under which dimensions are live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, plain

__all__ = ["ALWAYS", "Condition", "Test", "Where", "condition"]

Test = Callable[[dict[str, Any]], bool]
Where = Mapping[str, Value | Sequence[Value]] | Test


@dataclass(frozen=True, slots=True)
class Condition:
    """Conjunction of equalities, or a function of the configuration.

    ``needs`` are names in the configuration, dotted where nested, with their allowed values; ``test`` is a function of
    the configuration that is drawn so far.
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
    """Convert a ``where=`` to a condition."""
    if where is None:
        return ALWAYS
    if callable(where):
        return Condition(test=where)
    if not isinstance(where, Mapping) or not where:
        raise SpaceError(
            "where must be a mapping of other dimensions to their values, such as {'optimizer': 'sgd'}, or a "
            "function of "
            f"the configuration, got {where!r}"
        )
    needs = []
    for name, values in where.items():
        if not isinstance(name, str):
            raise SpaceError(f"where must have names of dimensions, which are strings, got {name!r}")
        listed = list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else [values]
        if not listed:
            raise SpaceError(
                f"where must have at least one value of {name!r}, got none: the dimension would never be live"
            )
        needs.append((name, tuple(plain(value, f"where[{name!r}]") for value in listed)))
    return Condition(tuple(needs))
