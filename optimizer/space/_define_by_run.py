"""Hyperparameters in the interface of KerasTuner, which a function asks for while it builds a model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.space._errors import SpaceError
from optimizer.space._plain_values import Value, plain, same
from optimizer.space._range import Range, integer, log_integer, log_uniform, uniform
from optimizer.space._tree import Choice, choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Asked", "HyperParameters"]

_SCALES = ("linear", "log")

_Domain = Range | Choice


@dataclass(frozen=True, slots=True)
class Asked:
    """Hyperparameter that a function asked for, and the conditions that its scopes state, by name."""

    domain: Range | Choice
    default: Value
    conditions: tuple[tuple[str, tuple[Value, ...]], ...]
    active: bool


class HyperParameters:
    """Values of a configuration as ``keras_tuner.HyperParameters`` gives them to a function that builds a model.

    A hyperparameter without a value has its default, as in KerasTuner: the first option, or the lower bound.

    Parameters
    ----------
    values : mapping of str
        Values by name.

    Attributes
    ----------
    asked : dict of str to Asked
        Hyperparameters that the function has asked for, in this order.

    Examples
    --------
    >>> hp = HyperParameters({"kind": "cnn"})
    >>> hp.Choice("kind", ["mlp", "cnn"]), hp.Int("layers", 1, 3)
    ('cnn', 1)
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values: dict[str, Any] = dict(values)
        self.asked: dict[str, Asked] = {}
        self._conditions: list[tuple[str, tuple[Value, ...]]] = []
        self._scopes: list[str] = []

    @contextmanager
    def name_scope(self, name: str) -> Iterator[None]:
        """Put a name and a slash before the names of a ``with`` block."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def conditional_scope(self, parent_name: str, parent_values: Any) -> Iterator[None]:
        """State that the hyperparameters of a ``with`` block are live if another one has certain values."""
        values = parent_values if isinstance(parent_values, list | tuple) else [parent_values]
        self._conditions.append((self._named(parent_name), tuple(values)))
        try:
            yield
        finally:
            self._conditions.pop()

    def Choice(
        self,
        name: str,
        values: Sequence[Any],
        ordered: bool | None = None,
        default: Any = None,
        parent_name: str | None = None,
        parent_values: Any = None,
    ) -> Any:
        """Return the chosen option; None if it is not live."""
        domain = choice(list(values))
        first = domain.options[0] if default is None else default
        return self._ask(name, domain, first, parent_name, parent_values)

    def Boolean(
        self,
        name: str,
        default: bool = False,
        parent_name: str | None = None,
        parent_values: Any = None,
    ) -> Any:
        """Return True or False; None if it is not live."""
        return self._ask(name, choice([False, True]), default, parent_name, parent_values)

    def Fixed(self, name: str, value: Any, parent_name: str | None = None, parent_values: Any = None) -> Any:
        """Return the value; None if it is not live."""
        return self._ask(name, choice([value]), value, parent_name, parent_values)

    def Int(
        self,
        name: str,
        min_value: int,
        max_value: int,
        step: int | None = None,
        sampling: str | None = "linear",
        default: int | None = None,
        parent_name: str | None = None,
        parent_values: Any = None,
    ) -> Any:
        """Return an integer; None if it is not live."""
        low, high = int(min_value), int(max_value)
        domain: _Domain
        if _scale(name, sampling) == "log":
            domain = log_integer(low, high) if step is None else choice(_multiples(low, high, step))
        else:
            options = range(low, high + 1, step or 1)
            domain = integer(low, high, step or 1) if len(options) > 1 else choice([low])
        return self._ask(name, domain, low if default is None else default, parent_name, parent_values)

    def Float(
        self,
        name: str,
        min_value: float,
        max_value: float,
        step: float | None = None,
        sampling: str | None = "linear",
        default: float | None = None,
        parent_name: str | None = None,
        parent_values: Any = None,
    ) -> Any:
        """Return a float; None if it is not live."""
        low, high = float(min_value), float(max_value)
        domain: _Domain
        if low == high:
            domain = choice([low])
        elif _scale(name, sampling) == "log":
            domain = log_uniform(low, high) if step is None else choice(_multiples(low, high, step))
        else:
            domain = uniform(low, high, step)
        return self._ask(name, domain, low if default is None else default, parent_name, parent_values)

    def get(self, name: str) -> Any:
        """Return the value of a hyperparameter that was asked for; KeyError if there is none."""
        return self.values[self._named(name)]

    __getitem__ = get

    def __contains__(self, name: str) -> bool:
        return self._named(name) in self.values

    def _ask(self, name: str, domain: _Domain, default: Any, parent_name: str | None, parent_values: Any) -> Any:
        if parent_name is not None:
            with self.conditional_scope(parent_name, parent_values):
                return self._ask(name, domain, default, None, None)
        name = self._named(name)
        active = all(
            parent in self.values and any(same(self.values[parent], value) for value in values)
            for parent, values in self._conditions
        )
        before = self.asked.get(name)
        if before is not None and before.domain != domain:
            raise SpaceError(
                f"hyperparameters of the same name must have the same values, got {name!r} of {before.domain} and "
                f"{domain}: rename one of them"
            )
        if before is None or (active and not before.active):
            self.asked[name] = Asked(domain, plain(default, name), self._stated(name, before), active)
        elif tuple(self._conditions) != before.conditions:
            self.asked[name] = Asked(domain, before.default, self._stated(name, before), before.active)
        if not active:
            return None
        return self.values.setdefault(name, plain(default, name))

    def _stated(self, name: str, before: Asked | None) -> tuple[tuple[str, tuple[Value, ...]], ...]:
        """Return the conditions of a hyperparameter, which may be asked for in several scopes of one parent."""
        current = tuple(self._conditions)
        if before is None or before.conditions == current:
            return current
        if not before.conditions or not current:
            return ()
        *outer, (parent, values) = current
        *others, (other, known) = before.conditions
        if other != parent or others != outer:
            raise SpaceError(
                f"hyperparameters of the same name must have conditions on the same parent, got {name!r} with "
                f"{other!r} and {parent!r}: rename one of them"
            )
        return (*outer, (parent, (*known, *(value for value in values if value not in known))))

    def _named(self, name: str) -> str:
        return "/".join([*self._scopes, str(name)])


def _scale(name: str, sampling: str | None) -> str:
    scale = sampling or "linear"
    if scale not in _SCALES:
        raise SpaceError(f"sampling of {name!r} must be 'linear' or 'log', got {sampling!r}")
    return scale


def _multiples(low: float, high: float, factor: float) -> list[Any]:
    """List ``low`` and its products with powers of a factor, up to ``high``."""
    if factor <= 1 or low <= 0:
        raise SpaceError(f"step with sampling='log' must be a factor above 1 of a positive minimum, got {factor!r}")
    values = [low]
    while values[-1] * factor <= high:
        values.append(values[-1] * factor)
    return values
