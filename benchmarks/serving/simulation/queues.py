"""Queues and backends of a simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.serving.simulation.balancing import Balancer
    from optimizer.serving._session import Session

__all__ = ["Line", "Node", "Queue", "Slot"]


class Line:
    """Requests of one session: their outcomes, and the backends that serve them.

    Parameters
    ----------
    session : Session
    """

    __slots__ = ("batches", "budget_ms", "dropped", "lost", "overdue", "queues", "routes", "session", "tagged", "turns")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.budget_ms = session.budget_ms
        # Milliseconds after the deadline at which each was answered: negative where it was in time.
        self.overdue: list[float] = []
        self.batches: list[int] = []
        self.dropped = 0
        self.lost = 0
        # Queues of the backends that serve it, by a balancer for each front end.
        self.queues: list[Queue] = []
        self.routes: list[Balancer] = []
        self.turns = 0
        # True if a query needs the outcome of each request.
        self.tagged = False


class Queue:
    """Waiting requests of a session at one backend, or of a session at all of them."""

    __slots__ = ("deadlines", "line", "nodes", "tags")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.deadlines: list[float] = []
        self.tags: list[int] = []
        self.nodes: list[Node] = []


class Slot:
    """A session's part of a backend's duty cycle."""

    __slots__ = ("batch", "deviations", "latencies", "queue")

    def __init__(self, queue: Queue, latencies: list[float], deviations: list[float] | None, batch: int) -> None:
        self.queue = queue
        self.latencies = latencies
        self.deviations = deviations
        self.batch = batch


class Node:
    """A backend, which runs a batch of each session with requests in turn."""

    __slots__ = ("alive", "busy_ms", "name", "running", "slots", "turn", "wake_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.slots: list[Slot] = []
        self.turn = 0
        # Queue, deadlines and tags of the batch.
        self.running: tuple[Queue, list[float], list[int]] | None = None
        self.busy_ms = 0.0
        self.wake_ms = -math.inf
