"""The control loop: each epoch, and whenever a backend comes or goes, the plan follows (section 3.4.1)."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from optimizer.serving import Backend, InfeasibleError, Session, plan, replan, spread
from udfs.rpc import CallError, RefusedError
from udfs.serving import Link, Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.serving import BatchingProfile, ServingPlan
    from udfs.serving import LiveRouter

__all__ = ["Control", "planned"]

_LOG = logging.getLogger(__name__)

# Models are opened while requests wait: for their weights to arrive, too.
_OPEN_S = 600.0

# A look at the rates; traffic far beyond the plan does not wait for the epoch's end.
_LOOK_S = 1.0
_FAR = 1.5

# Sessions without traffic stay loaded.
_LEAST_RATE = 0.1

# Where rates are more than the backends bear, what they are lowered by until there is a plan.
_LOWERED = 0.8
_LEAST_SHARE = 1e-6


def planned(
    sessions: Sequence[Session], backends: Sequence[Backend], old: ServingPlan | None = None
) -> tuple[ServingPlan, ServingPlan, float]:
    """Plan for rates, or for as large a share of all of them as the backends bear.

    Parameters
    ----------
    sessions : sequence of optimizer.serving.Session
    backends : sequence of optimizer.serving.Backend
    old : ServingPlan, optional
        To move little.

    Returns
    -------
    ServingPlan
        For the next call's ``old``.
    ServingPlan
        The same, spread over all backends.
    float
        The share; 1 unless there is more traffic than the backends bear.

    Raises
    ------
    InfeasibleError
        No rate is low enough.
    """
    share = 1.0
    while True:
        asked = [session.at_rate(share * session.rate) for session in sessions]
        try:
            made = plan(asked, backends) if old is None else replan(old, asked, backends).plan
        except InfeasibleError:
            if share < _LEAST_SHARE:
                raise
            share *= _LOWERED
        else:
            return made, spread(made, backends), share


class Control:
    """Keeps backends on the plan, and the plan on the traffic.

    Parameters
    ----------
    router : LiveRouter
    members : mapping of str to sequence of str
        By group, its sessions.
    profiles : mapping of str to BatchingProfile
        By group.
    sessions : sequence of optimizer.serving.Session
        The groups, at their expected rates.
    epoch_s : float
    """

    def __init__(
        self,
        router: LiveRouter,
        members: Mapping[str, Sequence[str]],
        profiles: Mapping[str, BatchingProfile],
        sessions: Sequence[Session],
        epoch_s: float,
    ) -> None:
        self._router = router
        self._links: Callable[[], Mapping[str, Link]] = dict
        self._members = members
        self._profiles = profiles
        self._sessions = list(sessions)
        self._epoch_s = epoch_s
        self._base: ServingPlan | None = None
        self.plan: ServingPlan | None = None
        self.share = 1.0
        self.epochs = 0
        self._applying = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="epochs", daemon=True)

    def start(self, links: Callable[[], Mapping[str, Link]]) -> None:
        """Plan for the expected rates, have it opened, and follow the traffic from then on.

        Parameters
        ----------
        links : callable
            Gives the backends that are there, by name.

        Raises
        ------
        RuntimeError
            A backend could not open a model; the message has its error.
        """
        self._links = links
        failures = self._renew(self._sessions)
        if failures:
            raise RuntimeError("; ".join(f"{group}: {why}" for group, why in failures.items()))
        self._thread.start()

    def stop(self) -> None:
        """Follow nothing any more. A model that is being opened is not waited for."""
        self._over.set()
        self._wake.set()

    def changed(self) -> None:
        """Plan anew at once: a backend has come or gone."""
        self._wake.set()

    def _loop(self) -> None:
        began, before = time.monotonic(), Counter(self._router.arrived)
        while not self._over.is_set():
            changed = self._wake.wait(min(_LOOK_S, self._epoch_s))
            self._wake.clear()
            if self._over.is_set():
                return
            now = time.monotonic()
            seconds = max(now - began, 1e-3)
            arrived = Counter(self._router.arrived)
            rates = {
                group: max(_LEAST_RATE, sum(arrived[name] - before[name] for name in names) / seconds)
                for group, names in self._members.items()
            }
            over = seconds >= self._epoch_s
            far = seconds >= _LOOK_S and any(
                rates[one.name] > _FAR * one.rate and self.share == 1.0 and one.rate * seconds > 1
                for one in self._sessions
            )
            if not (changed or over or far):
                continue
            if over or far:
                self._sessions = [one.at_rate(rates[one.name]) for one in self._sessions]
                began, before = now, arrived
            try:
                failures = self._renew(self._sessions)
            except Exception:  # noqa: BLE001 - the loop outlives any plan
                _LOG.exception("the plan of this epoch could not be made; the one before stays")
                continue
            for group, why in failures.items():
                _LOG.warning("%s could not be opened: %s", group, why)

    def _renew(self, sessions: Sequence[Session]) -> dict[str, str]:
        """Plan for the backends that are there, have models opened, send requests there, have others closed."""
        with self._applying:
            links = dict(self._links())
            backends = [Backend(name) for name in sorted(links)]
            if not backends:
                self._router.route({})
                self._base = self.plan = None
                return {}
            base, live, share = planned(sessions, backends, self._base)
            self._base, self.plan, self.share = base, live, share
            self.epochs += 1
            wanted = {node.backend.name: self._placements(live, node.backend.name) for node in live.nodes}
            # What is served now stays until requests go elsewhere.
            both = {name: {**link.placed, **wanted.get(name, {})} for name, link in links.items()}
            failures = self._adopt({links[name]: placed for name, placed in both.items()})
            routes: dict[str, dict[str, float]] = {group: {} for group in self._members}
            for node in live.nodes:
                for one in node.placements:
                    if one.session in links[node.backend.name].placed:
                        routes[one.session][node.backend.name] = one.rate
            self._router.route(routes)
            self._adopt(
                {
                    link: wanted.get(name, {})
                    for name, link in links.items()
                    if link.placed.keys() != wanted.get(name, {}).keys()
                }
            )
            return failures

    def _placements(self, live: ServingPlan, backend: str) -> dict[str, Placed]:
        return {
            one.session: Placed(one.session, one.batch, self._profiles[one.session].latencies)
            for one in live[backend].placements
        }

    def _adopt(self, wanted: Mapping[Link, Mapping[str, Placed]]) -> dict[str, str]:
        failures: dict[str, str] = {}
        if not wanted:
            return failures

        def adopt(link: Link) -> dict[str, str]:
            try:
                return link.adopt(tuple(wanted[link].values()), _OPEN_S)
            except (CallError, RefusedError) as error:
                _LOG.warning("backend %s did not take its plan: %s", link.name, error)
                return {}

        with ThreadPoolExecutor(len(wanted)) as pool:
            for found in pool.map(adopt, wanted):
                failures |= found
        return failures
