"""``Server``: sessions, a plan for them, and the backends of a Spark session that serve them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, Self

from pyspark.sql import is_remote

from optimizer.arguments import one_of, real, whole, whole_or_none
from optimizer.errors import nearest
from optimizer.serving import POLICIES, Backend, InfeasibleError
from udfs.driver import encrypts, is_local, task_slots
from udfs.inference import files_of_this_process
from udfs.node import FrozenHeap, check_device
from udfs.serving import Deliveries, LiveRouter
from udfs.store import Store
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._api import Api
from vista_spark.serving._app import App
from vista_spark.serving._applications import Applications
from vista_spark.serving._backends import BackendOptions, Backends
from vista_spark.serving._catalog import Deployed
from vista_spark.serving._control import Control, planned
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
    backends : int or (int, int)
        Tasks; each holds a slot while the server runs, and one slot stays free for other jobs. Default 2. With
        ``(least, most)`` their number follows the traffic: more at once where the plan needs them, fewer after two
        epochs that needed fewer; with a `least` of 0 none where no request came, until one does.
    epoch_s : float
        Seconds after which the plan follows the rates that were measured. Default 30; earlier where a rate is far
        above the plan's, and at once where a backend comes or goes.
    policy : str
        Of dispatch: one of :data:`optimizer.serving.POLICIES`. Default ``"sliding"``.
    threads : int, optional
        CPU threads of a batch; ``spark.task.cpus`` by default.
    device : str
        ``"cpu"`` (default), ``"auto"``, ``"cuda"``, ...
    parallel : bool
        Whether the models of a backend run beside each other, each in a thread of its own, instead of one batch after
        the other (the variant of Figure 3.16). Default ``False``: plans count on turns, and a batch that has the
        backend to itself ends sooner. Networks that two groups share still take turns.
    restarts : int
        How often a lost backend's job is started again. Default 3.
    driver_host : str, optional
        Name or address of this machine under which the backends reach it; ``spark.driver.host`` by default, or on
        Connect this machine's name.
    store : str or Store, optional
        A folder that driver and workers reach: of the models that sessions name as ``"store:/name@alias"``
        (:class:`ModelStore`), and by which :meth:`Api.deploy` brings models to backends that run. Of a local session a
        temporary folder does for the second.
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
    ) -> None:
        least, most = _bounds(backends)
        whole_or_none("threads", threads)
        whole("restarts", restarts, 0)
        real("epoch_s", epoch_s, 0, above=True)
        one_of("policy", policy, tuple(POLICIES))
        check_device(device)
        self._spark = spark
        self._least = least
        self._names = tuple(f"backend-{number}" for number in range(most))
        self._epoch_s = float(epoch_s)
        self._policy = policy
        self._threads = threads or int(spark.conf.get("spark.task.cpus", "1") or 1)
        self._device = device
        self._parallel = bool(parallel)
        self._restarts = restarts
        self._host = driver_host
        self._encrypt = encrypt
        self._store = Store.from_uri(store) if isinstance(store, str) else store
        self._deployed = Deployed(self._threads, device)

    def deploy(self, session: Session | App) -> Self:
        """Open a session's model on this machine, check it, and measure what its batches take.

        Of an application, which comes after its models: run it on its samples, and split its deadline between them.

        Parameters
        ----------
        session : Session or App

        Returns
        -------
        Server
            Itself.

        Raises
        ------
        InvalidArgumentError
            A session or an application of this name is there already; the model, the head or the profile does not fit;
            an application asks for a model that is not there, fails on a sample, or calls no model.
        optimizer.serving.InfeasibleError
            The deadline is less than twice what a batch of one takes, and what preprocessing takes.
        """
        if isinstance(session, App):
            self._deployed.add_app(session)
        else:
            self._deployed.add(session, self._store)
        return self

    def split(self, name: str) -> QuerySplit:
        """Give the models that an application calls, how often, and the part of the deadline that each has.

        Raises
        ------
        InvalidArgumentError
            No such application is deployed.
        """
        apps = self._deployed.apps
        if name not in apps:
            raise InvalidArgumentError(f"no application {name!r} is deployed{nearest(name, apps)}")
        return apps[name].split

    def profile(self, name: str) -> BatchingProfile:
        """Give what a session's batches take, as it was measured or given."""
        return self._deployed.profile(name)

    def plan(self) -> ServingPlan:
        """Plan for the expected rates: which backend runs which models, in what batches and duty cycle.

        Sessions that share a trunk are one, whose name has theirs: ``"cats+dogs"``.

        Raises
        ------
        optimizer.serving.InfeasibleError
            The backends are too few.
        """
        sessions = [session for _, session in self._deployed.planned()]
        if not sessions:
            raise InvalidArgumentError("no session is deployed")
        base, live, share = planned(sessions, [Backend(name) for name in self._names])
        if share < 1:
            raise InfeasibleError(
                f"{len(self._names)} backends bear {share:.0%} of the expected rates: add backends, or lower the rates"
            )
        return live if self._least == len(self._names) else base

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
            Seconds for the backends to be there. Default 180.
        port : int, optional
            Answer HTTP as well, by the Open Inference Protocol, at this port; 0 takes a free one. Needs the extra
            ``serving``.
        host : str
            Address to listen at. Default: this machine alone.
        token : str or False, optional
            What HTTP clients send as ``Authorization: Bearer``. By default one is drawn, ``api.token``; ``False`` lets
            everybody ask.
        limits : udfs.serving.http.HttpLimits, optional
            Of HTTP clients: bytes, requests at a time, seconds. About as many requests are there at a time as come in
            the seconds of an answer: 512, the default, are too few for 300 a second with a deadline of 5 s.
        front_ends : int
            Processes that read and write HTTP, so that a driver with much else to do answers soon, and one that is lost
            is one of several. Default 0: a thread of this process.
        experiment : str, optional
            Of MLflow: a run there gets each plan, why it was made, and how long it took.

        Returns
        -------
        Api
            A context manager; at its end the Spark jobs end.

        Raises
        ------
        InvalidArgumentError
            More backends than task slots, or as many; no session; front ends without a port.
        optimizer.serving.InfeasibleError
            The backends are too few.
        TimeoutError
            A backend has not come.
        RuntimeError
            A backend could not open a model.
        udfs.serving.http.PortTakenError
            Another process listens at this port.
        """
        began = max(1, self._least, len(self.plan().nodes))
        http = FrontEndSpec(port, host, token, limits, front_ends)
        http.check()
        most = len(self._names)
        slots = task_slots(self._spark, wanted=most + 1)
        if most >= slots:
            raise InvalidArgumentError(
                f"backends must be at most {slots - 1}, one less than the cluster's task slots so that other jobs have "
                f"a slot, got {most}. Ask for fewer backends, or give Spark more cores."
            )
        deliveries = self._deliveries()
        deployed = self._deployed.fresh()
        catalog = deployed.catalog(lambda one: one.shipped(self._spark))
        sessions = catalog.sessions
        router = LiveRouter(catalog.offers)
        scaling = Scaling(self._least, len(self._names))
        control = Control(router, catalog, self._epoch_s, scaling, self._log(experiment))
        options = BackendOptions(
            self._host,
            encrypts(self._spark) if self._encrypt is None else self._encrypt,
            self._restarts,
            self._policy,
            self._threads,
            self._device,
            self._parallel,
            max(_HANGS_MS, *(2 * session.slo_ms for session in sessions)),
            deliveries,
        )
        backends = Backends(self._spark, self._names, catalog.recipes, router, control.changed, options)
        router.noticed, router.missed = backends.noticed, control.missed
        applications = Applications(router, list(deployed.apps.values()))
        control.budgets = applications.budgets
        deployer = Deployer(self._spark, deployed, control, deliveries, self._store, self._epoch_s)
        heap = FrozenHeap()
        api = Api(router, backends, control, deployer, applications, heap)
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
        """Make the run that plans are logged to."""
        if experiment is None:
            return NoLog()
        backends = f"{self._least} to {len(self._names)}"
        return PlanLog(experiment, {"backends": backends, "epoch_s": self._epoch_s, "policy": self._policy})

    def _deliveries(self) -> Deliveries | None:
        """Choose the store by which models reach backends that run: the server's, or a folder of a local session."""
        if self._store is not None:
            self._store.check_writable()
            return Deliveries(self._store)
        shares = not is_remote() and is_local(self._spark)
        return Deliveries(Store.from_uri(str(files_of_this_process()))) if shares else None


def _bounds(backends: int | tuple[int, int]) -> tuple[int, int]:
    """Read the least and the most backends."""
    if not isinstance(backends, tuple):
        count = whole("backends", backends)
        return count, count
    if len(backends) != len(("least", "most")):
        raise InvalidArgumentError(f"backends={backends!r}: a number, or the least and the most")
    least = whole("backends[0]", backends[0], 0)
    return least, whole("backends[1]", backends[1], max(1, least), "the most that there may be")


def _await(api: Api, timeout_s: float) -> None:
    """Wait until every model has a backend: one that was lost meanwhile is started again."""
    until = time.monotonic() + timeout_s
    while not api.ready:
        if time.monotonic() > until:
            raise TimeoutError(f"no backend serves every model after {timeout_s:g} s: their logs say why")
        time.sleep(_LOOK_S)
