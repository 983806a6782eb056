"""Discrete events of a simulation: arrivals, ends of batches, failures and new plans."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.serving.simulation.balancing import balancer
from benchmarks.serving.simulation.queues import Line, Node, Queue, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from benchmarks.serving.simulation.front_ends import FrontEnds
    from optimizer.serving._dispatch import Policy
    from optimizer.serving._plan import NodePlan, ServingPlan

__all__ = ["Engine"]

# What a batch takes at least of its mean, whatever its deviation draws.
_SHORTEST = 0.1


class Engine:
    """State of all backends and queues, and the clock.

    Parameters
    ----------
    lines : mapping of str to Line
    policy : Policy
    front_ends : FrontEnds
    rng : numpy.random.Generator
    """

    def __init__(
        self, lines: Mapping[str, Line], policy: Policy, front_ends: FrontEnds, rng: np.random.Generator
    ) -> None:
        self.lines = lines
        self.nodes: dict[str, Node] = {}
        self.now = 0.0
        # Told of tagged requests: what was answered, and what was given up.
        self.answered: Callable[[Line, list[int]], None] | None = None
        self.given_up: Callable[[list[int]], None] | None = None
        self._policy = policy
        self._front_ends = front_ends
        self._rng = rng
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._draws: list[float] = []

    def at(self, time_ms: float, event: Callable[[], None]) -> None:
        """Schedule an event."""
        self._number += 1
        heapq.heappush(self._events, (time_ms, self._number, event))

    def run(self, times_ms: Sequence[float], lines: Sequence[Line]) -> None:
        """Process arrivals and all other events until every request is settled.

        Parameters
        ----------
        times_ms : sequence of float
            Ascending.
        lines : sequence of Line
            Whose request each is.
        """
        events, send, start = self._events, self.send, self.start_idle
        for time_ms, line in zip(times_ms, lines, strict=True):
            while events and events[0][0] <= time_ms:
                self._next()
            self.now = time_ms
            queue = send(line, time_ms + line.budget_ms)
            if queue is not None:
                start(queue)
        while events:
            self._next()

    def send(self, line: Line, deadline_ms: float, tag: int = -1) -> Queue | None:
        """Queue a request as the balancer decides, without starting a batch; return None if no backend serves it."""
        queues = line.queues
        if not queues:
            line.lost += 1
            if self.given_up and line.tagged:
                self.given_up([tag])
            return None
        if len(queues) == 1:
            queue = queues[0]
        else:
            line.turns += 1
            queue = queues[line.routes[line.turns % len(line.routes)].choose(self.now)]
        deadlines = queue.deadlines
        # What is sent again, and calls of queries, may be more urgent than who came before.
        if deadlines and deadlines[-1] > deadline_ms:
            place = bisect_right(deadlines, deadline_ms)
            deadlines.insert(place, deadline_ms)
            if line.tagged:
                queue.tags.insert(place, tag)
        else:
            deadlines.append(deadline_ms)
            if line.tagged:
                queue.tags.append(tag)
        return queue

    def start_idle(self, queue: Queue) -> None:
        """Start a batch of a queue on an idle backend."""
        for node in queue.nodes:
            if node.running is None and node.alive and self.start(node):
                break

    def start(self, node: Node) -> bool:
        """Run the batch of the next session; return whether a session was ready."""
        slots, count, now = node.slots, len(node.slots), self.now
        wake = math.inf
        for step in range(count):
            place = (node.turn + step) % count
            slot = slots[place]
            deadlines = slot.queue.deadlines
            if not deadlines:
                continue
            drop, take, wait = self._policy(deadlines, now, slot.latencies, slot.batch)
            if drop:
                self._drop(slot.queue, drop)
            if take:
                node.turn = (place + 1) % count
                self._batch(node, slot, take)
                return True
            if wait is not None and wait < wake:
                wake = wait
        if wake < math.inf and not now < node.wake_ms <= wake:
            node.wake_ms = wake
            self.at(wake, partial(self._wake, node))
        return False

    def adopt(self, plan: ServingPlan) -> None:
        """Adopt a new plan, and send requests again whose backend no longer serves their session."""
        kept: dict[tuple[str, str], Queue] = {}
        for node in self.nodes.values():
            kept |= {(node.name, slot.queue.line.session.name): slot.queue for slot in node.slots}
            node.slots = []
            node.turn = 0
        old = list(dict.fromkeys(kept.values()))
        for queue in old:
            queue.nodes = []
        weights: dict[str, list[float]] = {name: [] for name in self.lines}
        for line in self.lines.values():
            line.queues = []
        for part in plan.nodes:
            node = self.nodes.setdefault(part.backend.name, Node(part.backend.name))
            if node.alive:
                self._serve(node, part, kept, weights)
        for name, given in weights.items():
            self._balance(self.lines[name], given)
        self._send_again([queue for queue in old if not queue.nodes])
        for node in self.nodes.values():
            self._wake(node)

    def fail(self, name: str, notice_ms: float) -> None:
        """Fail a backend; its requests are sent again when the front ends notice."""
        node = self.nodes.get(name)
        if node is None or not node.alive:
            return
        node.alive = False
        stranded, node.running = node.running, None
        self.at(self.now + notice_ms, partial(self._notice, node, stranded))

    def _serve(
        self, node: Node, part: NodePlan, kept: Mapping[tuple[str, str], Queue], weights: Mapping[str, list[float]]
    ) -> None:
        """Assign sessions to a backend, and keep its existing queues."""
        for one in part.placements:
            line = self.lines[one.session]
            queue = kept.get((node.name, one.session)) or Queue(line)
            if self._front_ends.balancing == "centralized" and line.queues:
                # What waited at this backend alone is sent again, to the common queue.
                queue = line.queues[0]
            if queue not in line.queues:
                line.queues.append(queue)
                weights[one.session].append(one.rate)
            queue.nodes.append(node)
            profile = line.session.profile
            deviations = (profile.deviations / part.backend.speed).tolist() if profile.deviations.any() else None
            node.slots.append(Slot(queue, (profile.latencies / part.backend.speed).tolist(), deviations, one.batch))

    def _notice(self, node: Node, stranded: tuple[Queue, list[float], list[int]] | None) -> None:
        queues = [slot.queue for slot in node.slots]
        node.slots = []
        for queue in queues:
            queue.nodes.remove(node)
            line = queue.line
            if not queue.nodes:
                place = line.queues.index(queue)
                weights = list(line.routes[0].weights)
                del line.queues[place], weights[place]
                self._balance(line, weights)
        if stranded is not None:
            queue, deadlines, tags = stranded
            self._send_all(queue.line, deadlines, tags)
        self._send_again([queue for queue in queues if not queue.nodes])

    def _send_again(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            deadlines, tags = queue.deadlines, queue.tags
            queue.deadlines, queue.tags = [], []
            self._send_all(queue.line, deadlines, tags)

    def _send_all(self, line: Line, deadlines: Sequence[float], tags: Sequence[int]) -> None:
        queues = [self.send(line, deadline, tags[place] if tags else -1) for place, deadline in enumerate(deadlines)]
        for queue in dict.fromkeys(queues):
            if queue is not None:
                self.start_idle(queue)

    def _balance(self, line: Line, weights: Sequence[float]) -> None:
        queues = line.queues
        ends = self._front_ends
        # A common queue needs no choice.
        name = "deficit" if ends.balancing == "centralized" else ends.balancing
        line.routes = [
            balancer(name, weights, self._uniform, lambda place: len(queues[place].deadlines), ends.cached_ms)
            for _ in range(ends.count if weights else 0)
        ]

    def _wake(self, node: Node) -> None:
        if node.running is None and node.alive:
            self.start(node)

    def _drop(self, queue: Queue, count: int) -> None:
        line = queue.line
        line.dropped += count
        del queue.deadlines[:count]
        if line.tagged:
            gone = queue.tags[:count]
            del queue.tags[:count]
            if self.given_up:
                self.given_up(gone)

    def _batch(self, node: Node, slot: Slot, take: int) -> None:
        queue = slot.queue
        batch, tags = queue.deadlines[:take], queue.tags[:take]
        del queue.deadlines[:take], queue.tags[:take]
        took = slot.latencies[take]
        if slot.deviations is not None:
            took = max(_SHORTEST * took, took + slot.deviations[take] * float(self._rng.standard_normal()))
        node.running = (queue, batch, tags)
        node.busy_ms += took
        self.at(self.now + took, partial(self._finish, node, node.running))

    def _finish(self, node: Node, running: tuple[Queue, list[float], list[int]]) -> None:
        # A backend that was lost meanwhile answers nothing.
        if node.running is not running:
            return
        now = self.now
        queue, deadlines, tags = running
        node.running = None
        line = queue.line
        line.overdue.extend([now - deadline for deadline in deadlines])
        line.batches.append(len(deadlines))
        if self.answered and line.tagged:
            self.answered(line, tags)
        self._wake(node)

    def _next(self) -> None:
        self.now, _, event = heapq.heappop(self._events)
        event()

    def _uniform(self) -> float:
        if not self._draws:
            self._draws = self._rng.random(4096).tolist()
        return self._draws.pop()
