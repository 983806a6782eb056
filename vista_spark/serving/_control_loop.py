"""Control loop of a server: replan each epoch, and whenever a backend connects or is lost (section 3.4.1)."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from optimizer.serving import Backend, InfeasibleError, Session, plan, replan, spread
from udfs.node import SupervisedThread
from udfs.rpc import CallError, RefusedError
from udfs.serving import Link, Placed
from vista_spark.serving._variant_control import VariantControl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from optimizer.serving import ServingPlan
    from udfs.serving import LiveRouter
    from vista_spark.serving._catalog import Catalog
    from vista_spark.serving._plan_log import PlanRecorder
    from vista_spark.serving._scaling import Scaling

__all__ = ["Control", "planned"]

_LOG = logging.getLogger(__name__)

# Seconds to open models, whose weights may have to arrive first.
_OPEN_S = 600.0

# Seconds between checks of the rates, and the ratio to the planned rate that starts a new plan within an epoch.
_LOOK_S = 1.0
_FAR = 1.5

# Seconds between checks whether a replaced version has answered all its requests.
_DRAIN_S = 0.005

# Requests per second planned for a session without traffic, which stays loaded.
_LEAST_RATE = 0.1

# Factor that lowers rates above the capacity of the backends until a plan exists, and the smallest share tried.
_LOWERED = 0.8
_LEAST_SHARE = 1e-6


def planned(
    sessions: Sequence[Session], backends: Sequence[Backend], old: ServingPlan | None = None
) -> tuple[ServingPlan, ServingPlan, float]:
    """Plan for rates, or for the largest share of all rates that the backends can serve.

    The new plan moves few models of ``old``. Return the plan to pass as ``old`` to the next call, the same plan spread
    over all backends, and the planned share of the rates, 1 if the backends can serve them all. Raise InfeasibleError
    if no rate is low enough.
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
    """Backends that connect and end while the server runs."""

    @property
    def links(self) -> dict[str, Link]:
        """Links to the connected backends."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the requested backends."""

    @property
    def took_s(self) -> float:
        """Seconds that the last backend took to connect."""

    def grow(self, count: int) -> tuple[str, ...]:
        """Ask for backends up to a count."""

    def give_back(self, names: Collection[str]) -> None:
        """End backends that receive no more requests."""


class Control:
    """Control loop that adapts the plan to the traffic, and the backends to the plan.

    ``epoch_s`` is the length of an epoch, ``dollars_per_hour`` the price of a busy backend. ``budgets`` returns the
    budgets in milliseconds of sessions that applications call, for the seconds since its last call.
    """

    def __init__(
        self,
        router: LiveRouter,
        catalog: Catalog,
        epoch_s: float,
        scaling: Scaling,
        log: PlanRecorder,
        dollars_per_hour: float,
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
        self.variants = VariantControl(dollars_per_hour)
        self.variants.follow(catalog)
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
        self._thread = SupervisedThread(self._loop, "epochs")
        # Models that are being opened must not delay the check of budgets.
        self._spending_thread = SupervisedThread(self._watch_spending, "spending")

    def start(self, pool: BackendPool) -> None:
        """Plan for the expected rates, have the backends open the models, and start to follow the traffic.

        Raises
        ------
        RuntimeError
            A backend could not open a model; the message has its error.
        """
        self._pool = pool
        failures = self._renew("the server starts")
        if failures:
            raise RuntimeError("; ".join(f"{group}: {why}" for group, why in failures.items()))
        self._spending_thread.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop the loop, without waiting for models that are being opened."""
        self._over.set()
        self._wake.set()
        self._log.close()

    def changed(self) -> None:
        """Request a new plan at once: a backend connected or was lost."""
        self._wake.set()

    @property
    def connected(self) -> bool:
        """True if a backend is connected."""
        return bool(self._links())

    @property
    def asleep(self) -> bool:
        """True if there is no backend because there is no traffic; a request starts one."""
        return self._scaling.least == 0 and self._asleep

    def missed(self) -> float:
        """Handle a request that no backend serves; return the seconds after which one may."""
        if self._pool is None or not self._scaling.elastic:
            return 1.0
        if self._asleep:
            self._asleep = False
            SupervisedThread(partial(self._pool.grow, max(1, self._scaling.least)), "grow", self._not_grown).start()
        return max(1.0, self._pool.took_s)

    def _not_grown(self, _: BaseException) -> None:
        """Let the next request start a backend, since this one could not."""
        self._asleep = True

    def _watch_spending(self) -> None:
        """Refuse the requests of sessions whose budget is used up."""
        while True:
            links = {} if self._pool is None else self._pool.links
            self._router.refused = self.variants.spending.refusals(links.values())
            if self._over.wait(_LOOK_S):
                return

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
                rates.get(session.name, 0.0) > _FAR * session.rate and self.share == 1.0 and session.rate * seconds > 1
                for session in self._sessions
            )
            if not (changed or over or far):
                continue
            idle = arrived == before
            if over or far:
                began, before = now, arrived
            try:
                self._adapt(rates if over or far else {}, seconds, over=over, idle=idle)
            except Exception:  # noqa: BLE001 - the loop continues after any error of a plan
                _LOG.exception("the plan of this epoch could not be made; the one before stays")

    def _adapt(self, rates: Mapping[str, float], seconds: float, *, over: bool, idle: bool) -> None:
        """Plan anew, for the measured rates of the last seconds if there are any."""
        why = "a backend connected or was lost"
        if rates:
            with self._applying:
                self.variants.correct(self._sessions, rates, seconds)
                budgets = self.budgets(seconds) if self.budgets is not None else {}
                self._sessions = [
                    self._within(session.at_rate(rates.get(session.name, session.rate)), budgets)
                    for session in self._sessions
                ]
            why = "the epoch is over" if over else "traffic is far above the plan"
            if self._scaling.elastic:
                why = self._scale(over=over, idle=idle) or why
        for group, reason in self._renew(why).items():
            _LOG.warning("%s could not be opened: %s", group, reason)

    def _within(self, session: Session, budgets: Mapping[str, float]) -> Session:
        """Set a group's deadline to the smallest of its sessions' SLOs and their budgets in applications."""
        names = self._catalog.members.get(session.name, ())
        slos = [offer.model.slo_ms for offer in self._catalog.offers if offer.model.name in names]
        slo = min([*slos, *(budgets[name] for name in names if name in budgets)], default=session.slo_ms)
        try:
            return replace(session, slo_ms=slo)
        except InfeasibleError as error:
            _LOG.warning("%s keeps its deadline of %g ms: %s", session.name, session.slo_ms, error)
            return session

    def _scale(self, *, over: bool, idle: bool) -> str:
        """Ask for more backends, or choose backends to give back; return the reason."""
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
                # Give back backends that have not connected first, then the least busy ones.
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
        """Replace the catalog: load and warm new groups, switch, drain removed groups, unload them.

        Requests from before the switch are answered by the version that was deployed then. ``recipes`` are digests of
        those of the new groups, and ``expected`` requests per second by session that will come in addition to the
        measured rates. Raise RuntimeError if a backend could not open or warm up a new group; the former catalog stays
        in use.
        """
        with self._applying:
            former, was, base, plan_before = self._catalog, self._sessions, self._base, self.plan
            gone = former.members.keys() - catalog.members.keys()
            rates = {session.name: session.rate for session in self._sessions}
            self._recipes |= recipes
            added = {
                group: sum((expected or {}).get(name, 0.0) for name in names)
                for group, names in catalog.members.items()
            }
            self._sessions = [
                session.at_rate(rates[session.name] + added[session.name] if session.name in rates else session.rate)
                for session in catalog.sessions
            ]
            self._catalog = catalog
            self.variants.follow(catalog)
            began = time.monotonic()
            links = self._links()
            if not links:
                self._router.switch(catalog.offers, {})
                return
            before = {link: dict(link.placed) for link in links.values()}
            try:
                wanted, failures = self._load(links)
                cold = {group: why for link in links.values() for group, why in link.cold.items()}
                _check_open(catalog, former, cold, failures, links.values())
            except BaseException:
                self._catalog, self._sessions, self._base, self.plan = former, was, base, plan_before
                self.variants.follow(former)
                self._adopt(before)
                raise
            kept = {group: shares for group, shares in self._routes.items() if group in gone}
            self._routes = self._table(links)
            self._router.switch(catalog.offers, {**kept, **self._routes})
            # The loop ends: each row ends by its deadline at the latest.
            while self._router.waits(groups=gone) and not self._over.wait(_DRAIN_S):
                pass
            self._router.route(self._routes)
            self._unload(links, wanted)
            self._record(why, began)

    def _renew(self, why: str) -> dict[str, str]:
        """Plan for the connected backends, open models, route requests to them, and close other models."""
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
        """Return links to the connected backends that stay."""
        links = {} if self._pool is None else self._pool.links
        return {name: link for name, link in links.items() if name not in self._leaving}

    def _give_back(self) -> None:
        """End the chosen backends once they have answered their requests."""
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
        """Plan for the connected backends, and open models beside those in use."""
        backends = [Backend(name) for name in sorted(links)]
        sessions = self.variants.planned(self._sessions, backends)
        self._base, live, self.share = planned(sessions, backends, self._base)
        self.plan = live
        self.epochs += 1
        wanted = {node.backend.name: self._placements(live, node.backend.name) for node in live.nodes}
        both = {name: {**link.placed, **wanted.get(name, {})} for name, link in links.items()}
        return wanted, self._adopt({links[name]: placed for name, placed in both.items()})

    def _table(self, links: Mapping[str, Link]) -> dict[str, dict[str, float]]:
        """Return the planned rate of each backend that has the model open, by group."""
        routes: dict[str, dict[str, float]] = {group: {} for group in self._catalog.members}
        assert self.plan is not None  # it was made just now
        for node in self.plan.nodes:
            for placement in node.placements:
                if placement.session in links[node.backend.name].placed:
                    routes[placement.session][node.backend.name] = placement.rate
        return routes

    def _unload(self, links: Mapping[str, Link], wanted: Mapping[str, Mapping[str, Placed]]) -> None:
        """Close models that the plan does not have on a backend."""
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
            placement.session: Placed(
                placement.session,
                placement.batch,
                profiles[placement.session].latencies,
                self._recipes.get(placement.session, ""),
                self.variants.placed(placement),
            )
            for placement in live[backend].placements
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
            for refused in pool.map(adopt, wanted):
                failures |= refused
        return failures


def _check_open(
    catalog: Catalog, former: Catalog, cold: Mapping[str, str], failures: Mapping[str, str], links: Collection[Link]
) -> None:
    """Raise an error if a new group could not be opened or warmed up, or no backend has it."""
    remedy = "Set Session(sample=...) to a record that the model accepts."
    warm_ups = {group: f"the warm-up failed: {why.rstrip('.')}. {remedy}" for group, why in cold.items()}
    failed = [f"{group}: {why}" for group, why in {**warm_ups, **failures}.items() if group not in former.members]
    missing = [group for group in catalog.members if not any(group in link.placed for link in links)]
    if failed or missing:
        raise RuntimeError("; ".join(failed) or f"No backend serves {', '.join(missing)}.")
