"""Messages between the driver and the backends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np  # noqa: TC002 - the wire reads the hints
from numpy.typing import NDArray  # noqa: TC002

from udfs.rpc import Request, WireProtocol
from udfs.serving._texts import wire_bytes

__all__ = [
    "ATTACHING",
    "SERVING",
    "Adopt",
    "Adopted",
    "Answer",
    "Attach",
    "Attached",
    "Collect",
    "Noted",
    "Placed",
    "PlacedVariant",
    "Results",
    "Stop",
    "Submit",
    "Unit",
]


@dataclass(frozen=True, slots=True)
class Unit:
    """A row for one session, as sent to a backend."""

    number: int  # identifier at the router
    session: str
    group: str
    remaining_ms: float  # milliseconds until the deadline: clocks of two machines are never compared
    key: str  # digest of the content if sessions share a trunk, else ""
    # Inputs without a batch axis; encoded images and texts are their bytes. Empty if an earlier unit of the message has
    # the same group and key.
    inputs: dict[str, Any]
    alone: bool = False  # True for a batch of its own


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a row."""

    number: int
    failure: str  # "", "bad", "late", "overloaded", "failed", or "absent" if the backend does not serve the group
    message: str
    outputs: dict[str, Any]  # outputs without a batch axis, as udfs.serving._texts.to_wire converts them

    @property
    def nbytes(self) -> int:
        """Bytes of the outputs."""
        return sum(map(wire_bytes, self.outputs.values()))


@dataclass(frozen=True, slots=True)
class Noted:
    """Reply to a request without a result."""


@dataclass(frozen=True, slots=True)
class Results:
    """Answers and state of a backend."""

    answers: tuple[Answer, ...]
    last: int  # number of the last answer, in the order of completion
    waiting: int  # rows that wait for a batch
    running_ms: float  # milliseconds that the current batch has run for; 0 without one
    pace: dict[str, float]  # measured over profiled batch latency, by group
    busy_ms: dict[str, float] = field(default_factory=dict)  # milliseconds of all batches so far, by group


@dataclass(frozen=True, slots=True)
class Submit(Request[Noted]):
    """Request to queue rows, and to cancel rows that are in no batch yet."""

    units: tuple[Unit, ...]
    cancelled: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect(Request[Results]):
    """Request to wait briefly for answers; those up to ``after`` have arrived and are dropped."""

    after: int
    check: bool = False  # True after answers that could not be sent or read: those are replaced by errors


@dataclass(frozen=True, slots=True)
class PlacedVariant:
    """A variant of a group's model on a backend."""

    batch: int
    latencies_ms: NDArray[np.float64]  # as those of Placed
    share: float  # largest share of the rows for this variant and more accurate ones


@dataclass(frozen=True, slots=True)
class Placed:
    """A group of sessions on a backend."""

    group: str
    batch: int
    latencies_ms: NDArray[np.float64]  # milliseconds by batch size; the first is 0, for batch size 0
    recipe: str = ""  # digest of the recipe in the store; "" for a recipe that the backend started with
    variants: tuple[PlacedVariant, ...] = ()  # variants of the model, the cheapest one last; () without a catalog


@dataclass(frozen=True, slots=True)
class Adopted:
    """Reply with the groups that could not be opened, or that failed on their warm-up, and the errors."""

    failures: dict[str, str]
    cold: dict[str, str]  # groups that are open, and whose warm-up failed


@dataclass(frozen=True, slots=True)
class Adopt(Request[Adopted]):
    """Request to serve exactly these groups; answered when they are open and others are closed."""

    placements: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Stop(Request[Noted]):
    """Request to stop."""


@dataclass(frozen=True, slots=True)
class Attached:
    """Reply that tells a backend whether it is wanted."""

    wanted: bool


@dataclass(frozen=True, slots=True)
class Attach(Request[Attached]):
    """First request of a backend: its name and location."""

    worker: str
    location: str


SERVING = WireProtocol("cerebro-serving", 3, (Submit, Collect, Adopt, Stop))
"""Protocol whose requests backends answer."""

ATTACHING = WireProtocol("cerebro-serving-driver", 1, (Attach,))
"""Protocol whose requests the driver answers."""
