"""Discovery of the search space of a function that asks for its hyperparameters while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from optimizer.space._condition import ALWAYS, condition
from optimizer.space._define_by_run import HyperParameters
from optimizer.space._errors import SpaceError
from optimizer.space._range import Range
from optimizer.space._space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.space._define_by_run import Asked
    from optimizer.space._plain_values import Value

__all__ = ["discover_space"]

# Values of a range that are tried one by one, where its bounds ask for different hyperparameters.
_MOST_VALUES = 64
_MOST_CALLS = 2000


def discover_space(build: Callable[[HyperParameters], Any]) -> Space:
    """Return the search space of a function in the interface of KerasTuner.

    The function is called with the defaults, then with each option of each choice and with the bounds of each range,
    one change at a time. A hyperparameter that it asks for only with some of these values is live under that condition.
    A ``conditional_scope`` states a condition in addition.

    Parameters
    ----------
    build : callable
        Function of :class:`HyperParameters`; what it returns is not used. It may raise errors for some values, but not
        for the defaults.

    Returns
    -------
    Space
        Space whose configurations have the values by name.

    Raises
    ------
    SpaceError
        The function fails with the defaults, asks for no hyperparameters or for different ones of the same name, or
        asks for others with each value of a range of more than 64.

    Examples
    --------
    >>> def build(hp):
    ...     if hp.Choice("kind", ["mlp", "cnn"]) == "cnn":
    ...         hp.Int("channels", 8, 32, step=8)
    ...     for layer in range(hp.Int("layers", 1, 2)):
    ...         hp.Boolean(f"norm_{layer}")
    >>> print(discover_space(build))
    kind      choice 'mlp', 'cnn'
    layers    integer 1 .. 2
    norm_0    choice False, True
    channels  integer 8 .. 32 step 8 where kind = 'cnn'
    norm_1    choice False, True where layers = 2
    """
    discovery = _Discovery(build)
    discovery.explore({})
    if not discovery.asked:
        raise SpaceError("build must ask for a hyperparameter, such as hp.Int('units', 16, 64), got a call without one")
    return Space({name: discovery.entry(name) for name in discovery.asked})


@dataclass
class _Discovery:
    """Hyperparameters by name, and the values of others with which those without a scope are live.

    ``varied`` are the hyperparameters whose values were tried.
    """

    build: Callable[[HyperParameters], Any]
    asked: dict[str, Asked] = field(default_factory=dict)
    needs: dict[str, tuple[str, list[Value]]] = field(default_factory=dict)
    varied: set[str] = field(default_factory=set)
    calls: int = 0

    def explore(self, values: Mapping[str, Value]) -> None:
        """Vary the hyperparameters that are live with some values, and those that appear meanwhile."""
        for name in self._call(values) or ():
            if name in self.varied:
                continue
            self.varied.add(name)
            appeared = self._vary(values, name)
            for other in dict.fromkeys(each for _, names in appeared for each in names):
                options = [option for option, names in appeared if other in names]
                if len(options) < len(appeared):
                    self.needs.setdefault(other, (name, options))
                    if other not in self.varied:
                        self.explore({**values, name: options[0]})

    def _vary(self, values: Mapping[str, Value], name: str) -> list[tuple[Value, list[str]]]:
        """Return the live hyperparameters with each value of one of them, without values for which calls fail."""
        domain = self.asked[name].domain
        if isinstance(domain, Range):
            bounds = self._tried(values, name, [domain.low, domain.high])
            if len({frozenset(names) for _, names in bounds}) <= 1:
                return bounds
            if domain.count is None or domain.count > _MOST_VALUES:
                raise SpaceError(
                    f"{name!r} must have at most {_MOST_VALUES} values, because others depend on it, got {domain}: use "
                    "a step, or state the condition with hp.conditional_scope"
                )
            options = list(dict.fromkeys(domain.spread(int(domain.count) if domain.log else None)))
        else:
            options = list(domain.options)
        return self._tried(values, name, options)

    def _tried(self, values: Mapping[str, Value], name: str, options: Sequence[Value]) -> list[tuple[Value, list[str]]]:
        tried = [(option, self._call({**values, name: option})) for option in options]
        return [(option, live) for option, live in tried if live is not None]

    def _call(self, values: Mapping[str, Value]) -> list[str] | None:
        """Call the function; return the live hyperparameters that it asks for, or None if it fails."""
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise SpaceError(
                f"build must have hyperparameters that {_MOST_CALLS} calls can explore, got more: use fewer"
            )
        hp = HyperParameters(values)
        failed = False
        try:
            self.build(hp)
        except SpaceError:
            raise
        except Exception as error:
            # Some architectures are invalid; that of the defaults must not be.
            failed = True
            if not values:
                raise SpaceError(
                    f"build must not fail with the defaults, {hp.values}, got {type(error).__name__}: {error}"
                ) from error
        for name, asked in hp.asked.items():
            before = self.asked.setdefault(name, asked)
            if before.domain != asked.domain:
                raise SpaceError(
                    f"hyperparameters of the same name must have the same values, got {name!r} of {before.domain} and "
                    f"{asked.domain}: rename one of them"
                )
        return None if failed else [name for name, asked in hp.asked.items() if asked.active]

    def entry(self, name: str) -> Any:
        """Return the domain of a hyperparameter with its conditions."""
        asked = self.asked[name]
        needs = dict([self.needs[name]] if name in self.needs else []) | dict(asked.conditions)
        where = condition({key: list(values) for key, values in needs.items()}) if needs else ALWAYS
        return replace(asked.domain, where=where)
