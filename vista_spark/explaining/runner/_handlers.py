"""Handlers of requests of the kinds ``explain``, ``explain_estimate`` and ``explain_networks``."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError, InvalidArgumentError, nearest
from udfs.images import open_rgb
from udfs.requests import RequestCancelled
from vista_spark.explaining.runner._documents import HeatMapRequest
from vista_spark.explaining.runner._heat_maps import Places, cells
from vista_spark.explaining.runner._networks import Networks
from vista_spark.occlusion import OcclusionOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from udfs.requests import RequestContext
    from vista_spark.occlusion import ExplainerSession, Explanation, Progress

__all__ = ["Explanations"]

# Seconds between two reports of a heat map; the first one is sent at once.
_PAUSE = 0.25

# Exponent of a further measurement in the factor between predicted and measured seconds.
_LEARNED = 0.5

# Likeliest classes in a document.
_CLASSES = 5


class Explanations:
    """Handlers of one pool: heat maps of images, estimates of their seconds, and the list of networks.

    Parameters
    ----------
    networks : Networks, optional
        Networks that may be explained. Default: the roster, with weights from the folder ``CEREBRO_WEIGHTS``.

    Examples
    --------
    >>> request = {"network": "squeezenet1_1", "patch": 32, "stride": 16, "mode": "naive"}
    >>> Explanations().estimate(request)["places"]
    169
    """

    def __init__(self, networks: Networks | None = None) -> None:
        self._networks = networks or Networks()
        self._factors: dict[tuple[Any, ...], float] = {}
        self._is_busy = False

    def networks(self, document: Mapping[str, Any] = {}, context: RequestContext | None = None) -> dict[str, Any]:
        """List the networks, and with ``{"network": name}`` the names of that network's classes."""
        with _invalid_arguments():
            result: dict[str, Any] = {"networks": self._networks.describe()}
            if document.get("network") is not None:
                request = HeatMapRequest.read({"network": document["network"]})
                result["class_names"] = list(self._networks.class_names(request.network))
            return result

    def estimate(self, document: Mapping[str, Any], context: RequestContext | None = None) -> dict[str, Any]:
        """Predict the seconds of a heat map before it is requested.

        The document is that of a heat map; a region needs its image.

        Raises
        ------
        InvalidArgumentError
            A value of the document is invalid.
        """
        request = HeatMapRequest.read(document)
        with _invalid_arguments():
            session = self._networks.open(request.network, context.searches if context else {})
            geometry = None
            if request.region is not None and context is not None:
                geometry = session.geometry(context.blob(request.image))
            places = Places(request, session.image_size, geometry)
            options = _options(request, places)
            if not self._is_busy and self._keys(request)[0] not in self._factors:
                # The first places of a new shape are slow.
                measured = min(session.predict_seconds(options, measure=True) for _ in range(2))
                self._factors[self._keys(request)[0]] = measured / session.predict_seconds(options)
            return {"predicted_s": round(self._predict(request, session, places), 3), "places": places.count}

    def explain(self, document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
        """Compute a heat map from coarse to fine, and report it after each batch.

        Raises
        ------
        InvalidArgumentError
            A value of the document is invalid, or the image is none.
        RequestCancelled
            The user has cancelled the request.
        """
        request = HeatMapRequest.read(document, with_image=True)
        with _invalid_arguments():
            image = context.blob(request.image)
            _check_image(image)
            session = self._networks.open(request.network, context.searches if context else {})
            places = Places(request, session.image_size, session.geometry(image))
            whole = _classes(session, image)
            target = _element(request.target, whole)
            if target != whole.predicted:
                whole = _classes(session, image, target)
            heat_map: dict[str, Any] = {
                **places.document(),
                "classes": [[whole.name_of(element), score, element] for element, score in whole.top[:_CLASSES]],
                "class": target,
                "class_name": whole.name_of(target),
                "probability": whole.probability,
                "score": whole.score,
                "has_random_weights": whole.has_random_weights,
                "predicted_s": round(self._predict(request, session, places), 3),
            }
            context.report({**heat_map, "values": [None] * places.count, "fraction": 0.0})
            watcher = _Watcher(context, heat_map)
            started = time.perf_counter()
            with self._busy():
                explanation = session.explain(image, _options(request, places, target), on_progress=watcher)
            measured = time.perf_counter() - started
            self._learn(request, measured / heat_map["predicted_s"] if heat_map["predicted_s"] else 1.0)
            return {
                **heat_map,
                "values": cells(explanation.heat_map),
                "fraction": 1.0,
                "mode": explanation.mode,
                "likeness": explanation.likeness,
                "notes": list(explanation.notes),
                "measured_s": round(measured, 3),
            }

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Measure nothing for estimates meanwhile."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _predict(self, request: HeatMapRequest, session: ExplainerSession, places: Places) -> float:
        """Predict the seconds by FLOPs, corrected by the last heat maps of the same network and mode."""
        return session.predict_seconds(_options(request, places)) * self._factor(request)

    def _factor(self, request: HeatMapRequest) -> float:
        """Return the factor of the same patch, else of any patch; Krypton, section 7.1.3, fits a line for each."""
        keys = self._keys(request)
        return next((self._factors[key] for key in keys if key in self._factors), 1.0)

    def _learn(self, request: HeatMapRequest, ratio: float) -> None:
        """Correct the factor by measured over predicted seconds: fully the first time, by half of it later."""
        factor = self._factor(request)
        for key in self._keys(request):
            self._factors[key] = factor * (ratio**_LEARNED if key in self._factors else ratio)

    @staticmethod
    def _keys(request: HeatMapRequest) -> tuple[tuple[Any, ...], ...]:
        network = str(request.network)
        return (network, request.mode, request.patch), (network, request.mode)


class _Watcher:
    """Reporter of progress, which ends a cancelled request between two batches."""

    def __init__(self, context: RequestContext, heat_map: dict[str, Any]) -> None:
        self._context, self._heat_map, self._last = context, heat_map, 0.0

    def __call__(self, progress: Progress) -> None:
        """Report the heat map so far."""
        self._context.check_cancelled()
        if time.perf_counter() - self._last < _PAUSE:
            return
        self._last = time.perf_counter()
        fraction = progress.done / progress.total if progress.total else 1.0
        self._context.report(
            {
                **self._heat_map,
                "values": cells(progress.heat_map),
                "fraction": round(fraction, 4),
                "seconds_left": round(progress.seconds_left, 3),
            }
        )


@contextmanager
def _invalid_arguments() -> Iterator[None]:
    """Report the errors of the library as invalid arguments: their messages have the remedy."""
    try:
        yield
    except (InvalidArgumentError, RequestCancelled):
        raise
    except CerebroError as error:
        raise InvalidArgumentError(str(error)) from error


def _check_image(image: bytes) -> None:
    try:
        open_rgb(image)
    except CerebroError as error:
        raise InvalidArgumentError(
            f"image must be a PNG, JPEG or similar file, got an unreadable one: {error}."
        ) from error


def _options(request: HeatMapRequest, places: Places, target: int | None = None) -> OcclusionOptions:
    return OcclusionOptions(
        patch_size=request.patch, stride=request.stride, mode=request.mode, region=places.region, target=target
    )


def _classes(session: ExplainerSession, image: bytes, target: int | None = None) -> Explanation:
    """Return the likeliest classes and the score of the target; the map has one place.

    It makes the views that the next map of the image reads.
    """
    side = min(16, session.image_size)
    return session.explain(image, patch_size=side, stride=side, region=((0, side), (0, side)), target=target, verify=0)


def _element(target: int | str | None, whole: Explanation) -> int:
    """Return the element of the score for a class by number or name."""
    if target is None:
        return whole.predicted
    names = list(whole.class_names)
    if isinstance(target, str):
        folded = [name.casefold() for name in names]
        if target.strip().casefold() in folded:
            return folded.index(target.strip().casefold())
        if not target.strip().isdecimal():
            remedy = nearest(target, names) or ". Use a number, or one of the names of the network's classes."
            raise InvalidArgumentError(f"class must be a class of the network, got {target!r:.80}{remedy}")
        target = int(target)
    return target
