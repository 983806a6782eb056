"""What the server's driver and its backends say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np  # noqa: TC002 - the wire reads the hints
from numpy.typing import NDArray  # noqa: TC002

from udfs.rpc import Request, WireProtocol

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
    "Results",
    "Stop",
    "Submit",
    "Unit",
]


@dataclass(frozen=True, slots=True)
class Unit:
    """One row for one session, as it travels.

    Attributes
    ----------
    number : int
        Its id at the router.
    session, group : str
    remaining_ms : float
        Until its deadline: clocks of two machines are never compared.
    key : str
        Tells contents apart where sessions share a trunk, ``""`` elsewhere.
    inputs : dict of str to array
        Without a batch axis; encoded images and texts are their bytes.
    """

    number: int
    session: str
    group: str
    remaining_ms: float
    key: str
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a unit.

    Attributes
    ----------
    number : int
    failure : str
        ``""``, ``"bad"``, ``"late"``, ``"overloaded"``, ``"failed"`` or ``"absent"``, where the session is not here.
    message : str
    outputs : dict of str to array
        Without a batch axis.
    """

    number: int
    failure: str
    message: str
    outputs: dict[str, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the outputs."""
        return sum(array.nbytes for array in self.outputs.values())


@dataclass(frozen=True, slots=True)
class Noted:
    """The request was noted."""


@dataclass(frozen=True, slots=True)
class Results:
    """Answers of a backend, and how it is.

    Attributes
    ----------
    answers : tuple of Answer
    last : int
        Number of the last of them, in the order of being ready.
    waiting : int
        Units that no batch has yet.
    running_ms : float
        Of the batch that runs now; 0 without one.
    pace : dict of str to float
        By group, what batches take of what their profile says.
    """

    answers: tuple[Answer, ...]
    last: int
    waiting: int
    running_ms: float
    pace: dict[str, float]


@dataclass(frozen=True, slots=True)
class Submit(Request[Noted]):
    """Queue units, and forget those that were cancelled and are in no batch yet."""

    units: tuple[Unit, ...]
    cancelled: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect(Request[Results]):
    """Wait for answers for a moment; those up to ``after`` have arrived and are forgotten."""

    after: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A group of sessions on a backend.

    Attributes
    ----------
    group : str
    batch : int
    latencies_ms : array of float64
        By batch size, 0 for none.
    recipe : str
        Digest of its recipe in the store; ``""`` for one of those that the backend began with.
    """

    group: str
    batch: int
    latencies_ms: NDArray[np.float64]
    recipe: str = ""


@dataclass(frozen=True, slots=True)
class Adopted:
    """Groups that could not be opened, and why."""

    failures: dict[str, str]


@dataclass(frozen=True, slots=True)
class Adopt(Request[Adopted]):
    """Serve these groups, and no others once their queues are empty; answered when they are open."""

    placements: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Stop(Request[Noted]):
    """End."""


@dataclass(frozen=True, slots=True)
class Attached:
    """Whether the backend is wanted."""

    wanted: bool


@dataclass(frozen=True, slots=True)
class Attach(Request[Attached]):
    """Tell the driver where a backend listens."""

    worker: str
    location: str


SERVING = WireProtocol("cerebro-serving", 1, (Submit, Collect, Adopt, Stop))
"""Answered by backends."""

ATTACHING = WireProtocol("cerebro-serving-driver", 1, (Attach,))
"""Answered by the driver."""
