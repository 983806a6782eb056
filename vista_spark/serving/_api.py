"""Public interface of a running server: ``Api``, and ``Model`` for one deployed model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from optimizer.errors import nearest
from udfs.driver import validate_arguments
from udfs.serving import NoSuchModelError, ServedModel, ServerStoppedError
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._app import App
from vista_spark.serving._scorer import Scorer, ScorerSpec
from vista_spark.serving._single_record import ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from optimizer.serving import QuerySplit, ServingPlan
    from udfs.driver import SlotLease
    from udfs.node import FrozenHeap
    from udfs.serving import LiveRouter, Results, Router
    from udfs.serving.http import FrontEnd, FrontEndProcesses
    from vista_spark.serving._applications import Applications
    from vista_spark.serving._backends import Backends
    from vista_spark.serving._control_loop import Control
    from vista_spark.serving._deployer import Deployer
    from vista_spark.serving._session import Session

__all__ = ["Api", "Model"]


class Model:
    """A deployed model or application, returned by ``api[name]``.

    Parameters
    ----------
    router : Router
        Router that answers the requests.
    served : ServedModel
        Name, version, inputs and outputs of the model.
    """

    def __init__(self, router: Router, served: ServedModel) -> None:
        self._router = router
        self.served = served

    def execute(self, record: Any, *, timeout_ms: float | None = None) -> Future[Any]:
        """Ask the model about one record.

        Parameters
        ----------
        record : bytes, path, str, array or mapping
            For a model of images, an encoded image, the path of one, or a preprocessed tensor; for a model of texts, a
            text; for a function, an array without a batch axis. With several inputs, a mapping of these by name.
        timeout_ms : float, optional
            Milliseconds until the deadline. Default: the session's SLO.

        Returns
        -------
        concurrent.futures.Future
            Future of the output without a batch axis, or of a mapping by name with several outputs. It fails with a
            subclass of :class:`udfs.serving.RequestError`.

        Raises
        ------
        BadRequestError
            The model does not accept the record.
        """
        return ask(self._router, self.served, record, timeout_ms=timeout_ms)


class Api:
    """Interface of a running server, made by :meth:`vista_spark.serving.Server.start`.

    It is a :class:`udfs.serving.Router`. The server runs until :meth:`stop` or the end of the ``with`` block.

    Attributes
    ----------
    front_end : object or None
        HTTP front end: a :class:`udfs.serving.http.FrontEnd` or ``FrontEndProcesses``; ``None`` without a port.
    """

    def __init__(
        self,
        router: LiveRouter,
        backends: Backends,
        control: Control,
        deployer: Deployer,
        applications: Applications,
        heap: FrozenHeap,
        lease: SlotLease,
    ) -> None:
        self._router = router
        self._backends = backends
        self._control = control
        self._deployer = deployer
        self._applications = applications
        self._heap = heap
        self._lease = lease
        self._stopped = False
        self.front_end: FrontEnd | FrontEndProcesses | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, name: str) -> Model:
        """Return a deployed model or application by its name.

        Raises
        ------
        NoSuchModelError
            No session or application has this name.
        """
        for served in self.models:
            if served.name == name:
                return Model(self, served)
        names = [served.name for served in self.models]
        raise NoSuchModelError(
            f"Model {name!r} is not deployed{nearest(name, names) or '.'} Deployed models: {', '.join(names)}."
        )

    @property
    def models(self) -> Sequence[ServedModel]:
        """Deployed models, then applications."""
        return [*self._router.models, *self._applications.models]

    @property
    def ready(self) -> bool:
        """True if every model has a backend, or the next request starts one."""
        return not self._stopped and (self._router.ready or self._control.asleep)

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the connected backends."""
        return self._backends.alive

    @property
    def backend_places(self) -> dict[str, tuple[str, int]]:
        """Host of each backend so far, and the number of its restarts."""
        return self._backends.places

    @property
    def results(self) -> dict[str, Results]:
        """Last report of each backend: waiting rows, and measured over profiled batch latency."""
        return self._backends.results

    @property
    def plan(self) -> ServingPlan | None:
        """Current plan; ``None`` without a backend."""
        return self._control.plan

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Rows so far by session or application and result: ``"answered"``, or the name of an error class."""
        return {**self._router.ended, **self._applications.ended}

    @property
    def spent(self) -> dict[str, float]:
        """Dollars spent on the current day, by session with ``dollars_per_day``."""
        return self._control.variants.spending.spent

    @property
    def url(self) -> str | None:
        """URL for HTTP clients on this machine; ``None`` without a port."""
        return self.front_end.url if self.front_end else None

    @property
    def token(self) -> str | None:
        """Token that HTTP clients send as ``Authorization: Bearer``; ``None`` if none is required."""
        return self.front_end.token if self.front_end else None

    def submit(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Mapping[str, NDArray[Any]]]:
        """Submit a request of one or more rows; see :meth:`udfs.serving.Router.submit`."""
        if self._applications.has(name):
            return self._applications.submit(name, inputs, version=version, timeout_ms=timeout_ms)
        return self._router.submit(name, inputs, version=version, timeout_ms=timeout_ms)

    @validate_arguments
    def scorer(  # noqa: PLR0913 - options by name
        self,
        name: str,
        *,
        inputCol: str | None = None,
        inputCols: Sequence[str] | None = None,
        outputCol: str | None = None,
        outputCols: Sequence[str] | None = None,
        errors: str = "null",
        errorCol: str | None = None,
        errorDetailCol: str | None = None,
        batchSize: int = 32,
        outputFormat: str = "vector",
    ) -> Scorer:
        """Return a Transformer that scores a table or a stream with a deployed model, without delaying live traffic.

        Executors open the model themselves, in the task slots that the server leaves free, and compute in threads of
        the lowest priority. The result has the columns of :class:`vista_spark.CNNFeaturizer`: those of the table, the
        outputs, and the reason why a row has none. The scorer keeps the version that is deployed when it is made.

        Parameters
        ----------
        name : str
            Name of a session.
        inputCol, inputCols : str, sequence of str, optional
            Column of each input. Default: ``"image"``, ``"text"``, or the names of a function's inputs.
        outputCol, outputCols : str, sequence of str, optional
            Column of each output. Default: the session's name, with several outputs ``<session>_<output>``.
        errors : {"null", "drop", "raise"}
            Policy for a row that cannot be read, or that the model fails on. Default ``"null"``.
        errorCol, errorDetailCol : str, optional
            Columns for the reason (default ``"image_error"``, ``"text_error"`` or ``<session>_error``) and for its
            details. Only with ``errors="null"``.
        batchSize : int
            Rows per batch. Default 32.
        outputFormat : {"vector", "array"}
            Type of columns of floating-point numbers. Other types become arrays, single numbers become numbers.

        Returns
        -------
        Scorer
            The Transformer.

        Raises
        ------
        NoSuchModelError
            No session has this name.
        InvalidArgumentError
            An argument is not valid, or a function without `outputs` fails on its sample.
        """
        if self._applications.has(name):
            raise InvalidArgumentError(
                f"name must be a session, got the application {name!r}. Score the table with one of its models."
            )
        self[name]
        spec = ScorerSpec(
            inputs=_columns("inputCol", inputCol, inputCols),
            outputs=_columns("outputCol", outputCol, outputCols),
            errors=errors,
            error_column=errorCol,
            detail_column=errorDetailCol,
            batch_size=batchSize,
            output_format=outputFormat,
        )
        return Scorer(self._deployer.deployment(name), self._deployer.device, self._deployer.deliveries, spec)

    @validate_arguments
    def deploy(self, session: Session | App) -> None:
        """Deploy a session or an application on the running server, or replace one by another version (hot swap).

        The backends load the new model beside the old one and run it once. Then new requests go to it, requests sent
        before are answered by the old version, and the old version is closed. No request is lost. An application runs
        on its samples in this process, and the plan counts its calls before it receives requests.

        Parameters
        ----------
        session : Session or App
            A session or application with a new name, or with a deployed name and another version.

        Raises
        ------
        InvalidArgumentError
            The version is deployed already, or a server on a cluster or on Connect has no ``store``.
        RuntimeError
            A backend could not open the model, or the model failed on its warm-up. The deployed models stay unchanged.
        vista_spark.errors.VistaError, optimizer.serving.InfeasibleError
            See :meth:`Server.deploy`.
        """
        if self._stopped:
            raise ServerStoppedError("The server was stopped. Start a server and deploy to it.")
        if isinstance(session, App):
            self._applications.add(self._deployer.deploy_app(session))
        else:
            self._deployer.deploy(session)
        if self.front_end is not None:
            self.front_end.refresh()

    @validate_arguments
    def split(self, name: str) -> QuerySplit:
        """Return the calls of an application so far, and the part of the deadline that each model has now.

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
        NoSuchModelError
            No application has this name.
        """
        return self._applications.split(name)

    def stop(self) -> None:
        """Fail waiting requests, end the backends, and free their task slots."""
        if self._stopped:
            return
        self._stopped = True
        self._deployer.stop()
        if self.front_end is not None:
            self.front_end.close()
        self._applications.stop()
        self._control.stop()
        self._backends.stop()
        self._lease.release()
        self._router.stop()
        self._heap.thaw()


def _columns(argument: str, column: str | None, columns: Sequence[str] | None) -> Sequence[str] | None:
    if column is not None and columns is not None:
        raise InvalidArgumentError(
            f"{argument} must be None if {argument}s is set, got {column!r} and {list(columns)}. Set one of them."
        )
    return [column] if column is not None else columns
