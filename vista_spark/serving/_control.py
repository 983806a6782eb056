"""The control loop: each epoch, and whenever a backend comes or goes, the plan follows (section 3.4.1)."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from optimizer.serving import Backend, InfeasibleError, Session, plan, replan, spread
from udfs.rpc import CallError, RefusedError
from udfs.serving import Link, Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from optimizer.serving import ServingPlan
    from udfs.serving import LiveRouter
    from vista_spark.serving._catalog import Catalog
    from vista_spark.serving._plan_log import PlanRecorder
    from vista_spark.serving._scaling import Scaling

__all__ = ["Control", "planned"]

_LOG = logging.getLogger(__name__)

# Models are opened while requests wait: for their weights to arrive, too.
_OPEN_S = 600.0

# A look at the rates; traffic far beyond the plan does not wait for the epoch's end.
_LOOK_S = 1.0
_FAR = 1.5

# Between two looks at whether a version that is going has answered all.
_DRAIN_S = 0.005

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


class BackendPool(Protocol):
    """Backends that come and go."""

    @property
    def links(self) -> dict[str, Link]:
        """Those that are there."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """Those that Spark was asked for."""

    @property
    def took_s(self) -> float:
        """Seconds that the last one took to be there."""

    def grow(self, count: int) -> tuple[str, ...]:
        """Ask for backends until there are so many."""

    def give_back(self, names: Collection[str]) -> None:
        """End backends that nothing is sent to."""


class Control:
    """Keeps backends on the plan, and the plan on the traffic.

    Parameters
    ----------
    router : LiveRouter
    catalog : Catalog
    epoch_s : float
    scaling : Scaling
    log : PlanRecorder

    Attributes
    ----------
    budgets : callable or None
        Gives, for the seconds since it was called last, milliseconds of sessions that applications call.
    """

    def __init__(
        self,
        router: LiveRouter,
        catalog: Catalog,
        epoch_s: float,
        scaling: Scaling,
        log: PlanRecorder,
    ) -> None:
        self._router = router
        self._pool: BackendPool | None = None
        self._scaling = scaling
        self._log = log
        self._logged: ServingPlan | None = None
        self._leaving: set[str] = set()
        self._asleep = False
        self._catalog = catalog
        self._recipes: dict[str, str] = {}
        self._sessions = list(catalog.sessions)
        self.budgets: Callable[[float], Mapping[str, float]] | None = None
        self._epoch_s = epoch_s
        self._base: ServingPlan | None = None
        self._routes: dict[str, dict[str, float]] = {}
        self.plan: ServingPlan | None = None
        self.share = 1.0
        self.epochs = 0
        self._applying = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="epochs", daemon=True)

    def start(self, pool: BackendPool) -> None:
        """Plan for the expected rates, have it opened, and follow the traffic from then on.

        Parameters
        ----------
        pool : BackendPool

        Raises
        ------
        RuntimeError
            A backend could not open a model; the message has its error.
        """
        self._pool = pool
        failures = self._renew("the server starts")
        if failures:
            raise RuntimeError("; ".join(f"{group}: {why}" for group, why in failures.items()))
        self._thread.start()

    def stop(self) -> None:
        """Follow nothing any more. A model that is being opened is not waited for."""
        self._over.set()
        self._wake.set()
        self._log.close()

    def changed(self) -> None:
        """Plan anew at once: a backend has come or gone."""
        self._wake.set()

    @property
    def asleep(self) -> bool:
        """Whether there is no backend because there is no traffic: a request wakes one."""
        return self._scaling.least == 0 and self._asleep

    def missed(self) -> float:
        """Hear that a request came which no backend serves; gives the seconds after which another may be."""
        if self._pool is None or not self._scaling.elastic:
            return 1.0
        if self._asleep:
            self._asleep = False
            threading.Thread(target=self._pool.grow, args=(max(1, self._scaling.least),), daemon=True).start()
        return max(1.0, self._pool.took_s)

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
                for group, names in self._catalog.members.items()
            }
            over = seconds >= self._epoch_s
            far = seconds >= _LOOK_S and any(
                rates.get(one.name, 0.0) > _FAR * one.rate and self.share == 1.0 and one.rate * seconds > 1
                for one in self._sessions
            )
            if not (changed or over or far):
                continue
            why = "a backend came or went"
            if over or far:
                with self._applying:
                    budgets = self.budgets(seconds) if self.budgets is not None else {}
                    self._sessions = [
                        self._within(one.at_rate(rates.get(one.name, one.rate)), budgets) for one in self._sessions
                    ]
                idle = arrived == before
                began, before = now, arrived
                why = "the epoch is over" if over else "traffic is far above the plan"
            try:
                if (over or far) and self._scaling.elastic:
                    why = self._scale(over=over, idle=idle) or why
                failures = self._renew(why)
            except Exception:  # noqa: BLE001 - the loop outlives any plan
                _LOG.exception("the plan of this epoch could not be made; the one before stays")
                continue
            for group, reason in failures.items():
                _LOG.warning("%s could not be opened: %s", group, reason)

    def _within(self, session: Session, budgets: Mapping[str, float]) -> Session:
        """Give a group the least deadline of its sessions: their own, or what applications leave them."""
        names = self._catalog.members.get(session.name, ())
        own = [offer.model.slo_ms for offer in self._catalog.offers if offer.model.name in names]
        slo = min([*own, *(budgets[name] for name in names if name in budgets)], default=session.slo_ms)
        try:
            return replace(session, slo_ms=slo)
        except InfeasibleError as error:
            _LOG.warning("%s keeps its deadline of %g ms: %s", session.name, session.slo_ms, error)
            return session

    def _scale(self, *, over: bool, idle: bool) -> str:
        """Ask for more backends, or choose those to give back; gives why."""
        pool = self._pool
        assert pool is not None  # the loop runs since start()
        with self._applying:
            here = [name for name in pool.wanted if name not in self._leaving]
            names = [Backend(f"backend-{number}") for number in range(self._scaling.most)]
            base, _, share = planned(self._sessions, names)
            needed = self._scaling.most if share < 1 else len(base.nodes)
            if over:
                count, why = self._scaling.after(needed, now=len(here), idle=idle)
            else:
                count, why = self._scaling.at_once(needed, now=len(here))
            if count > len(here):
                pool.grow(count)
            elif count < len(here):
                # Those that have not come yet first, then those with the least to do.
                busy = {} if self.plan is None else {node.backend.name: node.occupancy for node in self.plan.nodes}
                links = pool.links
                here.sort(key=lambda name: (name in links, busy.get(name, 0.0)))
                self._leaving = set(here[: len(here) - count])
                self._asleep = count == 0
            if why:
                _LOG.info("%d backends from now on: %s", count, why)
            return f"{count} backends: {why}" if why else ""

    def swap(
        self, catalog: Catalog, recipes: Mapping[str, str], why: str, expected: Mapping[str, float] | None = None
    ) -> None:
        """Serve another catalog: load and warm what is new, switch, drain what is gone, unload it.

        What was asked before the switch is answered by the version that was there then.

        Parameters
        ----------
        catalog : Catalog
        recipes : mapping of str to str
            Digests of the recipes of its new groups.
        why : str
            For the plan's record.
        expected : mapping of str to float, optional
            By session, requests per second that will come beside those that are measured.

        Raises
        ------
        RuntimeError
            A backend could not open a new group; all stays as it was.
        """
        with self._applying:
            former, was, base, plan_before = self._catalog, self._sessions, self._base, self.plan
            gone = former.members.keys() - catalog.members.keys()
            rates = {one.name: one.rate for one in self._sessions}
            self._recipes |= recipes
            added = {
                group: sum((expected or {}).get(name, 0.0) for name in names)
                for group, names in catalog.members.items()
            }
            self._sessions = [
                one.at_rate(rates[one.name] + added[one.name] if one.name in rates else one.rate)
                for one in catalog.sessions
            ]
            self._catalog = catalog
            began = time.monotonic()
            links = self._links()
            if not links:
                self._router.switch(catalog.offers, {})
                return
            before = {link: dict(link.placed) for link in links.values()}
            try:
                wanted, failures = self._load(links)
                _check_open(catalog, former, failures, links.values())
            except BaseException:
                self._catalog, self._sessions, self._base, self.plan = former, was, base, plan_before
                self._adopt(before)
                raise
            kept = {group: shares for group, shares in self._routes.items() if group in gone}
            self._routes = self._table(links)
            self._router.switch(catalog.offers, {**kept, **self._routes})
            # Each of its rows ends by its deadline at the latest.
            while self._router.waits(groups=gone) and not self._over.wait(_DRAIN_S):
                pass
            self._router.route(self._routes)
            self._unload(links, wanted)
            self._record(why, began)

    def _renew(self, why: str) -> dict[str, str]:
        """Plan for the backends that are there, have models opened, send requests there, have others closed."""
        with self._applying:
            began = time.monotonic()
            links = self._links()
            if not links:
                self._routes = {}
                self._router.route({})
                self._base = self.plan = None
                self._give_back()
                self._record(why, began)
                return {}
            wanted, failures = self._load(links)
            self._routes = self._table(links)
            self._router.route(self._routes)
            self._give_back()
            self._unload(links, wanted)
            self._record(why, began)
            return failures

    def _links(self) -> dict[str, Link]:
        """Links to the backends that are there and stay."""
        links = {} if self._pool is None else self._pool.links
        return {name: link for name, link in links.items() if name not in self._leaving}

    def _give_back(self) -> None:
        """End the backends that nothing is sent to any more, once they have answered."""
        if not self._leaving or self._pool is None:
            return
        while self._router.waits(backends=self._leaving) and not self._over.wait(_DRAIN_S):
            pass
        self._pool.give_back(self._leaving)
        self._leaving = set()

    def _record(self, why: str, began: float) -> None:
        """Log a plan that differs from the last one."""
        if self._pool is None or (self.plan is self._logged and self.plan is not None):
            return
        self._logged = self.plan
        numbers = {
            "backends": len(self._links()),
            "share": self.share,
            "occupancy": 0.0 if self.plan is None else sum(node.occupancy for node in self.plan.nodes),
            "seconds": time.monotonic() - began,
        }
        self._log.planned(self.epochs, why, self.plan, numbers)

    def _load(self, links: Mapping[str, Link]) -> tuple[dict[str, dict[str, Placed]], dict[str, str]]:
        """Plan for the backends that are there, and have models opened; what is served now stays beside them."""
        backends = [Backend(name) for name in sorted(links)]
        self._base, live, self.share = planned(self._sessions, backends, self._base)
        self.plan = live
        self.epochs += 1
        wanted = {node.backend.name: self._placements(live, node.backend.name) for node in live.nodes}
        both = {name: {**link.placed, **wanted.get(name, {})} for name, link in links.items()}
        return wanted, self._adopt({links[name]: placed for name, placed in both.items()})

    def _table(self, links: Mapping[str, Link]) -> dict[str, dict[str, float]]:
        """Route rows to the backends that have their models open, by the shares of the plan."""
        routes: dict[str, dict[str, float]] = {group: {} for group in self._catalog.members}
        assert self.plan is not None  # it was made just now
        for node in self.plan.nodes:
            for one in node.placements:
                if one.session in links[node.backend.name].placed:
                    routes[one.session][node.backend.name] = one.rate
        return routes

    def _unload(self, links: Mapping[str, Link], wanted: Mapping[str, Mapping[str, Placed]]) -> None:
        """Have models closed that the plan has elsewhere, or nowhere."""
        self._adopt(
            {
                link: wanted.get(name, {})
                for name, link in links.items()
                if link.placed.keys() != wanted.get(name, {}).keys()
            }
        )

    def _placements(self, live: ServingPlan, backend: str) -> dict[str, Placed]:
        profiles = self._catalog.profiles
        return {
            one.session: Placed(
                one.session, one.batch, profiles[one.session].latencies, self._recipes.get(one.session, "")
            )
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


def _check_open(catalog: Catalog, former: Catalog, failures: Mapping[str, str], links: Collection[Link]) -> None:
    """Refuse a catalog of which a new group could not be opened, or is nowhere."""
    failed = [f"{group}: {why}" for group, why in failures.items() if group not in former.members]
    missing = [group for group in catalog.members if not any(group in link.placed for link in links)]
    if failed or missing:
        raise RuntimeError("; ".join(failed) or f"no backend serves {', '.join(missing)}")
