"""Public classes of applications: ``App``, its model handlers, and the protocol of their calls."""

from __future__ import annotations

from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from optimizer.arguments import one_of, real
from optimizer.errors import nearest
from udfs.driver import validate_arguments
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = ["CURRENT", "App", "CallAnswer", "Calls", "ModelHandler"]

_IMAGE = TensorSpec("image", "bytes", (-1,))


class Calls(Protocol):
    """Interface to the models that an application calls."""

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Ask a model about one record."""


# Calls of the request that this thread runs.
CURRENT: ContextVar[Calls | None] = ContextVar("calls", default=None)


class CallAnswer(Future[Any]):
    """Future of one call that reports when its result is read: later calls depend on it."""

    def __init__(self, report: Callable[[], None]) -> None:
        super().__init__()
        self._report = report

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        try:
            return super().result(timeout)
        finally:
            self._report()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the exception; ``None`` after a result."""
        try:
            return super().exception(timeout)
        finally:
            self._report()


class ModelHandler:
    """A model that an application calls, made by :meth:`App.model` (Figure 3.7 of the thesis).

    Parameters
    ----------
    app : App
        Application that calls the model.
    name : str
        Name of the model's session.
    """

    def __init__(self, app: App, name: str) -> None:
        self._app = app
        self.name = name

    def execute(self, record: Any) -> Future[Any]:
        """Ask the model about one record, within the model's part of the deadline.

        Parameters
        ----------
        record : bytes, path, str, array or mapping
            The record, as for :meth:`vista_spark.serving.Model.execute`.

        Returns
        -------
        concurrent.futures.Future
            Future of the output. The call does not wait: calls whose results are read later run concurrently.

        Raises
        ------
        udfs.serving.RequestError
            The model does not accept the record, or no time is left.
        """
        calls = CURRENT.get() or self._app.calls
        if calls is None:
            raise InvalidArgumentError(
                f"Application {self._app.name!r} is not deployed. Deploy it with Server.deploy or Api.deploy."
            )
        return calls.execute(self.name, record)


@validate_arguments
class App:
    """Base class of applications: :meth:`process` answers a request by asking deployed models (Figures 3.7 to 3.9).

    The server runs `process` on samples to find which calls depend on which, and how often each model is called; it
    keeps counting while the application serves. It splits the deadline between the models so that the fewest backends
    are busy.

    Parameters
    ----------
    name : str
        Name that callers use, as for a session.
    samples : sequence
        Typical requests, at least one, in the form that ``api[name].execute`` accepts.
    slo_ms : float
        Milliseconds from a request to its answer, all calls included. Default 500.
    rate : float
        Expected requests per second. Default 1.
    split : {"node", "stage"}
        Unit that gets a budget of its own: each model (default), or all models of a stage, as in the thesis.
    version : str
        Version; a deployment of another version replaces the current one on a running server. Default ``"1"``.

    Attributes
    ----------
    inputs : sequence of TensorSpec
        Inputs of a request, set as a class attribute. Default: one encoded image, ``"image"``.
    outputs : sequence of TensorSpec
        Outputs of an answer. Default: the outputs for the samples.

    Raises
    ------
    InvalidArgumentError
        An argument or a class attribute is not valid.

    Examples
    --------
    >>> class Both(App):
    ...     def setup(self):
    ...         self.cats, self.dogs = self.model("cats"), self.model("dogs")
    ...
    ...     def process(self, request):
    ...         cats, dogs = self.cats.execute(request), self.dogs.execute(request)  # concurrent calls
    ...         return {"cats": cats.result(), "dogs": dogs.result()}
    >>> Both("both", samples=["cat.jpg"], slo_ms=300).slo_ms
    300.0
    """

    inputs: ClassVar[Sequence[TensorSpec]] = (_IMAGE,)
    outputs: ClassVar[Sequence[TensorSpec]] = ()

    def __init__(
        self,
        name: str,
        *,
        samples: Sequence[Any],
        slo_ms: float = 500.0,
        rate: float = 1.0,
        split: Literal["node", "stage"] = "node",
        version: str = "1",
    ) -> None:
        for what, text in (("name", name), ("version", version)):
            if not text or "/" in text:
                raise InvalidArgumentError(f"{what} must be a non-empty str without a slash, got {text!r}.")
        if isinstance(samples, str | bytes | dict) or not len(samples):
            raise InvalidArgumentError(
                f"samples must be a list of at least one request, got {samples!r}. Application {name!r} runs process() "
                "on them to find the models that it calls."
            )
        real("slo_ms", slo_ms, 0, above=True)
        real("rate", rate, 0, above=True)
        one_of("split", split, ("node", "stage"))
        for what, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not all(isinstance(spec, TensorSpec) and spec.shape[:1] == (-1,) for spec in specs):
                raise InvalidArgumentError(
                    f"{what} must be udfs.serving.TensorSpec objects whose shapes begin with -1, got {specs!r} in "
                    f"application {name!r}."
                )
        if not self.inputs:
            raise InvalidArgumentError(
                f"inputs must have at least one TensorSpec, got () in application {name!r}. Leave the attribute out "
                "for one encoded image."
            )
        self.name, self.version = name, version
        self.samples = tuple(samples)
        self.slo_ms, self.rate, self.split = float(slo_ms), float(rate), split
        self.calls: Calls | None = None
        self._known: Collection[str] | None = None

    def setup(self) -> None:
        """Ask for the models with :meth:`model`; override this. Runs once, when the application is deployed."""

    def process(self, request: Any) -> Any:
        """Answer a request; override this. Several requests run at a time, each in a thread of the driver.

        Parameters
        ----------
        request : bytes, str, array or dict
            The input, or a mapping by name with several inputs.

        Returns
        -------
        array or dict of str to array
            The output, or outputs by name, as anything that numpy converts to arrays.
        """
        raise NotImplementedError(f"{type(self).__name__} must define process(self, request).")

    def model(self, name: str) -> ModelHandler:
        """Return a handler of a deployed model; call this in :meth:`setup`.

        Parameters
        ----------
        name : str
            Name of a deployed session.

        Returns
        -------
        ModelHandler
            Handler whose ``execute`` asks the model.

        Raises
        ------
        InvalidArgumentError
            No session has this name, or the call is outside :meth:`setup`.
        """
        if self._known is None:
            raise InvalidArgumentError(
                f"App.model must be called in setup(), got a call outside it in application {self.name!r}."
            )
        if name not in self._known:
            raise InvalidArgumentError(
                f"name must be a deployed session, got {name!r} in application {self.name!r}"
                f"{nearest(str(name), self._known) or '.'} Deploy the models of an application before it."
            )
        return ModelHandler(self, name)

    def prepare(self, known: Collection[str]) -> None:
        """Run :meth:`setup` with the names of the deployed sessions.

        Parameters
        ----------
        known : collection of str
            Names of the deployed sessions.
        """
        self._known = known
        try:
            self.setup()
        finally:
            self._known = None
