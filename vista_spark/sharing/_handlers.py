"""``Handlers``: applications registered by input type, with the models that process it and the handlers of results."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optimizer.errors import nearest
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vista_spark.serving import Api, Model
    from vista_spark.sharing._model import SharedModel

    Handler = Callable[[str, Future["Prediction"]], object]

__all__ = ["Handlers", "Prediction"]


class Prediction(NamedTuple):
    """Predicted label of an attribute, and its probability."""

    label: Any
    probability: float


@dataclass(frozen=True, slots=True)
class _Attribute:
    model: Model
    classes: Sequence[Any]


class Handlers:
    """Registry of applications: input type, catalog of models, and handler of results (MCDNN, section 4.3.3).

    An input is sent to all models that are registered for its type. Attributes of one shared model pass the trunk once,
    and an attribute that several applications registered is asked once. Each handler is called with each of its
    attributes as soon as the result arrives.

    Parameters
    ----------
    api : Api
        Running server that serves the sessions of the catalogs.

    Examples
    --------
    >>> from concurrent.futures import wait
    >>> from vista_spark.sharing import Handlers
    >>> with server.start() as api:  # doctest: +SKIP
    ...     handlers = Handlers(api)
    ...     handlers.register("image", shared, lambda name, answer: print(name, answer.result().label))
    ...     wait(handlers.dispatch("image", photograph).values())
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._attributes: dict[str, dict[str, _Attribute]] = {}
        self._handlers: dict[str, list[tuple[tuple[str, ...], Handler]]] = {}

    def register(self, input_type: str, catalog: SharedModel, handler: Handler) -> None:
        """Register an application.

        Parameters
        ----------
        input_type : str
            Name of the inputs that it processes, such as ``"image"``.
        catalog : SharedModel
            Model whose sessions are deployed.
        handler : function
            Called as ``handler(attribute, answer)`` in any thread. ``answer.result()`` is a :class:`Prediction`, or
            raises the :class:`udfs.serving.RequestError` of the attribute. The log has an exception of the handler.

        Raises
        ------
        InvalidArgumentError
            The handler is not callable, or another catalog has an attribute of this name for the input type.
        udfs.serving.NoSuchModelError
            A session of the catalog is not deployed.
        """
        if not isinstance(input_type, str) or not input_type:
            raise InvalidArgumentError(f"input_type must be a non-empty str, got {input_type!r}.")
        if not callable(handler):
            raise InvalidArgumentError(f"handler must be a function of an attribute and a future, got {handler!r}.")
        known = self._attributes.get(input_type, {})
        added = {}
        for attribute in catalog.attributes:
            other = known.get(attribute.name)
            if other is not None and tuple(other.classes) != attribute.classes:
                raise InvalidArgumentError(
                    f"catalog must have the classes {list(other.classes)} for {attribute.name!r}, as the catalog that "
                    f"is registered for {input_type!r}, got {list(attribute.classes)}. Rename the label column."
                )
            added[attribute.name] = _Attribute(self._api[attribute.name], attribute.classes)
        self._attributes[input_type] = {**known, **added}
        self._handlers.setdefault(input_type, []).append((tuple(added), handler))

    def dispatch(
        self, input_type: str, record: Any, *, timeout_ms: float | None = None
    ) -> dict[str, Future[Prediction]]:
        """Send an input to all models that are registered for its type.

        Parameters
        ----------
        input_type : str
            Registered input type.
        record : bytes, path or array
            Input, as for :meth:`vista_spark.serving.Model.execute`.
        timeout_ms : float, optional
            Milliseconds until the deadline. Default: the SLO of each session.

        Returns
        -------
        dict of str to Future
            Future of the prediction by attribute. The handlers are called as well.

        Raises
        ------
        InvalidArgumentError
            No application is registered for the input type.
        udfs.serving.BadRequestError
            The models do not accept the record.
        """
        if input_type not in self._attributes:
            names = ", ".join(self._attributes) or "none yet"
            raise InvalidArgumentError(
                f"input_type must be registered ({names}), got {input_type!r}"
                f"{nearest(str(input_type), self._attributes) or '.'} Call register first."
            )
        answers: dict[str, Future[Prediction]] = {name: Future() for name in self._attributes[input_type]}
        for attributes, handler in self._handlers[input_type]:
            for name in attributes:
                answers[name].add_done_callback(partial(handler, name))
        for name, attribute in self._attributes[input_type].items():
            asked = attribute.model.execute(record, timeout_ms=timeout_ms)
            answers[name].add_done_callback(partial(_cancel, asked))
            asked.add_done_callback(partial(_predict, attribute.classes, answers[name]))
        return answers


def _cancel(asked: Future[Any], answer: Future[Prediction]) -> None:
    """Cancel the request of a cancelled prediction."""
    if answer.cancelled():
        asked.cancel()


def _predict(classes: Sequence[Any], answer: Future[Prediction], asked: Future[Any]) -> None:
    """Settle the future of a prediction by the scores of the classes."""
    with suppress(InvalidStateError):  # it was cancelled
        if asked.cancelled():
            answer.cancel()
        elif (error := asked.exception()) is not None:
            answer.set_exception(error)
        else:
            scores = np.asarray(asked.result(), np.float64)
            shares = np.exp(scores - scores.max())
            best = int(scores.argmax())
            answer.set_result(Prediction(classes[best], float(shares[best] / shares.sum())))
