"""Queries: models that call each other within one deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optimizer.arguments import real
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.serving._errors import ServingError
from optimizer.serving._profile import BatchingProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Query"]


@dataclass(frozen=True, slots=True)
class Query:
    """Graph of models that answers a request within one deadline (section 3.4.2).

    ``calls["detector", "cars"]`` is alpha: the mean number of calls of the second model per request of the first. A
    model without a caller is called by the query itself, once per request unless ``entries`` says otherwise. ``rate``
    is requests per second. Raise ServingError if the calls form a circle, or name a model that does not exist.

    Examples
    --------
    >>> ssd, car = BatchingProfile.from_line(20, 30, 16), BatchingProfile.from_line(2, 8, 32)
    >>> query = Query("traffic", {"ssd": ssd, "car": car}, {("ssd", "car"): 2.5}, slo_ms=400, rate=10)
    >>> query.stages, query.rates["car"]
    ((('ssd',), ('car',)), 25.0)
    """

    name: str
    models: Mapping[str, BatchingProfile] = field(hash=False)
    calls: Mapping[tuple[str, str], float] = field(hash=False)
    slo_ms: float
    rate: float
    entries: Mapping[str, float] = field(default_factory=dict, hash=False)
    order: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        if not self.models:
            raise ServingError(f"models must have at least one model, got {{}} in query {self.name!r}.")
        wrong = [name for name, profile in self.models.items() if not isinstance(profile, BatchingProfile)]
        if wrong:
            raise InvalidArgumentError(
                f"models[{wrong[0]!r}] must be a BatchingProfile, got {self.models[wrong[0]]!r}."
            )
        real("slo_ms", self.slo_ms, 0, above=True)
        real("rate", self.rate, 0, above=True)
        for caller, called in self.calls:
            real(f"calls[{caller!r}, {called!r}]", self.calls[caller, called], 0)
        named = [name for pair in self.calls for name in pair] + list(self.entries)
        unknown = [name for name in named if name not in self.models]
        if unknown:
            raise ServingError(
                f"calls and entries must name models of query {self.name!r}, got "
                f"{unknown[0]!r}{nearest(unknown[0], self.models) or '.'}"
            )
        inner = {pair[1] for pair in self.calls}
        for name, count in self.entries.items():
            real(f"entries[{name!r}]", count, 0)
            if name in inner:
                raise ServingError(f"entries must be models without a caller, got {name!r}, which a model calls.")
        object.__setattr__(self, "order", self._sorted())

    def callers(self, model: str) -> tuple[str, ...]:
        """Return the models that call a model."""
        return tuple(caller for caller, called in self.calls if called == model)

    def called_by(self, model: str) -> tuple[str, ...]:
        """Return the models that a model calls."""
        return tuple(called for caller, called in self.calls if caller == model)

    @property
    def is_tree(self) -> bool:
        """True if no model has two callers."""
        return all(len(self.callers(name)) <= 1 for name in self.models)

    @property
    def rates(self) -> dict[str, float]:
        """Requests per second of each model."""
        rates: dict[str, float] = {}
        for name in self.order:
            callers = self.callers(name)
            per_request = self.entries.get(name, 1.0)
            rates[name] = (
                sum(rates[caller] * self.calls[caller, name] for caller in callers)
                if callers
                else self.rate * per_request
            )
        return rates

    @property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Models by depth: a model is one stage behind the last of its callers."""
        depth: dict[str, int] = {}
        for name in self.order:
            depth[name] = 1 + max((depth[caller] for caller in self.callers(name)), default=-1)
        return tuple(
            tuple(name for name in self.order if depth[name] == stage) for stage in range(max(depth.values()) + 1)
        )

    def _sorted(self) -> tuple[str, ...]:
        """Sort the models so that callers come first."""
        waiting = {name: len(self.callers(name)) for name in self.models}
        ready = [name for name, callers in waiting.items() if not callers]
        order: list[str] = []
        while ready:
            name = ready.pop(0)
            order.append(name)
            for called in self.called_by(name):
                waiting[called] -= 1
                if not waiting[called]:
                    ready.append(called)
        if len(order) < len(self.models):
            circle = ", ".join(sorted(set(self.models) - set(order)))
            raise ServingError(f"calls of query {self.name!r} must have no circle, got one among {circle}.")
        return tuple(order)
