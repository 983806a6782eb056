"""``Server``: deploys sessions, plans for them, and starts the backends that serve them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pyspark.sql import is_remote

from optimizer.arguments import one_of, real, whole, whole_or_none
from optimizer.errors import nearest
from optimizer.serving import POLICIES, Backend, InfeasibleError, ladder_shares, with_shares
from udfs.driver import SlotLease, encrypts, is_local, lease_slots, leased_slots, task_slots, validate_arguments
from udfs.inference import files_of_this_process
from udfs.node import FrozenHeap, check_device
from udfs.serving import BackendSpec, Deliveries, LiveRouter
from udfs.store import Store
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._api import Api
from vista_spark.serving._app import App
from vista_spark.serving._applications import Applications
from vista_spark.serving._backends import BackendOptions, Backends
from vista_spark.serving._catalog import Deployed
from vista_spark.serving._control_loop import Control, planned
from vista_spark.serving._deployer import Deployer
from vista_spark.serving._front_end import FrontEndSpec
from vista_spark.serving._gauges import gauges_of
from vista_spark.serving._plan_log import NoLog, PlanLog
from vista_spark.serving._scaling import Scaling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from optimizer.serving import BatchingProfile, QuerySplit, ServingPlan
    from udfs.serving.http import HttpLimits
    from vista_spark.serving._plan_log import PlanRecorder
    from vista_spark.serving._session import Session

__all__ = ["Server"]

# Seconds for Spark to start the tasks, and for their processes to import a framework.
_START_S = 180.0

# Least milliseconds after which a running batch counts as hung.
_HANGS_MS = 10_000.0

_LOOK_S = 0.05


@validate_arguments
class Server:
    """Server of models in long-lived tasks of a Spark session, which answers each request within its deadline.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect session.
    backends : int or (int, int)
        Number of backends. Each is a task that holds a slot while the server runs; one slot stays free for other jobs,
        however many servers the session has. Default 2. With ``(least, most)`` the number follows the traffic: it grows
        as soon as the plan needs more backends, and shrinks after two epochs that needed fewer. With a `least` of 0 the
        server has no backend without requests.
    epoch_s : float
        Seconds after which the plan follows the measured rates. Default 30. The server also replans when a rate is far
        above the plan, and when a backend connects or is lost.
    policy : str
        Dispatch policy, a key of :data:`optimizer.serving.POLICIES`. Default ``"sliding"``.
    threads : int, optional
        CPU threads of a batch. Default: ``spark.task.cpus``.
    device : str
        Device that models run on: ``"cpu"`` (default), ``"auto"``, ``"cuda"``, ...
    parallel : bool
        Run the models of a backend concurrently, each in a thread of its own, instead of one batch after the other
        (variant of Figure 3.16). Default ``False``: plans assume turns, and a batch ends sooner if it has the backend
        to itself. Networks that two groups share still take turns.
    restarts : int
        Restarts of a lost backend's job. Default 3. A loss is not counted if the backend had requests, one of which may
        be the cause.
    driver_host : str, optional
        Name or address under which the backends reach this machine. Default: ``spark.driver.host``, or on Connect this
        machine's name.
    store : str or Store, optional
        Folder that the driver and the workers can access. It has the models that sessions name as
        ``"store:/name@alias"`` (:class:`ModelStore`), and brings models of :meth:`Api.deploy` to running backends. A
        local session uses a temporary folder for the second purpose.
    encrypt : bool, optional
        Encrypt messages between the driver and the backends. Default: as Spark does.
    dollars_per_hour : float
        Price of a busy backend, which counts towards the ``dollars_per_day`` of sessions. Default 0.28, as that of
        :class:`optimizer.approximate.CostCard`.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid.

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
    backend-0: duty cycle 5.0 ms, 0.5 % occupied
      double: 1/s in batches of 8 (5.0 ms), worst 10.0 of 1000 ms
    """

    def __init__(  # noqa: PLR0913 - every option by its name
        self,
        spark: SparkSession,
        backends: int | tuple[int, int] = 2,
        epoch_s: float = 30.0,
        *,
        policy: str = "sliding",
        threads: int | None = None,
        device: str = "cpu",
        parallel: bool = False,
        restarts: int = 3,
        driver_host: str | None = None,
        store: str | Store | None = None,
        encrypt: bool | None = None,
        dollars_per_hour: float = 0.28,
    ) -> None:
        least, most = _bounds(backends)
        whole_or_none("threads", threads)
        whole("restarts", restarts, 0)
        real("epoch_s", epoch_s, 0, above=True)
        one_of("policy", policy, tuple(POLICIES))
        real("dollars_per_hour", dollars_per_hour, 0, above=True)
        check_device(device)
        self._price = float(dollars_per_hour)
        self._spark = spark
        self._least = least
        self._names = tuple(f"backend-{number}" for number in range(most))
        self._epoch_s = float(epoch_s)
        threads = threads or int(spark.conf.get("spark.task.cpus", "1") or 1)
        self._backend = BackendSpec(policy, threads, device, bool(parallel))
        self._restarts = restarts
        self._host = driver_host
        self._encrypt = encrypt
        self._store = Store.from_uri(store) if isinstance(store, str) else store
        self._deployed = Deployed(threads, device)

    @validate_arguments
    def deploy(self, session: Session | App) -> Self:
        """Open a session's model on this machine, check it, and measure its batches.

        An application is deployed after its models: it runs on its samples, and its deadline is split between its
        models.

        Parameters
        ----------
        session : Session or App
            Session or application with a name that the server does not have.

        Returns
        -------
        Server
            The server itself.

        Raises
        ------
        InvalidArgumentError
            The name is in use; the model, the head or the profile does not fit; an application asks for a model that is
            not deployed, fails on a sample, or calls no model.
        optimizer.serving.InfeasibleError
            The deadline is less than preprocessing and two batches of 1 take.
        """
        if isinstance(session, App):
            self._deployed.add_app(session)
        else:
            self._deployed.add(session, self._store)
        return self

    @validate_arguments
    def split(self, name: str) -> QuerySplit:
        """Return the models that an application calls, how often, and the part of the deadline that each has.

        Parameters
        ----------
        name : str
            Name of the application.

        Returns
        -------
        optimizer.serving.QuerySplit
            Calls, rates and budgets.

        Raises
        ------
        InvalidArgumentError
            No application has this name.
        """
        apps = self._deployed.apps
        if name not in apps:
            raise InvalidArgumentError(f"name must be a deployed application, got {name!r}{nearest(name, apps) or '.'}")
        return apps[name].split

    @validate_arguments
    def profile(self, name: str) -> BatchingProfile:
        """Return the batching profile of a session.

        Parameters
        ----------
        name : str
            Name of the session.

        Returns
        -------
        optimizer.serving.BatchingProfile
            The measured profile, or the one of the session.
        """
        return self._deployed.profile(name)

    def plan(self) -> ServingPlan:
        """Plan for the expected rates: the models, batches and duty cycle of each backend.

        Sessions that share a trunk are planned as one, named after all of them: ``"cats+dogs"``.

        Returns
        -------
        optimizer.serving.ServingPlan
            The plan.

        Raises
        ------
        optimizer.serving.InfeasibleError
            There are too few backends.
        """
        sessions = [session for _, session in self._deployed.planned()]
        if not sessions:
            raise InvalidArgumentError("The server must have a session. Deploy one with Server.deploy.")
        backends = [Backend(name) for name in self._names]
        if ladders := self._deployed.ladders:
            sessions = with_shares(sessions, ladders, ladder_shares(sessions, ladders, backends))
        base, live, share = planned(sessions, backends)
        if share < 1:
            raise InfeasibleError(
                f"{len(self._names)} backends can serve {share:.0%} of the expected rates. Add backends, or lower "
                "the rates."
            )
        return live if self._least == len(self._names) else base

    @validate_arguments
    def start(
        self,
        timeout_s: float = _START_S,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        token: str | Literal[False] | None = None,
        limits: HttpLimits | None = None,
        front_ends: int = 0,
        experiment: str | None = None,
    ) -> Api:
        """Start the backends, have them open the models of the plan, and answer requests.

        Parameters
        ----------
        timeout_s : float
            Seconds until all backends must be connected. Default 180.
        port : int, optional
            Port for HTTP by the Open Inference Protocol; 0 takes a free one. Default: no HTTP. Needs the extra
            ``serving``.
        host : str
            Address to listen at. Default: this machine alone.
        token : str or False, optional
            Token that HTTP clients send as ``Authorization: Bearer``. Default: a random one, ``api.token``. ``False``
            requires none.
        limits : udfs.serving.http.HttpLimits, optional
            Limits of HTTP clients: bytes, concurrent requests, seconds. The default of 512 concurrent requests is too
            small for 300 requests per second with a deadline of 5 s, which need 1,500.
        front_ends : int
            Processes that read and write HTTP. They share the port, keep answering while the driver is busy, and are
            restarted when one is killed. Default 0: a thread of this process.
        experiment : str, optional
            MLflow experiment with a run that records each plan, its reason, and the seconds until it was in use.

        Returns
        -------
        Api
            Interface of the running server, a context manager that ends the Spark jobs.

        Raises
        ------
        InvalidArgumentError
            There are not more task slots than backends of this and other servers of the session, no session is
            deployed, or `front_ends` is set without a port.
        optimizer.serving.InfeasibleError
            There are too few backends.
        TimeoutError
            A backend did not connect.
        RuntimeError
            A backend could not open a model.
        udfs.serving.http.PortTakenError
            Another process listens at the port.
        """
        began = max(1, self._least, len(self.plan().nodes))
        http = FrontEndSpec(port, host, token, limits, front_ends)
        http.check()
        lease = self._lease()
        try:
            return self._start(began, timeout_s, http, experiment, lease)
        except BaseException:
            lease.release()
            raise

    def _lease(self) -> SlotLease:
        """Lease the task slots of the backends, and leave one to other jobs."""
        most = len(self._names)
        leased = leased_slots(self._spark)
        slots = task_slots(self._spark, wanted=leased + most + 1)
        lease = lease_slots(self._spark, most, most=slots - 1)
        if lease is None:
            free = max(0, slots - 1 - leased)
            others = " that other servers and searches leave" if leased else ""
            raise InvalidArgumentError(
                f"backends must be at most {free}, one less than the cluster's task slots{others} so that other jobs "
                f"have a slot, got {most}. Ask for fewer backends, or give Spark more cores."
            )
        return lease

    def _start(self, began: int, timeout_s: float, http: FrontEndSpec, experiment: str | None, lease: SlotLease) -> Api:
        """Start some backends and the threads of the server, in the slots of a lease."""
        deliveries = self._deliveries()
        deployed = self._deployed.fresh()
        catalog = deployed.catalog(lambda deployment: deployment.shipped(self._spark))
        router = LiveRouter(catalog.offers)
        scaling = Scaling(self._least, len(self._names))
        control = Control(router, catalog, self._epoch_s, scaling, self._log(experiment), self._price)
        options = BackendOptions(
            replace(self._backend, deliveries=deliveries),
            self._host,
            encrypts(self._spark) if self._encrypt is None else self._encrypt,
            self._restarts,
            max(_HANGS_MS, *(2 * session.slo_ms for session in catalog.sessions)),
        )
        backends = Backends(self._spark, self._names, catalog.recipes, router, control.changed, options)
        router.noticed, router.missed = backends.noticed, control.missed
        applications = Applications(router, list(deployed.apps.values()))
        control.budgets = applications.budgets
        deployer = Deployer(self._spark, deployed, control, deliveries, self._store, self._epoch_s)
        heap = FrozenHeap()
        api = Api(router, backends, control, deployer, applications, heap, lease)
        try:
            backends.start(len(self._names) if self._least == len(self._names) else began, timeout_s)
            control.start(backends)
            _await(api, timeout_s)
            deployer.start()
            api.front_end = http.start(api, lambda: gauges_of(api))
            heap.freeze()
        except BaseException:
            api.stop()
            raise
        return api

    def _log(self, experiment: str | None) -> PlanRecorder:
        """Create the MLflow run that records plans."""
        if experiment is None:
            return NoLog()
        backends = f"{self._least} to {len(self._names)}"
        return PlanLog(experiment, {"backends": backends, "epoch_s": self._epoch_s, "policy": self._backend.policy})

    def _deliveries(self) -> Deliveries | None:
        """Return the store that brings models to running backends: the server's, or a folder of a local session."""
        if self._store is not None:
            self._store.check_writable()
            return Deliveries(self._store)
        shares = not is_remote() and is_local(self._spark)
        return Deliveries(Store.from_uri(str(files_of_this_process()))) if shares else None


def _bounds(backends: int | tuple[int, int]) -> tuple[int, int]:
    """Parse the smallest and the largest number of backends."""
    if not isinstance(backends, tuple):
        count = whole("backends", backends)
        return count, count
    if len(backends) != len(("least", "most")):
        raise InvalidArgumentError(f"backends must be an int or a pair (least, most), got {backends!r}.")
    least = whole("backends[0]", backends[0], 0)
    return least, whole("backends[1]", backends[1], max(1, least), "It is the largest number of backends.")


def _await(api: Api, timeout_s: float) -> None:
    """Wait until every model has a backend; a backend that was lost meanwhile is started again."""
    until = time.monotonic() + timeout_s
    while not api.ready:
        if time.monotonic() > until:
            raise TimeoutError(
                f"The models have no backend after {timeout_s:g} s. The logs of the backends have the reason."
            )
        time.sleep(_LOOK_S)
