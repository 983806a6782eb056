"""``Server``: sessions, a plan for them, and the backends of a Spark session that serve them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from optimizer.arguments import one_of, real, whole, whole_or_none
from optimizer.serving import POLICIES, Backend, InfeasibleError
from optimizer.serving import Session as PlannedSession
from udfs.driver import encrypts, task_slots
from udfs.node import check_device
from udfs.serving import LiveRouter, Offered
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._api import Api
from vista_spark.serving._backends import BackendOptions, Backends
from vista_spark.serving._control import Control, planned
from vista_spark.serving._deployment import opened
from vista_spark.serving._front_end import check_http, front_end
from vista_spark.serving._grouping import group_recipe, groups
from vista_spark.serving._profiling import hardware, measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from optimizer.serving import BatchingProfile, ServingPlan
    from vista_spark.serving._deployment import Deployment
    from vista_spark.serving._session import Session

__all__ = ["Server"]

# For Spark to start the tasks, and for their processes to import a framework.
_START_S = 180.0

# A batch that runs for longer hangs, unless deadlines are long.
_HANGS_MS = 10_000.0

_LOOK_S = 0.05


class Server:
    """Serves models from long-lived tasks of a Spark session, each request within its session's deadline.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    backends : int
        Tasks; each holds a slot while the server runs, and one slot stays free for other jobs. Default 2.
    epoch_s : float
        Seconds after which the plan follows the rates that were measured. Default 30; earlier where a rate is far
        above the plan's, and at once where a backend comes or goes.
    policy : str
        Of dispatch: one of :data:`optimizer.serving.POLICIES`. Default ``"sliding"``.
    threads : int, optional
        CPU threads of a batch; ``spark.task.cpus`` by default.
    device : str
        ``"cpu"`` (default), ``"auto"``, ``"cuda"``, ...
    restarts : int
        How often a lost backend's job is started again. Default 3.
    driver_host : str, optional
        Name or address of this machine under which the backends reach it; ``spark.driver.host`` by default, or on
        Connect this machine's name.
    encrypt : bool, optional
        Whether driver and backends encrypt what they send each other; by default where Spark does.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from pyspark.sql import SparkSession
    >>> from optimizer.serving import BatchingProfile
    >>> from udfs.serving import TensorSpec
    >>> from vista_spark.serving import Session
    >>> server = Server(SparkSession.active(), backends=1)
    >>> double = Session(
    ...     "double",
    ...     model=lambda arrays: {"y": 2 * arrays["x"]},
    ...     inputs=[TensorSpec("x", "float32", (-1, 2))],
    ...     profile=BatchingProfile({1: 5.0, 8: 5.0}),
    ...     slo_ms=1000,
    ... )
    >>> print(server.deploy(double).plan().explain())
    1 sessions on 1 backends (exact, spread; no plan has fewer)
    backend-0: duty cycle 5.0 ms, 100 % occupied
      double: 1/s in batches of 8 (5.0 ms), worst 10.0 of 1000 ms
    """

    def __init__(
        self,
        spark: SparkSession,
        backends: int = 2,
        epoch_s: float = 30.0,
        *,
        policy: str = "sliding",
        threads: int | None = None,
        device: str = "cpu",
        restarts: int = 3,
        driver_host: str | None = None,
        encrypt: bool | None = None,
    ) -> None:
        whole("backends", backends)
        whole_or_none("threads", threads)
        whole("restarts", restarts, 0)
        real("epoch_s", epoch_s, 0, above=True)
        one_of("policy", policy, tuple(POLICIES))
        check_device(device)
        self._spark = spark
        self._names = tuple(f"backend-{number}" for number in range(backends))
        self._epoch_s = float(epoch_s)
        self._policy = policy
        self._threads = threads or int(spark.conf.get("spark.task.cpus", "1") or 1)
        self._device = device
        self._restarts = restarts
        self._host = driver_host
        self._encrypt = encrypt
        self._deployments: dict[str, Deployment] = {}
        self._profiles: dict[tuple[str, ...], BatchingProfile] = {}

    def deploy(self, session: Session) -> Self:
        """Open a session's model on this machine, check it, and measure what its batches take.

        Parameters
        ----------
        session : Session

        Returns
        -------
        Server
            Itself.

        Raises
        ------
        InvalidArgumentError
            A session of this name is there already; the model, the head or the profile does not fit.
        optimizer.serving.InfeasibleError
            The deadline is less than twice what a batch of one takes, and what preprocessing takes.
        """
        if session.name in self._deployments:
            raise InvalidArgumentError(f"a session {session.name!r} is deployed already: give this one another name")
        deployment = opened(session)
        if session.profile is not None and self._device == "cpu":
            session.profile.check_machine(hardware(), self._threads)
        profile = session.profile or measured([deployment], threads=self._threads, device=self._device)
        PlannedSession(session.name, profile, float(session.slo_ms), float(session.rate))
        self._profiles[session.name,] = profile
        self._deployments[session.name] = deployment
        return self

    def profile(self, name: str) -> BatchingProfile:
        """Give what a session's batches take, as it was measured or given."""
        return self._profiles[name,]

    def plan(self) -> ServingPlan:
        """Plan for the expected rates: which backend runs which models, in what batches and duty cycle.

        Sessions that share a trunk are one, whose name has theirs: ``"cats+dogs"``.

        Raises
        ------
        optimizer.serving.InfeasibleError
            The backends are too few.
        """
        sessions = [session for _, session in self._planned()]
        if not sessions:
            raise InvalidArgumentError("no session is deployed")
        _, live, share = planned(sessions, [Backend(name) for name in self._names])
        if share < 1:
            raise InfeasibleError(
                f"{len(self._names)} backends bear {share:.0%} of the expected rates: add backends, or lower the rates"
            )
        return live

    def start(
        self,
        timeout_s: float = _START_S,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        token: str | Literal[False] | None = None,
    ) -> Api:
        """Start the backends, have them open the models of the plan, and answer requests.

        Parameters
        ----------
        timeout_s : float
            Seconds for the backends to be there. Default 180.
        port : int, optional
            Answer HTTP as well, by the Open Inference Protocol, at this port; 0 takes a free one. Needs the extra
            ``serving``.
        host : str
            Address to listen at. Default: this machine alone.
        token : str or False, optional
            What HTTP clients send as ``Authorization: Bearer``. By default one is drawn, ``api.token``; ``False`` lets
            everybody ask.

        Returns
        -------
        Api
            A context manager; at its end the Spark jobs end.

        Raises
        ------
        InvalidArgumentError
            More backends than task slots, or as many; no session.
        optimizer.serving.InfeasibleError
            The backends are too few.
        TimeoutError
            A backend has not come.
        RuntimeError
            A backend could not open a model.
        udfs.serving.http.PortTakenError
            Another process listens at this port.
        """
        self.plan()
        if port is not None:
            check_http(host, port, token)
        slots = task_slots(self._spark, wanted=len(self._names) + 1)
        if len(self._names) >= slots:
            raise InvalidArgumentError(
                f"backends={len(self._names)}, and the cluster runs {slots} tasks at a time: at most {slots - 1}, so "
                "that a slot stays free for other jobs"
            )
        grouped = self._planned()
        recipes, offers, profiles, members = {}, [], {}, {}
        for group, session in grouped:
            shipped = {one.session.name: one.shipped(self._spark) for one in group}
            recipe = group_recipe(group, shipped)
            recipes[recipe.name] = recipe
            profiles[recipe.name] = session.profile
            members[recipe.name] = [one.session.name for one in group]
            least = float(session.profile.latencies[1])
            offers += [Offered(one.served, one.admission, recipe.name, len(group) > 1, least) for one in group]
        sessions = [session for _, session in grouped]
        router = LiveRouter(offers)
        control = Control(router, members, profiles, sessions, self._epoch_s)
        options = BackendOptions(
            self._host,
            encrypts(self._spark) if self._encrypt is None else self._encrypt,
            self._restarts,
            self._policy,
            self._threads,
            self._device,
            max(_HANGS_MS, *(2 * session.slo_ms for session in sessions)),
        )
        backends = Backends(self._spark, self._names, recipes, router, control.changed, options)
        router.noticed = backends.noticed
        api = Api(router, backends, control, dict(self._deployments), self._device)
        try:
            backends.start(timeout_s)
            control.start(lambda: backends.links)
            _await(api, timeout_s)
            if port is not None:
                api.front_end = front_end(api, host, port, token)
        except BaseException:
            api.stop()
            raise
        return api

    def _planned(self) -> list[tuple[tuple[Deployment, ...], PlannedSession]]:
        """Give groups of sessions, and each as the planner sees it."""
        found: list[tuple[tuple[Deployment, ...], PlannedSession]] = []
        for group in groups(list(self._deployments.values())):
            try:
                found.append((group, self._session(group)))
            except InfeasibleError:
                # Together they are too slow for the shortest of their deadlines.
                found += [((one,), self._session((one,))) for one in group]
        return found

    def _session(self, group: tuple[Deployment, ...]) -> PlannedSession:
        names = tuple(one.session.name for one in group)
        if names not in self._profiles:
            self._profiles[names] = self._joint(group)
        slo = min(float(one.session.slo_ms) for one in group)
        rate = sum(float(one.session.rate) for one in group)
        return PlannedSession("+".join(names), self._profiles[names], slo, rate)

    def _joint(self, group: tuple[Deployment, ...]) -> BatchingProfile:
        """Measure a group; where a profile was given, take the slowest of the members' own."""
        if not any(one.session.profile is not None for one in group):
            return measured(group, threads=self._threads, device=self._device)
        own = [self._profiles[one.session.name,] for one in group]
        largest = min(profile.max_batch for profile in own)
        latency = {batch: max(float(one.latencies[batch]) for one in own) for batch in range(1, largest + 1)}
        memory = {batch: max(int(one.memory[batch]) for one in own) for batch in range(1, largest + 1)}
        return replace(own[0], latency_ms=latency, deviation_ms={}, memory_bytes=memory)


def _await(api: Api, timeout_s: float) -> None:
    """Wait until every model has a backend: one that was lost meanwhile is started again."""
    until = time.monotonic() + timeout_s
    while not api.ready:
        if time.monotonic() > until:
            raise TimeoutError(f"no backend serves every model after {timeout_s:g} s: their logs say why")
        time.sleep(_LOOK_S)
