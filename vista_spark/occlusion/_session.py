"""Explainer session: a network that stays open between requests for explanations."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from udfs.driver import hint_options, task_slots, validate_arguments
from udfs.handlers import framework
from udfs.images import decode, open_rgb, picture_geometry
from udfs.node import check_device
from udfs.occlusion import TargetError, open_occluder
from vista_spark import roster
from vista_spark.errors import ExplanationCancelledError, InvalidArgumentError
from vista_spark.network import has_random_weights, network, warn_of_random_weights
from vista_spark.occlusion._base_explanation import notes_of
from vista_spark.occlusion._checks import check_explainable
from vista_spark.occlusion._cluster_places import ClusterComputation
from vista_spark.occlusion._explanation import Explanation, shown_image
from vista_spark.occlusion._monitor import Monitor
from vista_spark.occlusion._options import ImageKeywords, OcclusionOptions
from vista_spark.occlusion._settings import color_fill, occlusion_grid, occlusion_settings, with_content
from vista_spark.occlusion._validation import as_image, read_integer, read_integers
from vista_spark.occlusion._view_cache import ViewCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.images import PictureGeometry
    from udfs.occlusion import Occlusion
    from vista_spark.network import Network
    from vista_spark.occlusion._explanation import ImageSource
    from vista_spark.roster import ModelCard

__all__ = ["ExplainerSession", "open_explainer"]

# Jobs of a heat map with callbacks, where a cluster computes it.
_ROUNDS = 4

# Default number of targets of explain_targets.
_TOP = 5

# Default stride of explain_sizes: at most the smallest patch.
_STRIDE = 8

# Seconds between two checks of whether a waiting request is cancelled.
_POLL = 0.05


class ExplainerSession:
    """Open network that explains images one after another. Made by :func:`open_explainer`, which has the parameters.

    The network is loaded and traced once. The views of the last images stay in memory, so that another region, patch or
    target of the same image runs nothing twice. Requests of several threads are computed one after the other.
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
            preprocessing = preprocessing.with_size(read_integer("image_size", image_size, 1))
        self._preprocessing = preprocessing
        self._weights = self._card.weights if weights is None else weights
        self._image_size, self._seed, self._spark = image_size, read_integer("seed", seed, 0), spark
        self._device = check_device(device)
        self._views = ViewCache(read_integer("view_bytes", view_bytes, 0))
        self._framework = framework(self._card.framework)
        self._lock, self._requests = threading.RLock(), set[threading.Event]()
        self._closed = False
        self._run_seconds: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @hint_options(ImageKeywords)
    def explain(
        self, image: ImageSource, options: OcclusionOptions | None = None, **keywords: Unpack[ImageKeywords]
    ) -> Explanation:
        """Explain an image.

        Parameters
        ----------
        image : bytes, path or array
            Image, as for :func:`vista_spark.explain_image`.
        options : OcclusionOptions, optional
            Options of the heat map.
        **keywords
            Fields of :class:`vista_spark.OcclusionOptions`; they replace those of `options`.

        Returns
        -------
        Explanation
            Heat map of the image.

        Raises
        ------
        InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
            As :func:`vista_spark.explain_image`; or the session is closed.
        ExplanationCancelledError
            :meth:`cancel` was called, or the event `cancel` is set.
        """
        options = _options(options, **keywords)
        ((explanation,),) = self._answers(image, [options], [options.target])
        return explanation

    @hint_options(ImageKeywords, without=("patch_size",))
    def explain_sizes(
        self,
        image: ImageSource,
        options: OcclusionOptions | None = None,
        *,
        patch_sizes: Sequence[int] = (8, 16, 32),
        **keywords: Unpack[ImageKeywords],
    ) -> tuple[Explanation, ...]:
        """Explain an image by patches of several sizes; see :func:`vista_spark.explain_image_sizes`."""
        sizes = read_integers("patch_sizes", patch_sizes, 1)
        if not sizes:
            raise InvalidArgumentError("patch_sizes must have at least one size, got none")
        if options is None:
            keywords.setdefault("stride", _STRIDE)
        keywords["patch_size"] = sizes[0]
        first = _options(options, **keywords)
        requests = [first, *(replace(first, patch_size=size) for size in sizes[1:])]
        return tuple(explanation for (explanation,) in self._answers(image, requests, [first.target]))

    @hint_options(ImageKeywords, without=("target",))
    def explain_targets(
        self,
        image: ImageSource,
        options: OcclusionOptions | None = None,
        *,
        targets: Sequence[int] | None = None,
        top: int | None = None,
        **keywords: Unpack[ImageKeywords],
    ) -> tuple[Explanation, ...]:
        """Explain several targets from one pass over the places; see :func:`vista_spark.explain_image_targets`."""
        if targets is not None and top is not None:
            raise InvalidArgumentError(
                f"targets={targets!r} and top={top!r} exclude each other: the first names the elements, the other "
                "counts the largest; leave one out"
            )
        wanted: int | tuple[int, ...] = read_integer("top", _TOP if top is None else top, 1)
        if targets is not None:
            wanted = read_integers("targets", targets)
        if wanted == ():
            raise InvalidArgumentError("targets must have at least one element, got none; leave it out for the largest")
        request = replace(_options(options, **keywords), target=None)
        (explanations,) = self._answers(image, [request], wanted)
        return explanations

    @property
    def image_size(self) -> int:
        """Height and width of the network's input, in pixels."""
        return int(self._preprocessing.crop)

    def predict_seconds(self, options: OcclusionOptions, *, measure: bool = False) -> float:
        """Predict the seconds of a heat map before it is computed, from its FLOPs and the time of a run.

        Parameters
        ----------
        options : OcclusionOptions
            Options of the heat map, whose region is in pixels of the network's input.
        measure : bool
            Measure some places of an empty image for about a second, after the request in progress. Default false: use
            the time of a run of the whole network, although batches of small updates are less efficient.

        Returns
        -------
        float
            Seconds for all places and their verification, also in the approximate mode, which often stops early.

        Raises
        ------
        InvalidArgumentError, optimizer.occlusion.PatchError
            As :func:`vista_spark.explain_image`.
        """
        check_explainable(self._card, {options.mode})
        extents, fill = (self.image_size,) * 2, color_fill(options.patch_color, self._preprocessing)
        occlusion_grid(options, extents)
        occlusion = occlusion_settings(options, self._traced, extents, fill, incremental=self._framework.incremental)
        occluder = open_occluder(self._framework, self._ready, occlusion)
        run = self._run_seconds or 0.0
        place = run
        if measure:
            with self._lock:
                place = occluder.measured_pace().run_seconds or run
        return occluder.pace().work * place + len(occluder.places_again) * run

    def geometry(self, image: bytes | str | os.PathLike[str]) -> PictureGeometry:
        """Return the relation of a photograph's pixels to those of the network's input.

        Parameters
        ----------
        image : bytes or path
            Photograph.

        Raises
        ------
        InvalidArgumentError
            The image is an array, which is the network's input already.
        udfs.images.ImageError
            The image cannot be read.
        """
        if isinstance(image, np.ndarray):
            raise InvalidArgumentError(
                "image must be bytes or a path, got an array, which is the network's input and no photograph"
            )
        photograph = open_rgb(image)
        return picture_geometry((photograph.height, photograph.width), self._preprocessing)

    def cancel(self) -> int:
        """Cancel the request in progress and those that wait for it, from any thread.

        Each of them raises ``ExplanationCancelledError`` after the batch in progress.

        Returns
        -------
        int
            Number of cancelled requests.
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
        """Load, trace and run the network now instead of at the first request."""
        with self._lock:
            _ = self._traced.graph  # measured when it is first read
            self._warm_up()
        return self

    def _answers(
        self, image: Any, requests: Sequence[OcclusionOptions], targets: Sequence[int | None] | int
    ) -> tuple[tuple[Explanation, ...], ...]:
        """Explain an image once per request, for some targets or a number of the largest: by request, then target."""
        check_explainable(self._card, {options.mode for options in requests})
        geometry = None if requests[0].coordinates == "input" else self.geometry(image)
        if geometry is not None:
            requests = [options.in_input(geometry) for options in requests]
        extents = (self._preprocessing.crop,) * 2
        for options in requests:
            occlusion_grid(options, extents)
        fill = color_fill(requests[0].patch_color, self._preprocessing)
        pixels = decode(as_image(image), self._preprocessing)
        axes = (1, 2) if self._preprocessing.layout == "NCHW" else (0, 1)
        requests = [with_content(options, pixels, axes) for options in requests]
        with self._turn(requests[0]) as is_cancelled:
            queries = [_Query(pixels, options, targets, geometry, is_cancelled) for options in requests]
            occlusions = [
                occlusion_settings(options, self._traced, extents, fill, incremental=self._framework.incremental)
                for options in requests
            ]
            return tuple(self._answer(query, occlusion) for query, occlusion in zip(queries, occlusions, strict=True))

    @contextmanager
    def _turn(self, options: OcclusionOptions) -> Iterator[Callable[[], bool]]:
        """Wait for the requests before; yield a function that returns whether this request is cancelled."""
        cancelled, requests = threading.Event(), self._requests

        def is_cancelled() -> bool:
            return cancelled.is_set() or (options.cancel is not None and options.cancel.is_set())

        requests.add(cancelled)
        try:
            while not self._lock.acquire(timeout=_POLL):
                if is_cancelled():
                    raise ExplanationCancelledError
            try:
                if self._closed:
                    raise InvalidArgumentError("the session is closed; open another one with open_explainer")
                if is_cancelled():
                    raise ExplanationCancelledError
                yield is_cancelled
            finally:
                self._lock.release()
        finally:
            requests.discard(cancelled)

    def _answer(self, query: _Query, occlusion: Occlusion) -> tuple[Explanation, ...]:
        """Explain an image by one patch."""
        options, pixels = query.options, query.pixels
        occluder = open_occluder(self._framework, self._ready, occlusion)
        cluster = None if self._spark is None else self._use_cluster(occlusion, options)
        pace = occluder.pace()
        if options.on_estimate is not None or options.on_progress is not None:
            self._warm_up()
        if cluster is not None and options.on_estimate is not None:
            pace.assume(cluster.estimate_run_seconds(pace.work))
        started = time.perf_counter()
        opened = self._views.get(pixels, "bfloat16" if occlusion.in_bfloat16 else "float32", occluder.opened)
        if cluster is None and self._run_seconds is not None:
            pace.assume(self._run_seconds)
        monitor = Monitor(
            pace,
            options,
            extra_seconds=(self._run_seconds or 0.0) * len(occluder.places_again),
            at_once=cluster is not None,
            single=query.is_single,
            started=started,
            is_cancelled=query.is_cancelled,
        )
        random = has_random_weights(self._card, self._weights)
        usual = None if random else self._card.class_names
        names = roster.fitting_class_names(options.class_names, usual, occluder.settle(opened).size)
        targets = occluder.largest(opened, query.targets) if isinstance(query.targets, int) else query.targets
        try:
            maps = occluder.heat_maps(opened, targets, monitor, cluster, coarse_first=options.is_watched)
        except TargetError as error:
            raise InvalidArgumentError(str(error)) from None
        seconds = time.perf_counter() - started
        picture = shown_image(pixels, self._preprocessing)
        return tuple(
            Explanation(
                heat.values, occlusion.grid, heat.target, heat.predicted, heat.probability, occlusion.mode,
                occluder.theoretical_speedup, seconds, picture, score=heat.score, verified=heat.verified,
                difference=heat.difference, likeness=heat.likeness, computed=heat.computed,
                notes=notes_of(self._framework, occlusion, occluder), top=heat.top,
                class_names=names, model=self._card.name, has_random_weights=random, geometry=query.geometry,
            )
            for heat in maps
        )  # fmt: skip

    def _warm_up(self) -> None:
        """Run the network twice, unless it has run: the first run is slow, the second is timed."""
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

    def _use_cluster(self, occlusion: Occlusion, options: OcclusionOptions) -> ClusterComputation:
        """Prepare the computation of a heat map's places by the tasks of the cluster."""
        spark: Any = self._spark
        watched = (options.on_update, options.on_progress, options.cancel)
        rounds = 1 if all(each is None for each in watched) else _ROUNDS
        source = self._net.shipped(spark).source
        return ClusterComputation(spark, source, occlusion, task_slots(spark), rounds, self._device)

    @cached_property
    def _net(self) -> Network:
        """The network from a file of weights, as workers read it."""
        if self._weights is not None and not isinstance(self._weights, str | os.PathLike):
            raise InvalidArgumentError(
                f"weights must be a file with spark, got a {type(self._weights).__name__}; workers read them, so save "
                "them and pass the path or URI"
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


@dataclass(frozen=True, slots=True)
class _Query:
    """Request for the heat maps of one image by one patch."""

    pixels: NDArray[np.float32]
    options: OcclusionOptions
    targets: Sequence[int | None] | int
    geometry: PictureGeometry | None
    is_cancelled: Callable[[], bool]

    @property
    def is_single(self) -> bool:
        """True if callbacks receive one heat map rather than an array of all targets' maps."""
        return not isinstance(self.targets, int) and list(self.targets) == [self.options.target]


@validate_arguments
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
    """Open a network for several requests for explanations, such as those of a web page.

    Parameters
    ----------
    model, weights, image_size, spark, device
        Network and where it runs, as for :func:`vista_spark.explain_image`.
    seed : int
        Seed of random weights. Default 0.
    view_bytes : int
        Memory for the views of the last images; those of one image stay regardless of their size. Default 512 MiB,
        about 15 images of MobileNetV2.

    Returns
    -------
    ExplainerSession
        Context manager that frees the network and the views at its end.

    Raises
    ------
    InvalidArgumentError
        The model reads no images, the device is unknown, or with `spark`, the weights are not a file.
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


def _options(options: OcclusionOptions | None, **keywords: Unpack[ImageKeywords]) -> OcclusionOptions:
    return OcclusionOptions(**keywords) if options is None else replace(options, **keywords)
