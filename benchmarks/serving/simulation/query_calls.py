"""Queries in a simulation: a model's answers call the next models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from benchmarks.serving.simulation.events import Engine
    from benchmarks.serving.simulation.queues import Line
    from optimizer.serving._query_split import QuerySplit

__all__ = ["CalledQueries"]


class CalledQueries:
    """Requests of queries, each of which is answered when all that it called are.

    Parameters
    ----------
    splits : sequence of QuerySplit
    lines : mapping of str to Line
    engine : Engine
    rng : numpy.random.Generator
    """

    def __init__(
        self, splits: Sequence[QuerySplit], lines: Mapping[str, Line], engine: Engine, rng: np.random.Generator
    ) -> None:
        self._engine = engine
        self._rng = rng
        self._splits = splits
        self._lines = lines
        # By request: its query, its start, calls that are not answered, and whether one was given up.
        self._query: list[int] = []
        self._start: list[float] = []
        self._open: list[int] = []
        self._failed: list[bool] = []
        self.requests = [0] * len(splits)
        self.dropped = [0] * len(splits)
        self.latencies: list[list[float]] = [[] for _ in splits]
        # By session: the query, the calls of others, and the time since the request by which it is due.
        self._called: dict[str, tuple[int, list[tuple[Line, float, float]]]] = {}
        self._entries: list[list[tuple[Line, float, float]]] = []
        for number, split in enumerate(splits):
            self._read(number, split)
        engine.answered = self._answered
        engine.given_up = self._given_up

    def arrive(self, number: int) -> None:
        """Process the arrival of a request of a query."""
        tag = len(self._query)
        self._query.append(number)
        self._start.append(self._engine.now)
        self._open.append(1)
        self._failed.append(False)
        self.requests[number] += 1
        self._call(tag, self._entries[number])
        self._settle(tag)

    def _read(self, number: int, split: QuerySplit) -> None:
        query, budgets = split.query, split.budgets
        due: dict[str, float] = {}
        for name in query.order:
            due[name] = budgets[name] + max((due[caller] for caller in query.callers(name)), default=0.0)
        line_of = {name: self._lines.get(f"{query.name}/{name}") for name in query.order}
        for name, line in line_of.items():
            if line is None:
                continue
            line.tagged = True
            calls = [
                (other, query.calls[name, called], called)
                for called in query.called_by(name)
                if (other := line_of[called]) is not None
            ]
            self._called[line.session.name] = (
                number,
                [(other, alpha, due[called] - budgets[called] + other.budget_ms) for other, alpha, called in calls],
            )
        self._entries.append(
            [
                (line, query.entries.get(name, 1.0), line.budget_ms)
                for name, line in line_of.items()
                if line is not None and not query.callers(name)
            ]
        )

    def _call(self, tag: int, calls: Sequence[tuple[Line, float, float]]) -> None:
        start = self._start[tag]
        for line, alpha, due in calls:
            whole = math.floor(alpha)
            count = whole + (alpha > whole and bool(self._rng.random() < alpha - whole))
            self._open[tag] += count
            reached = [self._engine.send(line, start + due, tag) for _ in range(count)]
            # Calls of one request arrive together, and may be one batch.
            for queue in dict.fromkeys(reached):
                if queue is not None:
                    self._engine.start_idle(queue)

    def _answered(self, line: Line, tags: list[int]) -> None:
        _, calls = self._called[line.session.name]
        for tag in tags:
            if calls and not self._failed[tag]:
                self._call(tag, calls)
            self._settle(tag)

    def _given_up(self, tags: list[int]) -> None:
        for tag in tags:
            self._failed[tag] = True
            self._settle(tag)

    def _settle(self, tag: int) -> None:
        self._open[tag] -= 1
        if self._open[tag]:
            return
        number = self._query[tag]
        if self._failed[tag]:
            self.dropped[number] += 1
        else:
            self.latencies[number].append(self._engine.now - self._start[tag])
