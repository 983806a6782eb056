"""A server that runs: what callers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from optimizer.errors import nearest
from udfs.serving import NoSuchModelError, ServedModel, ServerStoppedError
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._app import App
from vista_spark.serving._record import ask
from vista_spark.serving._scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from optimizer.serving import QuerySplit, ServingPlan
    from udfs.node import FrozenHeap
    from udfs.serving import LiveRouter, Results, Router
    from udfs.serving.http import FrontEnd, FrontEndProcesses
    from vista_spark.serving._applications import Applications
    from vista_spark.serving._backends import Backends
    from vista_spark.serving._control import Control
    from vista_spark.serving._deployer import Deployer
    from vista_spark.serving._session import Session

__all__ = ["Api", "Model"]


class Model:
    """A deployed model or application, of :meth:`Api.__getitem__`.

    Parameters
    ----------
    router : Router
    served : ServedModel
    """

    def __init__(self, router: Router, served: ServedModel) -> None:
        self._router = router
        self.served = served

    def execute(self, record: Any, *, timeout_ms: float | None = None) -> Future[Any]:
        """Have the model answer for one record.

        Parameters
        ----------
        record : bytes, path, str, array or mapping
            Of a model of images an encoded image, the path of one, or a preprocessed tensor; of texts a text; of a
            function an array without a batch axis. A mapping of these by name where there are several inputs.
        timeout_ms : float, optional
            Default the session's SLO.

        Returns
        -------
        concurrent.futures.Future
            Of the output without a batch axis; of a mapping by name where there are several. Or of one of
            :class:`udfs.serving.RequestError`'s kinds.

        Raises
        ------
        BadRequestError
            A record that the model does not take.
        """
        return ask(self._router, self.served, record, timeout_ms=timeout_ms)


class Api:
    """A server that runs, until :meth:`stop` or the end of the ``with`` block. It is a :class:`udfs.serving.Router`.

    Made by :meth:`vista_spark.serving.Server.start`.

    Attributes
    ----------
    front_end : object or None
        What answers HTTP: :class:`udfs.serving.http.FrontEnd` or its processes; ``None`` without a port.
    """

    def __init__(
        self,
        router: LiveRouter,
        backends: Backends,
        control: Control,
        deployer: Deployer,
        applications: Applications,
        heap: FrozenHeap,
    ) -> None:
        self._router = router
        self._backends = backends
        self._control = control
        self._deployer = deployer
        self._applications = applications
        self._heap = heap
        self._stopped = False
        self.front_end: FrontEnd | FrontEndProcesses | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, name: str) -> Model:
        """Find a deployed model or application.

        Raises
        ------
        NoSuchModelError
            No such session or application was deployed.
        """
        for served in self.models:
            if served.name == name:
                return Model(self, served)
        names = [served.name for served in self.models]
        raise NoSuchModelError(f"no model {name!r} is served{nearest(name, names)}; there are {', '.join(names)}")

    @property
    def models(self) -> Sequence[ServedModel]:
        """The deployed models, and the applications behind them."""
        return [*self._router.models, *self._applications.models]

    @property
    def ready(self) -> bool:
        """Whether every model has a backend, or would get one with the next request."""
        return not self._stopped and (self._router.ready or self._control.asleep)

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends that are there."""
        return self._backends.alive

    @property
    def results(self) -> dict[str, Results]:
        """What each backend said last: rows that wait there, and what its batches take of what their profile says."""
        return self._backends.results

    @property
    def plan(self) -> ServingPlan | None:
        """The plan that is served by now; ``None`` while no backend is there."""
        return self._control.plan

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Rows so far, by session or application and how they ended: ``"answered"``, or the name of an error."""
        return {**self._router.ended, **self._applications.ended}

    @property
    def url(self) -> str | None:
        """Where HTTP clients find it, of this machine where it listens here; ``None`` without a port."""
        return self.front_end.url if self.front_end else None

    @property
    def token(self) -> str | None:
        """What HTTP clients send as ``Authorization: Bearer``; ``None``: nothing."""
        return self.front_end.token if self.front_end else None

    def submit(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Mapping[str, NDArray[Any]]]:
        """Have a model answer a request of one or more rows; see :meth:`udfs.serving.Router.submit`."""
        if self._applications.has(name):
            return self._applications.submit(name, inputs, version=version, timeout_ms=timeout_ms)
        return self._router.submit(name, inputs, version=version, timeout_ms=timeout_ms)

    def scorer(
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
        """Make a Transformer that scores a table or a stream with a deployed model, in the slack of live traffic.

        Executors open the model themselves, in the task slots that the server leaves free, and compute in threads of
        the least priority. Its rows are those of :class:`vista_spark.CNNFeaturizer`: the columns of the table, the
        outputs, and the reason for which a row has none. It scores with the version that is deployed when it is made.

        Parameters
        ----------
        name : str
            Of a session.
        inputCol, inputCols : str, sequence of str, optional
            Column of each input; by default ``"image"``, ``"text"``, or the names of a function's inputs.
        outputCol, outputCols : str, sequence of str, optional
            Column of each output; by default the session's name, with several outputs ``<session>_<output>``.
        errors : {"null", "drop", "raise"}
            Policy for a row that cannot be read, or that the model fails on. Default ``"null"``.
        errorCol, errorDetailCol : str, optional
            Columns for the reason, by default ``"image_error"``, ``"text_error"`` or ``<session>_error``, and for what
            it leaves open. Only with ``errors="null"``.
        batchSize : int
            Rows of a batch. Default 32.
        outputFormat : {"vector", "array"}
            Of floating numbers; numbers of other types are arrays, and those that stand alone are numbers.

        Returns
        -------
        Scorer

        Raises
        ------
        NoSuchModelError
            No such session was deployed.
        InvalidArgumentError
            A value that is not allowed; a function that has no answer for a row of zeros, and no `outputs`.
        """
        if self._applications.has(name):
            raise InvalidArgumentError(f"{name!r} is an application: a table is scored with one of its models")
        self[name]
        return Scorer(
            self._deployer.deployment(name),
            self._deployer.device,
            self._deployer.deliveries,
            columns=_either("inputCol", inputCol, inputCols),
            added=_either("outputCol", outputCol, outputCols),
            errors=errors,
            error_column=errorCol,
            detail_column=errorDetailCol,
            batch_size=batchSize,
            output_format=outputFormat,
        )

    def deploy(self, session: Session | App) -> None:
        """Deploy a session or an application while the server runs, or another version of one: a hot swap.

        The backends load the model beside what they serve and run it once; then all new requests go to it, those from
        before are answered by the version that they were sent to, and that one is closed. No request is lost. An
        application is run on its samples here, and the plan counts its calls before it takes requests.

        Parameters
        ----------
        session : Session or App
            Of a new name; or of a name that is there, and another version.

        Raises
        ------
        InvalidArgumentError
            The version is there already; on a cluster or on Connect, a server without a ``store``.
        RuntimeError
            A backend could not open the model. What was served before is served still.
        vista_spark.errors.VistaError, optimizer.serving.InfeasibleError
            As of :meth:`Server.deploy`.
        """
        if self._stopped:
            raise ServerStoppedError("the server was stopped: deploy to one that runs")
        if isinstance(session, App):
            self._applications.add(self._deployer.deploy_app(session))
        else:
            self._deployer.deploy(session)
        if self.front_end is not None:
            self.front_end.refresh()

    def split(self, name: str) -> QuerySplit:
        """Give the calls of an application's traffic so far, and the part of the deadline that each model has now.

        Raises
        ------
        NoSuchModelError
            No such application was deployed.
        """
        return self._applications.split(name)

    def stop(self) -> None:
        """Fail what waits, end the backends, and give their task slots back."""
        if self._stopped:
            return
        self._stopped = True
        self._deployer.stop()
        if self.front_end is not None:
            self.front_end.close()
        self._applications.stop()
        self._control.stop()
        self._backends.stop()
        self._router.stop()
        self._heap.thaw()


def _either(what: str, one: str | None, several: Sequence[str] | None) -> Sequence[str] | None:
    if one is not None and several is not None:
        raise InvalidArgumentError(f"{what}={one!r} and {what}s={list(several)}: give one of them")
    return [one] if one is not None else several
