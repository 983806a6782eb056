"""Minimum cuts of flow networks, by Dinic's algorithm."""

from __future__ import annotations

from collections import deque

__all__ = ["Network"]


class Network:
    """Flow network with integer capacities.

    ``nodes`` is the number of nodes without the source and the sink, numbered from 0.

    Examples
    --------
    >>> network = Network(2)
    >>> network.edge(network.source, 0, 5)
    >>> network.edge(0, 1, 3)
    >>> network.edge(1, network.sink, 4)
    >>> network.sink_side() == {1, network.sink}
    True
    """

    def __init__(self, nodes: int) -> None:
        self.source, self.sink = nodes, nodes + 1
        self._to: list[int] = []
        self._room: list[int] = []
        self._edges: list[list[int]] = [[] for _ in range(nodes + 2)]

    def edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge, and its residual edge, whose number differs in the last bit."""
        for start, end, room in ((tail, head, capacity), (head, tail, 0)):
            self._edges[start].append(len(self._to))
            self._to.append(end)
            self._room.append(room)

    def sink_side(self) -> set[int]:
        """Return the nodes on the sink's side of a minimum cut, the smallest such set."""
        while (level := self._levels())[self.sink] >= 0:
            place = [0] * len(self._edges)
            while self._push(level, place):
                pass
        reached, stack = {self.sink}, [self.sink]
        while stack:
            for number in self._edges[stack.pop()]:
                tail = self._to[number]
                if tail not in reached and self._room[number ^ 1] > 0:
                    reached.add(tail)
                    stack.append(tail)
        return reached

    def _levels(self) -> list[int]:
        level = [-1] * len(self._edges)
        level[self.source] = 0
        queue = deque([self.source])
        while queue:
            node = queue.popleft()
            for number in self._edges[node]:
                head = self._to[number]
                if self._room[number] > 0 and level[head] < 0:
                    level[head] = level[node] + 1
                    queue.append(head)
        return level

    def _push(self, level: list[int], place: list[int]) -> int:
        """Send flow along a path of increasing levels; return 0 if there is none."""
        path: list[int] = []
        node = self.source
        while node != self.sink:
            while place[node] < len(self._edges[node]):
                number = self._edges[node][place[node]]
                if self._room[number] > 0 and level[self._to[number]] == level[node] + 1:
                    break
                place[node] += 1
            else:
                if not path:
                    return 0
                node = self._to[path.pop() ^ 1]
                place[node] += 1
                continue
            path.append(number)
            node = self._to[number]
        flow = min(self._room[number] for number in path)
        for number in path:
            self._room[number] -= flow
            self._room[number ^ 1] += flow
        return flow
