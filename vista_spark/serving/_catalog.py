"""What is deployed at one time: groups of sessions, how each opens, is planned, and is offered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from optimizer.serving import InfeasibleError
from optimizer.serving import Session as PlannedSession
from udfs.serving import GroupRecipe, Offered
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._deployed_app import DeployedApp, deployed_app
from vista_spark.serving._deployment import opened, sample_row
from vista_spark.serving._grouping import group_recipe, groups
from vista_spark.serving._profiling import hardware, measured
from vista_spark.serving._registry import fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.serving import BatchingProfile
    from udfs.serving import FunctionRecipe, NetworkRecipe
    from udfs.store import Store
    from vista_spark.serving._app import App
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

    Shipping = Callable[[Deployment], NetworkRecipe | FunctionRecipe]

__all__ = ["Catalog", "Deployed"]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Groups of sessions.

    Attributes
    ----------
    sessions : tuple of optimizer.serving.Session
        The groups, at their expected rates.
    members : mapping of str to tuple of str
        By group, its sessions.
    offers : tuple of Offered
    recipes : mapping of str to GroupRecipe
        Of the groups that are new in it.
    """

    sessions: tuple[PlannedSession, ...]
    members: Mapping[str, tuple[str, ...]]
    offers: tuple[Offered, ...]
    recipes: Mapping[str, GroupRecipe]

    @property
    def profiles(self) -> dict[str, BatchingProfile]:
        """What batches take, by group."""
        return {session.name: session.profile for session in self.sessions}


class Deployed:
    """The sessions of a server, opened on the driver, and what their batches take.

    Parameters
    ----------
    threads : int
        CPU threads of a batch.
    device : str
    """

    def __init__(self, threads: int, device: str) -> None:
        self._threads = threads
        self.device = device
        self._deployments: dict[str, Deployment] = {}
        self._profiles: dict[tuple[str, ...], BatchingProfile] = {}
        self._named: dict[tuple[int, ...], str] = {}
        self._apps: dict[str, DeployedApp] = {}

    @property
    def apps(self) -> dict[str, DeployedApp]:
        """The applications, by name."""
        return dict(self._apps)

    @property
    def deployments(self) -> dict[str, Deployment]:
        """By session."""
        return dict(self._deployments)

    def profile(self, name: str) -> BatchingProfile:
        """Give what a session's batches take, as it was measured or given."""
        return self._profiles[name,]

    def add(self, session: Session, store: Store | None = None) -> None:
        """Open a session and measure it.

        Raises
        ------
        InvalidArgumentError, InfeasibleError
            As of :meth:`vista_spark.serving.Server.deploy`.
        """
        self.check_free(session.name)
        deployment, profile = self.tried(session, store)
        self._profiles[session.name,], self._deployments[session.name] = profile, deployment

    def add_app(self, app: App) -> None:
        """Set an application up, run it on its samples, and split its deadline.

        Raises
        ------
        InvalidArgumentError, InfeasibleError
            As of :meth:`vista_spark.serving.Server.deploy`.
        """
        self.check_free(app.name)
        self._apps[app.name] = self.tried_app(app)

    def tried_app(self, app: App) -> DeployedApp:
        """Set an application up and run it on its samples, and keep nothing."""
        profiles = {name: self.profile(name) for name in self._deployments}
        return deployed_app(app, self._deployments, profiles, threads=self._threads, device=self.device)

    def check_free(self, name: str, *, of: Literal["session", "application"] | None = None) -> None:
        """Refuse a name that a session or an application has; with `of`, that one of the other kind has."""
        for kind, article, names in (("session", "a", self._deployments), ("application", "an", self._apps)):
            if name in names and kind != of:
                raise InvalidArgumentError(f"{article} {kind} {name!r} is deployed already: give this one another name")

    def tried(self, session: Session, store: Store | None = None) -> tuple[Deployment, BatchingProfile]:
        """Open a session and measure it, and keep nothing.

        Parameters
        ----------
        session : Session
            Its model may be a name in a registry.
        store : Store, optional
            Of models that are named ``"store:/..."``.
        """
        asked, session = session, fetched(session, store)
        deployment = opened(session)
        if session.profile is not None and self.device == "cpu":
            session.profile.check_machine(hardware(), self._threads)
        profile = session.profile or measured([deployment], threads=self._threads, device=self.device)
        PlannedSession(session.name, profile, float(session.slo_ms), float(session.rate))
        return replace(deployment, asked=asked), profile

    def fresh(self) -> Deployed:
        """Give the same sessions to backends that have none of their recipes yet."""
        other = Deployed(self._threads, self.device)
        other._deployments, other._profiles = dict(self._deployments), dict(self._profiles)
        # What traffic shows of an application is of one server that runs.
        other._apps = {name: replace(app) for name, app in self._apps.items()}
        return other

    def replaced(self, deployment: Deployment, profile: BatchingProfile) -> Deployed:
        """Give the same sessions with one that is new, or that takes another's place."""
        name = deployment.session.name
        profiles = {names: held for names, held in self._profiles.items() if name not in names}
        return self._with({**self._deployments, name: deployment}, {**profiles, (name,): profile}, self._apps)

    def with_app(self, app: DeployedApp) -> Deployed:
        """Give the same sessions with an application that is new, or that takes another's place."""
        return self._with(self._deployments, self._profiles, {**self._apps, app.served.name: app})

    def _with(
        self,
        deployments: Mapping[str, Deployment],
        profiles: Mapping[tuple[str, ...], BatchingProfile],
        apps: Mapping[str, DeployedApp],
    ) -> Deployed:
        other = Deployed(self._threads, self.device)
        other._deployments, other._profiles, other._apps = dict(deployments), dict(profiles), dict(apps)
        other._named = dict(self._named)
        return other

    def planned(self) -> list[tuple[tuple[Deployment, ...], PlannedSession]]:
        """Give groups of sessions, and each as the planner sees it."""
        found: list[tuple[tuple[Deployment, ...], PlannedSession]] = []
        for group in groups(list(self._deployments.values())):
            try:
                found.append((group, self._planned(group)))
            except InfeasibleError:
                # Together they are too slow for the shortest of their deadlines.
                found += [((one,), self._planned((one,))) for one in group]
        return found

    def catalog(self, ship: Shipping) -> Catalog:
        """Describe all groups; those that no catalog before had bring their recipes.

        Parameters
        ----------
        ship : callable
            Brings a deployment's files in reach of the workers, and gives the recipe that finds them there.
        """
        sessions, offers, recipes, members = [], [], {}, {}
        for group, session in self.planned():
            sessions.append(session)
            members[session.name] = tuple(one.session.name for one in group)
            least = float(session.profile.latencies[1])
            offers += [Offered(one.served, one.admission, session.name, len(group) > 1, least) for one in group]
            if self._is_new(group):
                shipped = {one.session.name: ship(one) for one in group}
                recipe = replace(group_recipe(group, shipped), name=session.name, sample=sample_row(group[0]))
                recipes[session.name] = recipe
                self._named[_identity(group)] = session.name
        return Catalog(tuple(sessions), members, tuple(offers), recipes)

    def _is_new(self, group: Sequence[Deployment]) -> bool:
        return _identity(group) not in self._named

    def _planned(self, group: tuple[Deployment, ...]) -> PlannedSession:
        names = tuple(one.session.name for one in group)
        if names not in self._profiles:
            self._profiles[names] = self._joint(group)
        slo = min(float(one.session.slo_ms) for one in group)
        rate = sum(float(one.session.rate) for one in group)
        for app in self._apps.values():
            slo = min([slo, *(app.budgets.get(name, slo) for name in names)])
            rate += sum(app.rates.get(name, 0.0) for name in names)
        return PlannedSession(self._name(group), self._profiles[names], slo, rate)

    def _name(self, group: Sequence[Deployment]) -> str:
        """Name a group by its sessions, and by their versions as well where others had the name before."""
        known = self._named.get(_identity(group))
        if known is not None:
            return known
        taken = set(self._named.values())
        plain = "+".join(one.session.name for one in group)
        versions = "+".join(f"{one.session.name}@{one.session.version}" for one in group)
        candidates = [plain, versions, *(f"{versions}#{number}" for number in range(2, len(taken) + 3))]
        return next(name for name in candidates if name not in taken)

    def _joint(self, group: tuple[Deployment, ...]) -> BatchingProfile:
        """Measure a group; where a profile was given, take the slowest of the members' own."""
        if not any(one.session.profile is not None for one in group):
            return measured(group, threads=self._threads, device=self.device)
        own = [self._profiles[one.session.name,] for one in group]
        largest = min(profile.max_batch for profile in own)
        latency = {batch: max(float(one.latencies[batch]) for one in own) for batch in range(1, largest + 1)}
        memory = {batch: max(int(one.memory[batch]) for one in own) for batch in range(1, largest + 1)}
        return replace(own[0], latency_ms=latency, deviation_ms={}, memory_bytes=memory)


def _identity(group: Sequence[Deployment]) -> tuple[int, ...]:
    return tuple(deployment.number for deployment in group)
