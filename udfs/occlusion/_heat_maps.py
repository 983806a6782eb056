"""Base class of heat map computations: score, targets, and order of the places."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from udfs.occlusion._occlusion import HeatMap, TargetError
from udfs.occlusion._pace import Pace
from udfs.occlusion._place_order import coarse_to_fine
from udfs.occlusion._place_rounds import EveryPlace
from udfs.occlusion._sampling import spread_places
from udfs.occlusion._verification import Verification, places_to_verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.occlusion import UpdatePatches
    from udfs.handlers import TracedModel
    from udfs.occlusion._occlusion import Occlusion
    from udfs.occlusion._place_rounds import Rounds
    from udfs.occlusion._score import SettledScore

# A measurement of the pace ends after this many seconds.
_MEASURE = 1.0

__all__ = ["Elsewhere", "HeatMaps", "Values"]

Values: TypeAlias = "Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]"
"""Indices of a heat map, of shape (places, axes), with the targets' scores there, of shape (places, targets)."""

Elsewhere: TypeAlias = "Callable[[NDArray[np.float32], SettledScore, Sequence[int], NDArray[np.bool_]], Values]"
"""A function of pixels, a score, targets and places of the heat map that yields as :meth:`HeatMaps.values` does."""

# Elements of the whole image's score that a heat map names.
_TOP = 5


class HeatMaps(ABC):
    """Base class of heat map computations for images of one size and one prepared network.

    Raises
    ------
    udfs.occlusion.ScoreError
        The network's output has no such score.
    """

    def __init__(self, model: TracedModel, occlusion: Occlusion) -> None:
        self._model, self._occlusion = model, occlusion
        self._head = occlusion.score.check(model)

    patches: UpdatePatches

    @property
    @abstractmethod
    def places(self) -> int:
        """Number of places of the patch that are computed."""

    @abstractmethod
    def opened(self, pixels: NDArray[np.float32], others: Mapping[str, NDArray[Any]] | None = None) -> Any:
        """Run the network once over an image, with its other inputs by name, and keep the result for many places."""

    @abstractmethod
    def whole(self, image: Any) -> NDArray[Any]:
        """Return the network's output for an opened image without a patch, of shape (1, ...)."""

    @abstractmethod
    def values(self, image: Any, score: SettledScore, targets: Sequence[int], places: NDArray[np.bool_]) -> Values:
        """Cover some places of an opened image with the patch.

        Yields
        ------
        array of int64, of shape (places, axes)
            Indices of the heat map.
        array of float32, of shape (places, targets)
            Scores of the targets.
        """

    @abstractmethod
    def _results(self, image: Any, places: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yield as :meth:`values` does, with the network's outputs for scores."""

    @property
    def in_full(self) -> bool:
        """True if the whole network runs for each place."""
        return True

    @property
    def theoretical_speedup(self) -> float:
        """Theoretical speed-up of a place over the naive mode, by FLOPs; 1 where the whole network runs for each."""
        return 1.0 if self.in_full else self.patches.overall_speedup

    def has_hook(self, layer: str) -> bool:
        """Return whether a layer is a module with hooks, which may change its tensors arbitrarily."""
        return False

    def pace(self) -> Pace:
        """Return the pace of a heat map before its first place."""
        return Pace(self.patches, self._occlusion, self.places)

    def measured_pace(self) -> Pace:
        """Measure the pace on an empty image, coarse to fine, for about a second."""
        pace = self.pace()
        image = self.opened(np.zeros(self.patches.graph[self.patches.source].output_shape, np.float32))
        computed = np.zeros(self._occlusion.grid.shape, np.bool_)
        started = last = time.perf_counter()
        for level in coarse_to_fine(np.ones_like(computed)):
            for index, _ in self._results(image, level):
                now = time.perf_counter()
                computed[tuple(index.T)] = True
                pace.add(computed, now - last)
                last = now
                if now - started > _MEASURE:
                    return pace
        return pace

    def settle(self, image: Any) -> SettledScore:
        """Settle the score for an opened image; see :meth:`udfs.occlusion.Score.settle`."""
        return self._occlusion.score.settle(self._model, self.whole(image))

    def element(self, image: Any, target: int | None) -> int:
        """Return the element of an opened image's score for a target: ``None`` stands for the largest one.

        Raises
        ------
        udfs.occlusion.TargetError
            The score has no such element.
        """
        return self.largest(image, 1)[0] if target is None else _element(target, self.settle(image))

    def largest(self, image: Any, count: int) -> list[int]:
        """Return the largest elements of an opened image's score, the largest first."""
        scores = self.settle(image)(self.whole(image))[0]
        return [int(element) for element in np.argsort(-scores, kind="stable")[:count]]

    def heat_map(
        self,
        image: Any,
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> HeatMap:
        """Cover every place of an image with the patch.

        Parameters
        ----------
        image
            Image opened by any occluder of the network with the same precision, also one of another patch or mode.
        target : int, optional
            Element of the score that is mapped. Default: the largest one of the whole image.
        on_update : callable, optional
            Function that receives the heat map after each batch, with NaN for missing places. With it, places are
            computed from coarse to fine: each level is a lattice of half the stride.
        elsewhere : callable, optional
            Function that computes the places instead of this process.

        Raises
        ------
        udfs.occlusion.TargetError
            The score has no such element.
        udfs.occlusion.ScoreError
            The output for the whole image is not finite, or has no such score.
        udfs.occlusion.VerificationError
            A place that is computed exactly, or in the approximate mode the image without a patch, differs from the
            output of the original network.
        """
        told = None if on_update is None else lambda maps: on_update(maps[0])
        (mapped,) = self.heat_maps(image, [target], told, elsewhere)
        return mapped

    def heat_maps(
        self,
        image: Any,
        targets: Sequence[int | None],
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Elsewhere | None = None,
        *,
        coarse_first: bool = True,
    ) -> tuple[HeatMap, ...]:
        """Map several targets from one pass over the places, as the network's output has all of them.

        Drill-down computes the second stage's places of all targets for each.

        Parameters
        ----------
        image, elsewhere
            Image and remote computation, as for :meth:`heat_map`.
        targets : sequence of int or None
            Elements of the score; ``None`` stands for the largest one of the whole image.
        on_update : callable, optional
            Function that receives an array of shape (targets, *grid*) after each batch.
        coarse_first : bool
            Whether `on_update` gets places from coarse to fine (default). False makes fuller batches.
        """
        score = self.settle(image)
        scores = score(self.whole(image))[0]
        predicted = int(scores.argmax())
        counted = [_element(predicted if target is None else target, score) for target in targets]
        score.check_finite(scores[counted])
        if self._occlusion.mode == "approximate" and self._occlusion.verify != 0:
            # Most of its values cannot be checked, but the image itself reveals a wrong trace and noise.
            self._verification(image, score, counted)(scores[counted], counted, [()])
        values = np.full((len(counted), *self._occlusion.grid.shape), np.nan, np.float32)
        order = self._rounds()
        for stage in order.rounds(values):
            levels = coarse_to_fine(stage) if on_update is not None and elsewhere is None and coarse_first else [stage]
            for places in levels:
                computed = (
                    self.values(image, score, counted, places)
                    if elsewhere is None
                    else elsewhere(image.pixels, score, counted, places)
                )
                for index, at_places in computed:
                    score.check_finite(at_places)
                    values[(slice(None), *index.T)] = at_places.T
                    if on_update is not None:
                        on_update(values.copy())
        filled = order.filled(values)
        if filled is not values:
            filled = filled.astype(np.float32)
            if on_update is not None:
                on_update(filled.copy())
        places_again, difference = self._verified(image, score, counted, values)
        likeness, known = self._likeness(image, score, counted, filled, order), int((~np.isnan(values[0])).sum())
        top = tuple((int(element), float(scores[element])) for element in np.argsort(-scores, kind="stable")[:_TOP])
        return tuple(
            HeatMap(
                mapped,
                target,
                predicted,
                float(scores[target]),
                score.statement,
                places_again,
                difference,
                elements=score.size,
                top=top,
                likeness=alike,
                computed=known,
            )
            for mapped, target, alike in zip(filled, counted, likeness, strict=True)
        )

    @property
    def places_again(self) -> list[tuple[int, ...]]:
        """Places that are computed again with the original network."""
        occlusion = self._occlusion
        if occlusion.mode == "approximate":
            # Only places that are surely computed, and exactly.
            exact = occlusion.target_ssim is not None and occlusion.tau == 1 and not occlusion.in_bfloat16
            first = spread_places(occlusion.grid.shape)
            return places_to_verify(occlusion.verify, first.shape, occlusion.seed, first) if exact else []
        # The naive mode is the network itself: one place reveals whether it depends on the other records of a batch.
        wanted = 1 if occlusion.mode == "naive" and occlusion.verify is None else occlusion.verify
        return places_to_verify(wanted, occlusion.grid.shape, occlusion.seed)

    def _verified(
        self, image: Any, score: SettledScore, targets: Sequence[int], values: NDArray[np.float32]
    ) -> tuple[int, float]:
        """Compute some places again with the original network; return their number and the largest difference."""
        places = self.places_again
        return len(places), self._verification(image, score, targets)(values, targets, places) if places else 0.0

    def _verification(self, image: Any, score: SettledScore, targets: Sequence[int]) -> Verification:
        """Return the comparison of values with the original network."""
        under, shape = self.under(image), self._occlusion.grid.shape

        def laid(place: tuple[int, ...]) -> NDArray[np.float32]:
            if not place:
                return image.pixels  # type: ignore[no-any-return]
            covered = self.covered(place)
            pixels: NDArray[np.float32] = image.pixels.copy()
            pixels[covered] = under[covered]
            return pixels

        def original(place: tuple[int, ...]) -> NDArray[np.float32]:
            elements: NDArray[np.float32] = score(self.run_original(image, laid(place)))[0]
            return elements

        def precise(place: tuple[int, ...]) -> NDArray[np.float32] | None:
            outputs = self.run_original_precisely(image, laid(place))
            return None if outputs is None else score(outputs)[0]

        def reason(place: tuple[int, ...], expected: NDArray[np.floating]) -> str:
            if not place:
                return self.difference(image, image.pixels, place)
            only = np.zeros(shape, np.bool_)
            only[place] = True
            ((_, alone),) = self.values(image, score, targets, only)
            if np.allclose(alone[0], expected, rtol=0, atol=1e-5 * largest):
                return (
                    "computed alone it is the same, so the network's output for one record depends on the other "
                    'records of its batch, such as by a mean over the first axis; set mode="naive" and batch_size=1'
                )
            return self.difference(image, laid(place), place)

        largest = max(1.0, float(np.abs(score(self.whole(image))[0]).max()))
        return Verification(original, precise, reason, largest, lambda: self.rounding_unit(image))

    def covered(self, place: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the index of the input's elements that the patch covers at a place of the heat map."""
        grid = self._occlusion.grid
        begin = [int(grid.starts(axis)[at]) for axis, at in enumerate(place)]
        covered = tuple(slice(at, at + extent) for at, extent in zip(begin, grid.patch, strict=True))
        return covered if self.channels_last else (slice(None), *covered)

    @property
    def channels_last(self) -> bool:
        """True if the input's channels are its last axis."""
        return self.patches.graph[self.patches.source].output_shape[1:] != self._occlusion.grid.image

    @abstractmethod
    def under(self, image: Any) -> NDArray[np.float32]:
        """Return the content of the patch at every place, as an array of the opened image's shape."""

    @abstractmethod
    def run_original(self, image: Any, pixels: NDArray[np.float32]) -> NDArray[Any]:
        """Run the original network for one input, with the opened image's other inputs."""

    def run_original_precisely(self, image: Any, pixels: NDArray[np.float32]) -> NDArray[Any] | None:
        """Run the original network in float64, if it supports it."""
        return None

    def rounding_unit(self, image: Any) -> float:
        """Return the rounding unit of the lowest precision that the original network computes in; 0 if unknown."""
        return 0.0

    def difference(self, image: Any, pixels: NDArray[np.float32], place: tuple[int, ...]) -> str:
        """Describe where the computation differs from the original network; a place ``()`` is no patch."""
        return "please report it with the network"

    def _rounds(self) -> Rounds:
        """Return the order of the places."""
        return EveryPlace()

    def _likeness(
        self,
        image: Any,
        score: SettledScore,
        targets: Sequence[int],
        values: NDArray[np.float32],
        order: Rounds,
    ) -> Sequence[float | None]:
        """Estimate the SSIM of each heat map with the exact one; ``None`` where they are exact."""
        del image, score, values, order
        return (None,) * len(targets)


def _element(target: int, score: SettledScore) -> int:
    if not 0 <= target < score.size:
        raise TargetError(f"target must be from 0 to {score.size - 1}, got {target!r}; {score.statement}")
    return int(target)
