"""A network that stays open between requests for explanations: what a page in a browser calls."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from udfs.driver import hint_keywords, task_slots
from udfs.handlers import framework
from udfs.images import decode, open_rgb, picture_geometry
from udfs.node import check_device
from udfs.occlusion import TargetError, open_occluder
from vista_spark import roster
from vista_spark.errors import ExplanationCancelledError, InvalidArgumentError
from vista_spark.network import has_random_weights, network, warn_of_random_weights
from vista_spark.occlusion._arguments import as_image, whole_number, whole_numbers
from vista_spark.occlusion._base import notes_of
from vista_spark.occlusion._checks import check_explainable
from vista_spark.occlusion._cluster import Spread
from vista_spark.occlusion._explanation import Explanation, shown_image
from vista_spark.occlusion._options import color_fill
from vista_spark.occlusion._progress import Monitor
from vista_spark.occlusion._request import Request, takes_request
from vista_spark.occlusion._view_cache import ViewCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.images import PictureGeometry
    from udfs.occlusion import Occlusion
    from vista_spark.network import Network
    from vista_spark.roster import ModelCard

__all__ = ["ExplainerSession", "open_explainer"]

# Jobs of a heat map that is watched, where a cluster computes it.
_ROUNDS = 4

# Targets of an explanation of the largest ones.
_TOP = 5

# Seconds between two looks at whether a request that waits for another one is cancelled.
_LOOK = 0.05


class ExplainerSession:
    """A network that explains one picture after another. Made by :func:`open_explainer`, which documents the arguments.

    The network is loaded and traced once. The views of the last pictures stay in memory, so that another region, patch
    or target of the same picture runs nothing twice. Requests of several threads are computed one after the other.
    """

    def __init__(
        self,
        model: str | ModelCard,
        weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
        *,
        image_size: int | None = None,
        seed: int = 0,
        spark: SparkSession | None = None,
        device: str = "auto",
        view_bytes: int = 2**29,
    ) -> None:
        self._card = roster.of(model, image_size=image_size)
        check_explainable(self._card, {"naive"})
        preprocessing: Any = self._card.preprocessing
        if image_size is not None:
            preprocessing = preprocessing.with_size(whole_number("image_size", image_size, 1))
        self._preprocessing = preprocessing
        self._weights = self._card.weights if weights is None else weights
        self._image_size, self._seed, self._spark = image_size, whole_number("seed", seed, 0), spark
        self._device = check_device(device)
        self._views = ViewCache(whole_number("view_bytes", view_bytes, 0))
        self._framework = framework(self._card.framework)
        self._lock, self._requests = threading.RLock(), set[threading.Event]()
        self._closed = False
        self._run_seconds: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @hint_keywords
    @takes_request()
    def explain(
        self, image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor, **options: Any
    ) -> Explanation:
        """Explain an image.

        Parameters
        ----------
        image : bytes, path or array
            As :func:`udfs.images.decode` reads it; a tensor of torch is taken for an array.
        **options
            The keywords of :func:`vista_spark.explain_image`, but for those of :func:`open_explainer`.

        Raises
        ------
        InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
            As :func:`vista_spark.explain_image`; or the session is closed.
        ExplanationCancelledError
            :meth:`cancel` was called, or the event `cancel` set.
        """
        request = Request(**options)
        ((explanation,),) = self.answers(image, request, [request.patch_size], [request.target])
        return explanation

    @hint_keywords
    @takes_request("patch_size")
    def explain_sizes(
        self,
        image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
        *,
        patch_sizes: Sequence[int] = (8, 16, 32),
        stride: int = 8,
        **options: Any,
    ) -> tuple[Explanation, ...]:
        """Explain an image by patches of several sizes; see :func:`vista_spark.explain_image_sizes`."""
        sizes = whole_numbers("patch_sizes", patch_sizes)
        if not sizes:
            raise InvalidArgumentError("patch_sizes=(): no size of a patch")
        request = Request(stride=stride, **options)
        return tuple(explanation for (explanation,) in self.answers(image, request, sizes, [request.target]))

    @hint_keywords
    @takes_request("target")
    def explain_targets(
        self,
        image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
        *,
        targets: Sequence[int] | None = None,
        top: int | None = None,
        **options: Any,
    ) -> tuple[Explanation, ...]:
        """Explain several targets from one pass over the places; see :func:`vista_spark.explain_image_targets`."""
        if targets is not None and top is not None:
            raise InvalidArgumentError(
                f"targets={targets!r} and top={top!r}: the first names the elements, the other counts the largest; "
                "leave one out"
            )
        wanted: int | tuple[int, ...] = whole_number("top", _TOP if top is None else top, 1)
        if targets is not None:
            wanted = whole_numbers("targets", targets)
        if wanted == ():
            raise InvalidArgumentError("targets=(): no target; leave it out for the largest ones")
        request = Request(**options)
        (explanations,) = self.answers(image, request, [request.patch_size], wanted)
        return explanations

    def geometry(self, image: bytes | str | os.PathLike[str]) -> PictureGeometry:
        """Tell how the pixels of a photograph and of the network's input correspond.

        Parameters
        ----------
        image : bytes or path

        Raises
        ------
        InvalidArgumentError
            The image is an array, which is the network's input already.
        udfs.images.ImageError
            The image cannot be read.
        """
        if isinstance(image, np.ndarray):
            raise InvalidArgumentError("an array is the network's input itself, of which there is no photograph")
        photograph = open_rgb(image)
        return picture_geometry((photograph.height, photograph.width), self._preprocessing)

    def cancel(self) -> int:
        """Cancel the request that is computed and those that wait for it; may be called from any thread.

        Each of them raises ``ExplanationCancelledError`` after the batch that is being computed.

        Returns
        -------
        int
            Number of requests.
        """
        cancelled = list(self._requests)
        for event in cancelled:
            event.set()
        return len(cancelled)

    def close(self) -> None:
        """Cancel all requests, and free the network and the views. Closing twice does nothing."""
        self._closed = True
        self.cancel()
        with self._lock:
            self._views.clear()
            for name in ("_traced", "_ready", "_net"):
                self.__dict__.pop(name, None)

    def open(self) -> Self:
        """Load, trace and run the network now, rather than for the first request."""
        with self._lock:
            _ = self._traced.graph  # measured when it is first read
            self._warm_up()
        return self

    def answers(
        self, image: Any, request: Request, patch_sizes: Sequence[int], targets: Sequence[int | None] | int
    ) -> tuple[tuple[Explanation, ...], ...]:
        """Explain an image with patches of some sizes, each for some targets, or for so many of the largest.

        Parameters
        ----------
        image
            As for :meth:`explain`.
        request : Request
        patch_sizes : sequence of int
        targets : sequence of int or None, or int

        Returns
        -------
        tuple of tuple of Explanation
            By size, then by target.
        """
        geometry = None if request.coordinates == "input" else self.geometry(image)
        options = [request.options(patch_size, geometry) for patch_size in patch_sizes]
        wanted = targets if isinstance(targets, int) else [_element(target) for target in targets]
        check_explainable(self._card, {option.mode for option in options})
        extents = (self._preprocessing.crop,) * 2
        for option in options:
            option.grid(extents)
        fill = color_fill(request.patch_color, self._preprocessing)
        pixels = decode(as_image(image), self._preprocessing)
        axes = (1, 2) if self._preprocessing.layout == "NCHW" else (0, 1)
        options = [option.over(pixels, axes) for option in options]
        single = not isinstance(wanted, int) and wanted == [_element(request.target)]
        with self._turn(request) as cancelled:
            own = self._framework
            occlusions = [
                option.occlusion(self._traced, extents, fill, incremental=own.incremental) for option in options
            ]
            answers = []
            for occlusion in occlusions:
                asked = _Asked(request=request, targets=wanted, single=single, cancelled=cancelled)
                answers.append(self._answer(pixels, occlusion, asked, geometry))
            return tuple(answers)

    @contextmanager
    def _turn(self, request: Request) -> Iterator[Callable[[], bool]]:
        """Wait for the requests before, and tell from then on whether this one is cancelled."""
        own, events = threading.Event(), self._requests

        def cancelled() -> bool:
            return own.is_set() or (request.cancel is not None and request.cancel.is_set())

        events.add(own)
        try:
            while not self._lock.acquire(timeout=_LOOK):
                if cancelled():
                    raise ExplanationCancelledError
            try:
                if self._closed:
                    raise InvalidArgumentError("the session is closed: open another one with open_explainer")
                if cancelled():
                    raise ExplanationCancelledError
                yield cancelled
            finally:
                self._lock.release()
        finally:
            events.discard(own)

    def _answer(
        self, pixels: NDArray[np.float32], occlusion: Occlusion, asked: _Asked, geometry: PictureGeometry | None
    ) -> tuple[Explanation, ...]:
        """Explain pixels by one patch."""
        request, own = asked.request, self._framework
        occluder = open_occluder(own, self._ready, occlusion)
        spread = None if self._spark is None else self._spread(occlusion, request)
        pace = occluder.pace()
        if request.on_estimate is not None or request.on_progress is not None:
            self._warm_up()
        if spread is not None and request.on_estimate is not None:
            pace.assume(spread.run_seconds(pace.work))
        started = time.perf_counter()
        opened = self._views.get(pixels, "bfloat16" if occlusion.in_bfloat16 else "float32", occluder.opened)
        if spread is None and self._run_seconds is not None:
            pace.assume(self._run_seconds)
        monitor = Monitor(
            pace,
            at_once=spread is not None,
            single=asked.single,
            beside=(self._run_seconds or 0.0) * len(occluder.places_again),
            started=started,
            on_update=request.on_update,
            on_estimate=request.on_estimate,
            on_progress=request.on_progress,
            cancelled=asked.cancelled,
        )
        random = has_random_weights(self._card, self._weights)
        usual = None if random else self._card.class_names
        names = roster.fitting_class_names(request.class_names, usual, occluder.settle(opened).size)
        targets = occluder.largest(opened, asked.targets) if isinstance(asked.targets, int) else asked.targets
        try:
            maps = occluder.heat_maps(opened, targets, monitor, spread, coarse_first=request.is_watched)
        except TargetError as error:
            raise InvalidArgumentError(f"target={targets[0] if len(targets) == 1 else targets!r}: {error}") from None
        seconds = time.perf_counter() - started
        picture = shown_image(pixels, self._preprocessing)
        return tuple(
            Explanation(
                heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, occlusion.mode,
                occluder.theoretical_speedup, seconds, picture, score=heat.score, verified=heat.verified,
                difference=heat.difference, likeness=heat.likeness, computed=heat.computed,
                notes=notes_of(own, occlusion.mode, occluder), top=heat.top,
                class_names=names, model=self._card.name, has_random_weights=random, geometry=geometry,
            )
            for heat in maps
        )  # fmt: skip

    def _warm_up(self) -> None:
        """Run the network twice, unless it has run: the first run is slow, the second tells what a run takes."""
        if self._run_seconds is not None:
            return
        model = self._ready.fused() if self._framework.incremental else self._ready
        feeds = {
            name: np.zeros((1, *spec.shape), np.float32)
            for name, spec in zip(model.graph.inputs, self._preprocessing.inputs, strict=True)
        }
        for _ in range(2):
            started = time.perf_counter()
            model.run(feeds, list(model.graph.outputs))
            self._run_seconds = time.perf_counter() - started

    def _spread(self, occlusion: Occlusion, request: Request) -> Spread:
        """Share the places of a heat map out over the tasks of the cluster."""
        spark: Any = self._spark
        watched = (request.on_update, request.on_progress, request.cancel)
        rounds = 1 if all(each is None for each in watched) else _ROUNDS
        return Spread(spark, self._net.shipped(spark).source, occlusion, task_slots(spark), rounds, self._device)

    @cached_property
    def _net(self) -> Network:
        """The network from a file of weights, as workers read it."""
        if self._weights is not None and not isinstance(self._weights, str | os.PathLike):
            raise InvalidArgumentError(
                f"weights of type {type(self._weights).__name__}: with spark, workers read them from a file; save "
                "them, and pass its path or URI"
            )
        weights = None if self._weights is None else os.fspath(self._weights)
        return network(self._card, weights, self._seed, self._image_size)

    @cached_property
    def _traced(self) -> Any:
        """The network, opened into layers."""
        warn_of_random_weights(self._card, self._weights, self._seed)
        if self._spark is not None:
            return self._net.traced
        loaded = roster.load(self._card, self._weights, seed=self._seed)
        return self._framework.trace(loaded, list(self._preprocessing.inputs), device=self._device)

    @cached_property
    def _ready(self) -> Any:
        """The network, ready to run."""
        return self._traced.prepare(self._framework.threads())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """One request, the targets it is about, and whether anybody waits for the answer."""

    request: Request
    targets: Sequence[int | None] | int
    single: bool
    cancelled: Callable[[], bool]


@hint_keywords
def open_explainer(
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    image_size: int | None = None,
    seed: int = 0,
    spark: SparkSession | None = None,
    device: str = "auto",
    view_bytes: int = 2**29,
) -> ExplainerSession:
    """Open a network for several requests for explanations, as those of a page in a browser.

    Parameters
    ----------
    model, weights, image_size, seed, spark, device
        As for :func:`vista_spark.explain_image`.
    view_bytes : int
        Memory for the views of the last pictures; those of one picture stay whatever they need. Default 512 MiB, about
        15 pictures of MobileNetV2.

    Returns
    -------
    ExplainerSession
        A context manager: at its end the network and the views are freed.

    Raises
    ------
    InvalidArgumentError
        A model that reads no images; an unknown device; with `spark`, weights that are not a file.
    udfs.handlers.DeviceError
        This process has no such device.
    udfs.weights.WeightsError
        The weights do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> with open_explainer("squeezenet1_1", image_size=64) as explainer:
    ...     whole = explainer.explain(picture, stride=16)
    ...     part = explainer.explain(picture, stride=4, region=((16, 48), (16, 48)))  # runs the network once for both
    >>> whole.heat_map.shape, part.heat_map.shape
    ((4, 4), (5, 5))
    """
    session = ExplainerSession(
        model, weights, image_size=image_size, seed=seed, spark=spark, device=device, view_bytes=view_bytes
    )
    return session.open()


def _element(target: Any) -> int | None:
    return None if target is None else whole_number("target", target)
