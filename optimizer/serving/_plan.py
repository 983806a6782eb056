"""Plans of serving: the sessions, batches and duty cycle of each backend."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, nearest
from optimizer.notebook import ExplainedInNotebooks
from optimizer.serving._duty_cycles import TOLERANCE, batch_in
from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._session import Backend, Session

__all__ = ["NodePlan", "Placement", "ServingPlan", "node_plan"]

# Occupancy from which percentages are shown without a fraction.
_TENTH = 0.1


@dataclass(frozen=True, slots=True)
class Placement:
    """A session on a backend.

    ``batch`` is the largest one, which takes ``latency_ms``; ``worst_ms`` is from arrival to answer: duty cycle, batch,
    pre- and postprocessing. ``memory_bytes`` are those of the model with that batch.
    """

    session: str
    rate: float
    batch: int
    latency_ms: float
    worst_ms: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Duty cycle of a backend: a batch of each placement in turn.

    ``busy`` is the occupancy at the planned rates. Default: that of one batch per cycle, or per request if there are
    fewer requests than cycles.
    """

    backend: Backend
    duty_ms: float
    placements: tuple[Placement, ...]
    busy: float | None = None

    @property
    def busy_ms(self) -> float:
        """Milliseconds of all batches of a cycle."""
        return sum(placement.latency_ms for placement in self.placements)

    @property
    def occupancy(self) -> float:
        """Share of its time in which the backend runs batches at the planned rates."""
        if self.busy is not None:
            return self.busy
        cycles = 1000 / self.duty_ms
        return sum(min(cycles, placement.rate) * placement.latency_ms for placement in self.placements) / 1000

    @property
    def memory_bytes(self) -> int:
        """Bytes of all models with their batches."""
        return sum(placement.memory_bytes for placement in self.placements)


@dataclass(frozen=True, slots=True)
class ServingPlan(ExplainedInNotebooks):
    """Assignment of sessions to backends. Made by :func:`optimizer.serving.plan`.

    ``bound`` is a lower bound of the number of backends: the sum of rates over peak rates, rounded up. ``optimal`` is
    true if no other assignment of the sessions' remainders has fewer backends, given those that busy sessions fill.
    """

    nodes: tuple[NodePlan, ...]
    sessions: tuple[Session, ...]
    bound: int
    method: str
    optimal: bool

    def __getitem__(self, backend: str) -> NodePlan:
        """Return the plan of a backend.

        Raises
        ------
        InvalidArgumentError
            The plan does not use the backend.
        """
        for node in self.nodes:
            if node.backend.name == backend:
                return node
        names = [node.backend.name for node in self.nodes]
        raise InvalidArgumentError(f"backend must be in the plan, got {backend!r}{nearest(backend, names) or '.'}")

    @property
    def routes(self) -> Mapping[str, tuple[tuple[str, float], ...]]:
        """Routing table: the backends of each session, with their requests per second."""
        table: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for node in self.nodes:
            for placement in node.placements:
                table[placement.session].append((node.backend.name, placement.rate))
        return {name: tuple(routes) for name, routes in table.items()}

    def violations(self) -> list[str]:
        """List what would be late, not served or out of memory; empty for a plan of :func:`optimizer.serving.plan`."""
        slack = 1 + 1e3 * TOLERANCE
        known = {session.name: session for session in self.sessions}
        served: dict[str, float] = defaultdict(float)
        wrong = []
        for node in self.nodes:
            if node.busy_ms > node.duty_ms * slack:
                wrong.append(f"{node.backend.name}: batches take {node.busy_ms:.1f} of {node.duty_ms:.1f} ms")
            if node.memory_bytes > node.backend.room:
                wrong.append(f"{node.backend.name}: {size(node.memory_bytes)} of {size(int(node.backend.room))}")
            for placement in node.placements:
                served[placement.session] += min(placement.rate, 1000 * placement.batch / node.duty_ms)
                limit = known[placement.session].slo_ms
                if placement.worst_ms > limit * slack:
                    wrong.append(
                        f"{node.backend.name}: {placement.session} in {placement.worst_ms:.1f} ms, not {limit:g}"
                    )
        wrong += [
            f"{name}: {served[name]:g} of {session.rate:g} requests/s"
            for name, session in known.items()
            if served[name] * slack < session.rate
        ]
        return wrong

    def explain(self) -> str:
        """Describe the models, batches, duty cycle, worst latency and memory of each backend."""
        verdict = "no plan has fewer" if self.optimal or len(self.nodes) == self.bound else f"at least {self.bound}"
        known = {session.name: session for session in self.sessions}
        lines = [f"{len(self.sessions)} sessions on {len(self.nodes)} backends ({self.method}; {verdict})"]
        for node in self.nodes:
            memory = f", {size(node.memory_bytes)}" if node.memory_bytes else ""
            digits = 0 if node.occupancy >= _TENTH else 1
            occupied = f"{100 * node.occupancy:.{digits}f} % occupied"
            lines.append(f"{node.backend.name}: duty cycle {node.duty_ms:.1f} ms, {occupied}{memory}")
            lines += [
                f"  {placement.session}: {placement.rate:g}/s in batches of {placement.batch} "
                f"({placement.latency_ms:.1f} ms), "
                f"worst {placement.worst_ms:.1f} of {known[placement.session].slo_ms:g} ms"
                for placement in node.placements
            ]
        return "\n".join([*lines, *(f"violated: {wrong}" for wrong in self.violations())])


def node_plan(
    backend: Backend, sessions: Sequence[Session], duty_ms: float, batches: Sequence[int] | None = None
) -> NodePlan:
    """Return the plan of a backend for sessions at their rates; by default batches hold the arrivals of a cycle."""
    placements = []
    for place, session in enumerate(sessions):
        profile = session.profile
        size_of = batch_in(session.rate, duty_ms) if batches is None else batches[place]
        latency = float(profile.latencies[size_of]) / backend.speed
        beside = (profile.preprocess_ms + profile.postprocess_ms) / backend.speed
        placements.append(
            Placement(
                session.name,
                session.rate,
                size_of,
                latency,
                duty_ms + latency + beside,
                int(profile.memory[size_of]),
            )
        )
    return NodePlan(backend, duty_ms, tuple(placements))
