"""Catalog of deployed sessions and applications: their groups, profiles, recipes and offers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from optimizer.serving import InfeasibleError
from optimizer.serving import Session as PlannedSession
from udfs.node import hardware
from udfs.serving import GroupRecipe, Offered
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._deployed_app import DeployedApp, deployed_app
from vista_spark.serving._deployment import opened, sample_row
from vista_spark.serving._model_resolution import fetched
from vista_spark.serving._profiling import measured
from vista_spark.serving._sample_run import with_learned_outputs
from vista_spark.serving._trunk_grouping import group_recipe, groups
from vista_spark.serving._variants import opened_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optimizer.serving import BatchingProfile, Ladder
    from udfs.serving import FunctionRecipe, NetworkRecipe
    from udfs.store import Store
    from vista_spark.serving._app import App
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

    Shipping = Callable[[Deployment], NetworkRecipe | FunctionRecipe]

__all__ = ["Catalog", "Deployed"]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Groups of the deployed sessions.

    ``sessions`` has one planned session per group, at its expected rate, and ``members`` the session names of each.
    ``recipes`` are those of the groups that no earlier catalog had, ``ladders`` the variants of the groups that have
    some, and ``budgets`` the dollars per day of the sessions that have some.
    """

    sessions: tuple[PlannedSession, ...]
    members: Mapping[str, tuple[str, ...]]
    offers: tuple[Offered, ...]
    recipes: Mapping[str, GroupRecipe]
    ladders: Mapping[str, Ladder]
    budgets: Mapping[str, float]

    @property
    def profiles(self) -> dict[str, BatchingProfile]:
        """Batching profile of each group."""
        return {session.name: session.profile for session in self.sessions}


class Deployed:
    """Sessions and applications of a server, opened on the driver, with their batching profiles."""

    def __init__(self, threads: int, device: str) -> None:
        self._threads = threads
        self.device = device
        self._deployments: dict[str, Deployment] = {}
        self._profiles: dict[tuple[str, ...], BatchingProfile] = {}
        self._named: dict[tuple[int, ...], str] = {}
        self._apps: dict[str, DeployedApp] = {}

    @property
    def apps(self) -> dict[str, DeployedApp]:
        """Applications by name."""
        return dict(self._apps)

    @property
    def deployments(self) -> dict[str, Deployment]:
        """Deployments by session name."""
        return dict(self._deployments)

    def profile(self, name: str) -> BatchingProfile:
        """Return the batching profile of a session."""
        return self._profiles[name,]

    def add(self, session: Session, store: Store | None = None) -> None:
        """Open a session, measure it, and add it.

        Raises
        ------
        InvalidArgumentError, InfeasibleError
            See :meth:`vista_spark.serving.Server.deploy`.
        """
        self.check_free(session.name)
        deployment, profile = self.open_session(session, store)
        self._profiles[session.name,], self._deployments[session.name] = profile, deployment

    def add_app(self, app: App) -> None:
        """Set an application up, run it on its samples, and add it.

        Raises
        ------
        InvalidArgumentError, InfeasibleError
            See :meth:`vista_spark.serving.Server.deploy`.
        """
        self.check_free(app.name)
        self._apps[app.name] = self.open_app(app)

    def open_app(self, app: App) -> DeployedApp:
        """Set an application up and run it on its samples, without adding it."""
        profiles = {name: self.profile(name) for name in self._deployments}
        return deployed_app(app, self._deployments, profiles, threads=self._threads, device=self.device)

    def check_free(self, name: str, *, replaces: Literal["session", "application"] | None = None) -> None:
        """Refuse the name of a session or an application; `replaces` names the kind that may have it."""
        for kind, article, names in (("session", "a", self._deployments), ("application", "an", self._apps)):
            if name in names and kind != replaces:
                raise InvalidArgumentError(
                    f"name must be unique in the server, got {name!r}, which {article} {kind} has already. Choose "
                    "another name."
                )

    def open_session(
        self, session: Session, store: Store | None = None, *, strict: bool = False
    ) -> tuple[Deployment, BatchingProfile]:
        """Open a session and measure it, without adding it.

        The model may be a name in a registry; ``store`` has models named ``"store:/..."``. With ``strict`` it must
        answer a made-up record, since no backend will warm it up.
        """
        if session.catalog is not None:
            return opened_catalog(session, lambda variant: self.open_session(variant, store, strict=strict))
        asked, session = session, fetched(session, store)
        deployment = with_learned_outputs(opened(session), strict=strict)
        if session.profile is not None and self.device == "cpu":
            session.profile.check_machine(hardware(), self._threads)
        profile = session.profile or measured([deployment], threads=self._threads, device=self.device)
        PlannedSession(session.name, profile, float(session.slo_ms), float(session.rate))
        return replace(deployment, asked=asked), profile

    def fresh(self) -> Deployed:
        """Copy the sessions for a new server, whose backends have no recipes yet."""
        other = Deployed(self._threads, self.device)
        other._deployments, other._profiles = dict(self._deployments), dict(self._profiles)
        # The calls of an application are counted anew by each running server.
        other._apps = {name: replace(app) for name, app in self._apps.items()}
        return other

    def replaced(self, deployment: Deployment, profile: BatchingProfile) -> Deployed:
        """Copy the sessions with one added or replaced."""
        name = deployment.session.name
        profiles = {names: known for names, known in self._profiles.items() if name not in names}
        return self._with({**self._deployments, name: deployment}, {**profiles, (name,): profile}, self._apps)

    def with_app(self, app: DeployedApp) -> Deployed:
        """Copy the sessions with one application added or replaced."""
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
        """Return the groups of sessions, each with the session that the planner gets."""
        planned: list[tuple[tuple[Deployment, ...], PlannedSession]] = []
        for group in groups(list(self._deployments.values())):
            try:
                planned.append((group, self._planned(group)))
            except InfeasibleError:
                # The group is too slow for the shortest deadline of its members, so each is planned alone.
                planned += [((deployment,), self._planned((deployment,))) for deployment in group]
        return planned

    @property
    def ladders(self) -> dict[str, Ladder]:
        """Variants by session, for sessions with a catalog."""
        return {name: each.ladder for name, each in self._deployments.items() if each.ladder is not None}

    def catalog(self, ship: Shipping) -> Catalog:
        """Describe all groups, with the recipes of those that no earlier catalog had.

        ``ship`` makes a deployment's files available to the workers, and returns the recipe that finds them there.
        """
        sessions, offers, recipes, members, ladders = [], [], {}, {}, {}
        for group, session in self.planned():
            sessions.append(session)
            members[session.name] = tuple(deployment.session.name for deployment in group)
            fastest = session.profile
            if (ladder := group[0].ladder) is not None:
                ladders[session.name] = ladder
                fastest = ladder.profiles[-1]
            least = float(fastest.latencies[1])
            offers += [
                Offered(deployment.served, deployment.admission, session.name, len(group) > 1, least)
                for deployment in group
            ]
            if self._is_new(group):
                recipe = replace(group_recipe(group, ship), name=session.name, sample=sample_row(group[0]))
                recipes[session.name] = recipe
                self._named[_identity(group)] = session.name
        budgets = {
            name: float(each.session.dollars_per_day)
            for name, each in self._deployments.items()
            if each.session.dollars_per_day is not None
        }
        return Catalog(tuple(sessions), members, tuple(offers), recipes, ladders, budgets)

    def _is_new(self, group: Sequence[Deployment]) -> bool:
        return _identity(group) not in self._named

    def _planned(self, group: tuple[Deployment, ...]) -> PlannedSession:
        names = tuple(deployment.session.name for deployment in group)
        if names not in self._profiles:
            self._profiles[names] = self._joint(group)
        slo = min(float(deployment.session.slo_ms) for deployment in group)
        rate = sum(float(deployment.session.rate) for deployment in group)
        for app in self._apps.values():
            slo = min([slo, *(app.budgets.get(name, slo) for name in names)])
            rate += sum(app.rates.get(name, 0.0) for name in names)
        return PlannedSession(self._name(group), self._profiles[names], slo, rate)

    def _name(self, group: Sequence[Deployment]) -> str:
        """Name a group by its sessions, and by their versions too if an earlier group had that name."""
        known = self._named.get(_identity(group))
        if known is not None:
            return known
        used = set(self._named.values())
        plain = "+".join(deployment.session.name for deployment in group)
        versions = "+".join(f"{deployment.session.name}@{deployment.session.version}" for deployment in group)
        candidates = [plain, versions, *(f"{versions}#{number}" for number in range(2, len(used) + 3))]
        return next(name for name in candidates if name not in used)

    def _joint(self, group: tuple[Deployment, ...]) -> BatchingProfile:
        """Measure a group; if any member has a given profile, take the slowest of the members' profiles."""
        if not any(deployment.session.profile is not None for deployment in group):
            return measured(group, threads=self._threads, device=self.device)
        profiles = [self._profiles[deployment.session.name,] for deployment in group]
        largest = min(profile.max_batch for profile in profiles)
        latency = {
            batch: max(float(deployment.latencies[batch]) for deployment in profiles) for batch in range(1, largest + 1)
        }
        memory = {
            batch: max(int(deployment.memory[batch]) for deployment in profiles) for batch in range(1, largest + 1)
        }
        return replace(profiles[0], latency_ms=latency, deviation_ms={}, memory_bytes=memory)


def _identity(group: Sequence[Deployment]) -> tuple[int, ...]:
    return tuple(deployment.number for deployment in group)
