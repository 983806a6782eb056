"""Applications: code that asks several models within one deadline, as its user writes it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from optimizer.arguments import one_of, real
from optimizer.errors import nearest
from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from concurrent.futures import Future

__all__ = ["CURRENT", "App", "Calls", "ModelHandler"]

_IMAGE = TensorSpec("image", "bytes", (-1,))


class Calls(Protocol):
    """Whoever answers an application's calls."""

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Have a model answer for one record."""


# Of the request that this thread runs, whichever server it came to.
CURRENT: ContextVar[Calls | None] = ContextVar("calls", default=None)


class ModelHandler:
    """A model as an application calls it, of :meth:`App.model` (Figure 3.7).

    Parameters
    ----------
    app : App
    name : str
    """

    def __init__(self, app: App, name: str) -> None:
        self._app = app
        self.name = name

    def execute(self, record: Any) -> Future[Any]:
        """Have the model answer for one record, within the part of the deadline that is the model's.

        Parameters
        ----------
        record : bytes, path, str, array or mapping
            As of :meth:`vista_spark.serving.Model.execute`.

        Returns
        -------
        concurrent.futures.Future
            Returned at once: calls whose results are read later run beside each other.

        Raises
        ------
        udfs.serving.RequestError
            A record that the model does not take, or no time is left.
        """
        calls = CURRENT.get() or self._app.calls
        if calls is None:
            raise InvalidArgumentError(f"application {self._app.name!r} is not deployed: Server.deploy(...) does it")
        return calls.execute(self.name, record)


class App:
    """An application: a class of yours whose :meth:`process` asks deployed models (Figures 3.7 to 3.9).

    Which calls depend on which, and how often, is found by running `process` on samples, and followed in the traffic;
    the deadline is split between the models so that the fewest backends are busy.

    Parameters
    ----------
    name : str
        By which callers ask for it, as for a session.
    samples : sequence
        Typical requests, at least one: as callers give them to ``api[name].execute``.
    slo_ms : float
        Milliseconds from a request to its answer, all calls included. Default 500.
    rate : float
        Requests per second that are expected. Default 1.
    split : {"node", "stage"}
        Whether each model has a budget of its own (default), or all of one stage the same, as in the thesis.
    version : str
        What takes the place of an application while the server runs has another one. Default ``"1"``.

    Attributes
    ----------
    inputs : sequence of TensorSpec
        Of a request; yours as a class attribute. Default: one encoded image, ``"image"``.
    outputs : sequence of TensorSpec
        Of an answer. By default what it gives for the samples.

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed.

    Examples
    --------
    >>> class Both(App):
    ...     def setup(self):
    ...         self.cats, self.dogs = self.model("cats"), self.model("dogs")
    ...
    ...     def process(self, request):
    ...         cats, dogs = self.cats.execute(request), self.dogs.execute(request)  # beside each other
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
            if not isinstance(text, str) or not text or "/" in text:
                raise InvalidArgumentError(f"{what}={text!r}: a text without a slash")
        if isinstance(samples, str | bytes | dict) or not len(samples):
            raise InvalidArgumentError(
                f"samples of application {name!r}: a list of at least one request; process() is run on them to see "
                "which models it calls"
            )
        real("slo_ms", slo_ms, 0, above=True)
        real("rate", rate, 0, above=True)
        one_of("split", split, ("node", "stage"))
        for what, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not all(isinstance(spec, TensorSpec) and spec.shape[:1] == (-1,) for spec in specs):
                raise InvalidArgumentError(
                    f"{what} of application {name!r}: {specs!r}: TensorSpecs of udfs.serving whose shapes begin with -1"
                )
        if not self.inputs:
            raise InvalidArgumentError(f"application {name!r} has no inputs: leave them out, or give one")
        self.name, self.version = name, version
        self.samples = tuple(samples)
        self.slo_ms, self.rate, self.split = float(slo_ms), float(rate), split
        self.calls: Calls | None = None
        self._known: Collection[str] | None = None

    def setup(self) -> None:
        """Ask for the models, once when the application is deployed; yours."""

    def process(self, request: Any) -> Any:
        """Answer a request; yours. Several requests run at a time, each in a thread of the server's process.

        Parameters
        ----------
        request : bytes, str, array or dict
            The input, or a mapping by name where there are several.

        Returns
        -------
        array or dict of str to array
            What numpy makes arrays of.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method process(self, request)")

    def model(self, name: str) -> ModelHandler:
        """Ask for a deployed model, in :meth:`setup`.

        Raises
        ------
        InvalidArgumentError
            No session of that name is deployed.
        """
        if self._known is None:
            raise InvalidArgumentError(f"application {self.name!r} asks for its models in setup()")
        if name not in self._known:
            raise InvalidArgumentError(
                f"application {self.name!r} asks for {name!r}, and no such session is deployed"
                f"{nearest(str(name), self._known)}: deploy its models first"
            )
        return ModelHandler(self, name)

    def prepare(self, known: Collection[str]) -> None:
        """Run :meth:`setup` with the names of the sessions that are deployed."""
        self._known = known
        try:
            self.setup()
        finally:
            self._known = None
