"""Search spaces drawn by hypothesis, and an arithmetic of their configurations that shares no code with them."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st

from optimizer.space import Dimension, Space, choice, integer, log_integer, log_uniform, uniform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["LR_BATCH_NET", "all_values", "belongs", "brute_force", "few", "live", "search_spaces", "spaces"]

LR_BATCH_NET = Space(
    {
        "lr": log_uniform(1e-5, 1e-1),
        "batch": choice([32, 128]),
        "net": choice({"cnn": {"channels": choice([16, 32])}, "lstm": {"units": log_integer(32, 256)}}),
    }
)
"""The search space of issue 17's example."""

few = settings(max_examples=40)
"""Drawing a space takes most of the time of a test that draws one."""

OPTIONS = st.sampled_from([[1, 2], [4, 1, 2], ["a", "b"], [True, False], [None, 0.5], ["only"], [0, False, "x"]])


class _Grower:
    """Draws a search space part by part; conditions read only what is in ``pool``, so that none waits for itself."""

    def __init__(self, draw: st.DrawFn, *, continuous: bool) -> None:
        self.draw = draw
        self.domains = [self.choice, self.integer, self.stepped]
        self.domains += [self.uniform, self.log_uniform, self.log_integer] if continuous else []
        self.pool: list[tuple[str, list[Any]]] = []  # names, and some of their values
        self.grown: list[tuple[str, list[Any]]] = []  # the same of the part in hand

    def parts(self) -> dict[str, Any]:
        parts: list[tuple[str, Any]] = []
        first = 0
        for _ in range(self.draw(st.integers(1, 2))):
            entries, first = self.group(first, 2, "")
            parts += entries.items()
            # A name that several branches have has other values in each: conditions leave it alone.
            names = [name for name, _ in self.grown]
            self.pool += [(name, values) for name, values in self.grown if names.count(name) == 1]
            self.grown = []
        return dict(self.draw(st.permutations(parts)))

    def group(self, first: int, depth: int, prefix: str) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        for _ in range(self.draw(st.integers(1, 3))):
            name, kind = f"n{first}", self.draw(st.sampled_from(["leaf", "leaf", "branches", "mapping"]))
            first += 1
            if depth and kind == "branches":
                # Each branch begins with the same name: they may share it, since only one is live.
                branches = {
                    key: self.group(first, depth - 1, prefix) for key in self.draw(st.sampled_from(["p", "pq"]))
                }
                first = max(last for _, last in branches.values())
                entries[name] = choice({**{key: inner for key, (inner, _) in branches.items()}, "none": {}})
                self.grown.append((prefix + name, ["p"]))
            elif depth and kind == "mapping":
                entries[name], _ = self.group(0, depth - 1, f"{prefix}{name}.")
            elif self.draw(st.integers(0, 5)) == 0:
                entries[name] = self.draw(st.sampled_from([1, "fixed", None]))
            else:
                entries[name] = self.draw(st.sampled_from(self.domains))(prefix + name)
        return entries, first

    def where(self) -> dict[str, Any] | None:
        if not self.pool or self.draw(st.integers(0, 2)):
            return None
        name, values = self.draw(st.sampled_from(self.pool))
        return {name: self.draw(st.sampled_from([values[0], values]))}

    def choice(self, name: str) -> Any:
        options = self.draw(OPTIONS)
        self.grown.append((name, options))
        return choice(options, where=self.where())

    def integer(self, name: str) -> Any:
        low, step = self.draw(st.integers(-3, 3)), self.draw(st.integers(1, 2))
        self.grown.append((name, [low]))
        return integer(low, low + self.draw(st.integers(step, 4)), step, where=self.where())

    def stepped(self, name: str) -> Any:
        self.grown.append((name, [0.1]))
        high, step = self.draw(st.sampled_from([0.3, 0.35, 0.7])), self.draw(st.sampled_from([0.1, 0.2]))
        return uniform(0.1, high, step, where=self.where())

    def uniform(self, _name: str) -> Any:
        low = self.draw(st.floats(-1e6, 1e6))
        return uniform(low, low + self.draw(st.floats(0.1, 1e6)), where=self.where())

    def log_uniform(self, _name: str) -> Any:
        low = self.draw(st.floats(1e-9, 1e3))
        return log_uniform(low, low * self.draw(st.floats(1.01, 1e6)), where=self.where())

    def log_integer(self, _name: str) -> Any:
        low = self.draw(st.integers(1, 1000))
        return log_integer(low, low + self.draw(st.integers(1, 10**6)), where=self.where())


@st.composite
def search_spaces(draw: st.DrawFn, *, continuous: bool = True) -> dict[str, Any]:
    """Draw a search space: branches in branches that share names, nested mappings, conditions in either direction."""
    return _Grower(draw, continuous=continuous).parts()


def spaces(*, continuous: bool = True) -> st.SearchStrategy[Space]:
    """Draw a space; without continuous ones, all domains have a grid."""
    return search_spaces(continuous=continuous).map(Space)


def all_values(dimension: Dimension) -> list[Any]:
    """List the values of a finite dimension, by repeated addition."""
    if dimension.choices is not None:
        return list(dimension.choices)
    assert dimension.low is not None
    assert dimension.high is not None
    assert dimension.step is not None
    values = (round(dimension.low + place * dimension.step, 9) for place in itertools.count())
    return list(itertools.takewhile(lambda value: value <= dimension.high + 1e-9, values))


def belongs(dimension: Dimension, value: Any) -> bool:
    """Tell whether a value is plain, and one of a dimension's."""
    if dimension.choices is not None:
        return any(type(value) is type(option) and value == option for option in dimension.choices)
    assert dimension.low is not None
    assert dimension.high is not None
    if type(value) is not (int if dimension.integral else float) or not dimension.low <= value <= dimension.high:
        return False
    if dimension.step is None:
        return True
    steps = (value - dimension.low) / dimension.step
    return math.isclose(steps, round(steps), abs_tol=1e-6)


def live(dimension: Dimension, values: Mapping[str, Any], space: Space) -> bool:
    """Tell whether a dimension is live where each dimension has a value, live or not."""
    by_path = {other.path: other for other in space.dimensions}
    if dimension.parent is not None:
        path, branch = dimension.parent
        if values[path] != branch or not live(by_path[path], values, space):
            return False
    for name, allowed in dimension.condition.items():
        named = [other for other in space.dimensions if other.name == name and live(other, values, space)]
        if not any(type(values[other.path]) is type(v) and values[other.path] == v for other in named for v in allowed):
            return False
    return True


def brute_force(space: Space) -> Iterator[dict[str, Any]]:
    """Yield the live values, by path, of every combination of all dimensions, dead ones too: many are the same."""
    dimensions = space.dimensions
    for combination in itertools.product(*map(all_values, dimensions)):
        values = dict(zip([dimension.path for dimension in dimensions], combination, strict=True))
        yield {dimension.path: values[dimension.path] for dimension in dimensions if live(dimension, values, space)}
