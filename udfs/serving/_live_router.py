"""Router: sends rows to backends by the routes of the plan, and ends every request with an answer or an error."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.serving import DeficitRoundRobin
from udfs.serving._deadline_timer import DeadlineTimer
from udfs.serving._errors import (
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
    error_of,
)
from udfs.serving._fatal_rows import FatalRows, row_digest
from udfs.serving._pending_requests import GRACE_S, Joined, Pending
from udfs.serving._refusals import Refusals
from udfs.serving._suspect_rows import SuspectRows
from udfs.serving._texts import from_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from udfs.serving._admission import Offered
    from udfs.serving._link import Link
    from udfs.serving._messages import Answer
    from udfs.serving._router import ServedModel

__all__ = ["LiveRouter"]

_LOG = logging.getLogger(__name__)

# Failures of rows that a backend has run, or has read.
_RUN = ("", "bad", "failed")

# Backends that a row is sent to at most.
_MOST_ATTEMPTS = 4

# Seconds within which rows of the same content, for several sessions of a group, go to one backend.
_TOGETHER_S = 0.02
_CONTENTS = 1024


@dataclass(slots=True)
class _Content:
    since: float
    link: str
    sessions: set[str]


class LiveRouter:
    """A :class:`udfs.serving.Router` over backends that connect and are lost.

    Attributes
    ----------
    noticed : callable or None
        Called with a lost link and the reason, in any thread.
    missed : callable or None
        Called for a row that no backend serves, in any thread; returns the seconds after which one may.
    refused : mapping of str to OverloadedError
        Sessions whose requests are refused, with the error.
    arrived : Counter
        Rows by session since the start.
    ended : Counter
        Rows by session and result: ``"answered"``, or the name of an error class.
    """

    def __init__(self, offers: Sequence[Offered]) -> None:
        self._offers = {offer.model.name: offer for offer in offers}
        self.noticed: Callable[[Link, str], None] | None = None
        self.missed: Callable[[], float] | None = None
        self._lock = threading.RLock()
        self._links: dict[str, Link] = {}
        self._routes: dict[str, tuple[list[str], DeficitRoundRobin]] = {}
        self._weights: dict[str, dict[str, float]] = {}
        self._pending: dict[int, Pending] = {}
        self._numbers = itertools.count(1)
        self._contents: OrderedDict[str, _Content] = OrderedDict()
        self._stopped = False
        self.refused: Mapping[str, OverloadedError] = {}
        self.arrived: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()
        self._refusals = Refusals()
        self._fatal = FatalRows()
        self._suspects = SuspectRows(lambda number: number in self._pending, self._send)
        self._deadlines = DeadlineTimer[int](self._expire, lambda number: number not in self._pending)

    @property
    def models(self) -> Sequence[ServedModel]:
        """Models on offer."""
        return [offer.model for offer in self._offers.values()]

    @property
    def ready(self) -> bool:
        """True if every model has a backend."""
        with self._lock:
            return not self._stopped and all(self._routes.get(offer.group) for offer in self._offers.values())

    @property
    def waiting(self) -> int:
        """Number of rows without an answer."""
        return len(self._pending)

    def submit(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Mapping[str, NDArray[Any]]]:
        """Submit a request; see :meth:`udfs.serving.Router.submit`."""
        offer = self._offers.get(name)
        if offer is None:
            raise NoSuchModelError(f"Model {name!r} is not deployed. Deployed models: {', '.join(self._offers)}.")
        budget = offer.model.budget_ms(version, timeout_ms)
        rows = offer.admission.rows(inputs)
        deadline = time.monotonic() + budget / 1000
        numbers: list[int] = []
        joined = Joined(len(rows), lambda: self._forget(numbers))
        units = []
        for place, row in enumerate(rows):
            numbers.append(next(self._numbers))
            key = row_digest(row) if offer.shared else ""
            unit = Pending(numbers[-1], name, offer.group, deadline, row, key, place, joined)
            unit.version, unit.pinned = offer.model.version, version is not None
            units.append(unit)
        with self._lock:
            self.arrived[name] += len(units)
            if self._stopped:
                joined.fail(ServerStoppedError("The server was stopped."))
                return joined.future
            for unit in units:
                self._pending[unit.number] = unit
                self._deadlines.watch(deadline + GRACE_S, unit.number)
        if self._refuses(offer, units[0], budget):
            return joined.future
        verdicts = [self._fatal.verdict(unit) for unit in units]
        for unit, verdict in zip(units, verdicts, strict=True):
            if verdict:
                self._fail(unit, ModelFailedError(verdict))
                return joined.future
        for unit, verdict in zip(units, verdicts, strict=True):
            if verdict is None:
                self._route(unit)
            else:
                self._suspects.add([unit])
        return joined.future

    def _refuses(self, offer: Offered, unit: Pending, budget: float) -> bool:
        """Fail a request that cannot be in time, or whose session has used up its budget."""
        name = offer.model.name
        if budget < offer.least_ms:
            late = TooLateError(f"{name} takes at least {offer.least_ms:.1f} ms, and {budget:g} ms were left.")
            unit.joined.fail(late)
        elif (refusal := self.refused.get(name)) is not None:
            # Each request raises an exception of its own.
            self._fail(unit, OverloadedError(str(refusal), refusal.retry_after_s))
        else:
            return False
        return True

    # Called by the control loop.

    def attach(self, link: Link) -> None:
        """Add a backend, which serves no group yet."""
        with self._lock:
            self._links[link.name] = link

    def switch(self, offers: Sequence[Offered], weights: Mapping[str, Mapping[str, float]]) -> None:
        """Replace the offers. Earlier requests are answered by the models that were on offer then.

        Parameters
        ----------
        weights : mapping of str to mapping of str to float
            Routes, as for :meth:`route`, with those of removed groups while their rows wait.
        """
        with self._lock:
            self._offers = {offer.model.name: offer for offer in offers}
            self._fatal.retain([(offer.model.name, offer.model.version) for offer in offers])
            self.route(weights)

    def waits(self, *, groups: Collection[str] = (), backends: Collection[str] = ()) -> bool:
        """Return whether a row of some groups, or one on some backends, waits for an answer."""
        return any(unit.group in groups or unit.link in backends for unit in list(self._pending.values()))

    def route(self, weights: Mapping[str, Mapping[str, float]]) -> None:
        """Replace the routing table.

        Parameters
        ----------
        weights : mapping of str to mapping of str to float
            Requests per second that the plan gives each backend, by group.
        """
        with self._lock:
            self._weights = {group: dict(shares) for group, shares in weights.items()}
            self._routes = {group: routes for group in weights if (routes := self._balanced(group))}

    def _balanced(self, group: str) -> tuple[list[str], DeficitRoundRobin] | None:
        shares = {
            name: share
            for name, share in self._weights.get(group, {}).items()
            if (link := self._links.get(name)) is not None and link.alive
        }
        return (list(shares), DeficitRoundRobin(list(shares.values()))) if shares else None

    def stop(self) -> None:
        """Fail waiting rows and refuse new ones."""
        with self._lock:
            self._stopped = True
            units = list(self._pending.values())
            links = list(self._links.values())
        self._deadlines.stop()
        for unit in units:
            self._fail(unit, ServerStoppedError("The server was stopped while the request waited."))
        for link in links:
            link.close()

    # Called by links.

    def answered(self, answers: Sequence[Answer]) -> None:
        """Handle the answers of a backend."""
        for answer in answers:
            unit = self._pending.get(answer.number)
            if unit is None:
                self._fatal.answered(answer.number)
                continue
            try:
                self._settle(unit, answer)
            except Exception as error:  # noqa: BLE001 - the other answers are delivered
                self._fail_unexpectedly(unit, error)

    def unsent(self, number: int, error: Exception) -> None:
        """Fail a row that cannot be sent to a backend."""
        unit = self._pending.get(number)
        if unit is not None:
            self._fail(unit, RequestError(f"The row cannot be sent to a backend: {type(error).__name__}: {error}"))

    def _settle(self, unit: Pending, answer: Answer) -> None:
        if answer.failure in _RUN:
            self._fatal.clear(unit)
        if not answer.failure:
            self._refusals.answered(unit.group, unit.link)
            if self._take(unit):
                self._count(unit, "answered")
                outputs = {name: from_wire(value) for name, value in answer.outputs.items()}
                unit.joined.answer(unit.row, outputs)
        elif answer.failure == "absent" or (answer.failure == "overloaded" and self._has_other_backend(unit)):
            self._route(unit)
        else:
            self._fail(unit, error_of(answer.failure, answer.message))

    def _has_other_backend(self, unit: Pending) -> bool:
        """Return whether the backend that refused a row refuses all, and another one does not."""
        with self._lock:
            routes = self._routes.get(unit.group)
            if not self._refusals.add(unit.group, unit.link) or routes is None:
                return False
            return unit.link not in self._refusals.others(unit.group, routes[0])

    def lost(self, link: Link, why: str, *, hung_since: float | None = None) -> None:
        """Send the rows of a lost backend to others, while their time allows.

        One of them may have ended its process, so each is tried again alone. The row on trial ends with an error, and
        so does each repetition of it. A batch that hangs cannot have rows that were sent after its start,
        ``hung_since`` in seconds of the monotonic clock, so these are sent as usual.
        """
        with self._lock:
            if self._links.get(link.name) is link:
                del self._links[link.name]
            self._routes = {group: routes for group in self._weights if (routes := self._balanced(group))}
            # Rows end without the lock, so iterate over a copy.
            units = [unit for unit in list(self._pending.values()) if unit.link == link.name]
            for unit in units:
                unit.link = ""
        unsent = link.unsent
        since = math.inf if hung_since is None else hung_since
        left = [unit for unit in self._fatal.lost(link.name) if unit.number not in unsent and unit.routed <= since]
        link.lost_rows += len([unit for unit in units if unit.number not in unsent]) + len(left)
        cleared = unsent | {unit.number for unit in units if unit.routed > since}
        # Rows that ran alone; the first of them is the cause.
        tried = [unit for unit in units if self._suspects.is_on_trial(unit) and unit.number not in cleared]
        cause = min([*tried, *(unit for unit in left if unit.suspect)], key=lambda unit: unit.routed, default=None)
        others = [unit for unit in units if cause is not None or unit.number in cleared]
        for unit in others:
            if unit is not cause:
                self._send(unit)
        if cause is not None:
            self._fail(cause, ModelFailedError(self._fatal.condemn(cause, why)))
        else:
            for unit in left:
                self._fatal.suspect(unit)
        self._suspects.add(unit for unit in units if unit not in others)
        if self.noticed is not None:
            self.noticed(link, why)

    def _send(self, unit: Pending) -> None:
        """Send a row to a backend; an exception ends its request only."""
        try:
            self._route(unit)
        except Exception as error:  # noqa: BLE001 - the other rows are sent
            self._fail_unexpectedly(unit, error)

    def _route(self, unit: Pending) -> None:
        """Send a row to a backend, or to another one after a loss."""
        now = time.monotonic()
        left = 1000 * (unit.deadline - now)
        offered = self._offers.get(unit.session)
        if left < (0.0 if offered is None else offered.least_ms):
            self._fail(unit, TooLateError(f"The deadline of {unit.session} passed before a backend answered."))
            return
        with self._lock:
            routes = self._routes.get(unit.group)
            offer = self._offers.get(unit.session)
            gone = routes is None and (offer is None or offer.group != unit.group)
            if gone and offer is not None and not unit.pinned:
                # Its version was closed just before it arrived; without a requested version, any version may answer.
                gone, unit.group, routes = False, offer.group, self._routes.get(offer.group)
                unit.version = offer.model.version
            link = None
            if routes is not None and unit.attempts < _MOST_ATTEMPTS:
                unit.attempts += 1
                unit.link, unit.routed = self._chosen(unit, routes, now), now
                link = self._links.get(unit.link)
        if gone:
            self._fail(unit, NoSuchModelError(f"Another version of {unit.session!r} has replaced the requested one."))
        elif link is None:
            if unit.suspect:
                # Its caller may repeat it, and it is tried alone then.
                self._fatal.suspect(unit)
            after = 1.0 if self.missed is None else self.missed()
            why = f"No backend serves {unit.session} at the moment. Try again in {after:.0f} s."
            self._fail(unit, OverloadedError(why, after))
        else:
            link.put(unit)

    def _chosen(self, unit: Pending, routes: tuple[list[str], DeficitRoundRobin], now: float) -> str:
        names, balancer = routes
        if len(names) == 1:
            return names[0]
        content = self._contents.get(unit.key) if unit.key else None
        together = content is not None and now - content.since < _TOGETHER_S and unit.session not in content.sessions
        others = self._refusals.others(unit.group, names)
        if content is not None and together and content.link in others:
            content.sessions.add(unit.session)
            return content.link
        name = names[balancer.choose(1000 * now)]
        if name not in others:
            name = others[balancer.choose(1000 * now) % len(others)]
        if unit.key:
            self._contents[unit.key] = _Content(now, name, {unit.session})
            if len(self._contents) > _CONTENTS:
                self._contents.popitem(last=False)
        return name

    def _take(self, unit: Pending) -> bool:
        """Remove a row from the waiting ones; return ``False`` if another thread has removed it."""
        if self._pending.pop(unit.number, None) is None:
            return False
        self._suspects.ended(unit)
        return True

    def _fail(self, unit: Pending, error: RequestError) -> None:
        if self._take(unit):
            self._count(unit, type(error).__name__)
            unit.joined.fail(error)

    def _fail_unexpectedly(self, unit: Pending, error: Exception) -> None:
        _LOG.error("a row of %s could not be handled", unit.session, exc_info=error)
        if self._take(unit):
            self._count(unit, RequestError.__name__)
        unit.joined.fail(RequestError(f"The router failed: {type(error).__name__}: {error}"))

    def _count(self, unit: Pending, how: str) -> None:
        with self._lock:
            self.ended[unit.session, how] += 1

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            unit = self._pending.get(number)
            if unit is None or not self._take(unit):
                continue
            link = self._links.get(unit.link)
            if link is not None:
                self._fatal.leave(unit)
                link.cancel(number)

    def _expire(self, number: int) -> None:
        unit = self._pending.get(number)
        if unit is not None:
            if unit.link:
                self._fatal.leave(unit)
            self._fail(unit, TooLateError(f"{unit.session} did not answer by the deadline."))
