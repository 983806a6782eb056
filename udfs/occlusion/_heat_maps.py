"""What all ways to make heat maps share: the score, the targets, the order of the places."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from udfs.occlusion._cost import Pace
from udfs.occlusion._order import coarse_to_fine
from udfs.occlusion._rounds import EveryPlace
from udfs.occlusion._sampling import spread_places
from udfs.occlusion._settings import HeatMap, TargetError
from udfs.occlusion._verification import Verification, places_to_verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.occlusion import UpdatePatches
    from udfs.handlers import TracedModel
    from udfs.occlusion._rounds import Rounds
    from udfs.occlusion._score import SettledScore
    from udfs.occlusion._settings import Occlusion

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
    """The base of what makes heat maps of images of one size by one network.

    Parameters
    ----------
    model : TracedModel
        Prepared.
    occlusion : Occlusion

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
        """Run the network once over an image.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        others : mapping of str to array, optional
            The network's other inputs, without the axis of records.
        """

    @abstractmethod
    def whole(self, image: Any) -> NDArray[Any]:
        """The network's output for an opened image without a patch, of shape (1, ...)."""

    @abstractmethod
    def values(self, image: Any, score: SettledScore, targets: Sequence[int], places: NDArray[np.bool_]) -> Values:
        """Lay the patch on some places of an opened image.

        Parameters
        ----------
        image
            As ``opened`` returned it.
        score : SettledScore
            Of this image.
        targets : sequence of int
            Elements of the score.
        places : array of bool, of the heat map's shape

        Yields
        ------
        array of int64, of shape (places, axes)
            Indices of the heat map.
        array of float32, of shape (places, targets)
            The scores there.
        """

    @abstractmethod
    def _results(self, image: Any, places: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yield as :meth:`values` does, with the network's outputs for scores."""

    @property
    def in_full(self) -> bool:
        """Whether the whole network runs for each place."""
        return True

    @property
    def theoretical_speedup(self) -> float:
        """Of a place over the naive mode's, by FLOPs; 1 where the whole network runs for each."""
        return 1.0 if self.in_full else self.patches.overall_speedup

    def has_hook(self, layer: str) -> bool:
        """Whether a layer is a module with hooks, which may do anything to its tensors."""
        return False

    def pace(self) -> Pace:
        """Estimate the seconds of a heat map, from no place yet."""
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
        """Decide how scores are computed for an opened image; see :meth:`udfs.occlusion.Score.settle`."""
        return self._occlusion.score.settle(self._model, self.whole(image))

    def element(self, image: Any, target: int | None) -> int:
        """Tell which element of an opened image's score a target is: ``None`` stands for the largest one.

        Raises
        ------
        udfs.occlusion.TargetError
            The score has no such element.
        """
        return self.largest(image, 1)[0] if target is None else _element(target, self.settle(image))

    def largest(self, image: Any, count: int) -> list[int]:
        """List the elements of an opened image's score that are the largest, the largest first."""
        scores = self.settle(image)(self.whole(image))[0]
        return [int(element) for element in np.argsort(-scores, kind="stable")[:count]]

    def heat_map(
        self,
        image: Any,
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> HeatMap:
        """Lay the patch on every place of an image.

        Parameters
        ----------
        image
            Opened by any occluder of the network, whatever its patch and mode, that computes in the same precision.
        target : int, optional
            The element of the score that is mapped; the largest one of the whole image by default.
        on_update : callable, optional
            Called with the heat map so far after each batch; places that are not computed yet are NaN. With it, places
            are computed from coarse to fine: each level is a lattice of half the stride.
        elsewhere : callable, optional
            What computes the places instead of this process.

        Raises
        ------
        udfs.occlusion.TargetError
            The score has no such element.
        udfs.occlusion.ScoreError
            The output for the whole image is not finite, or has no such score.
        udfs.occlusion.VerificationError
            A place that is computed exactly is not what the untouched network gives; or in the approximate mode the
            image without a patch.
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
        """Map several targets from one pass over the places: the network's output has them all.

        Drill-down computes the second stage's places of all targets for each.

        Parameters
        ----------
        image, elsewhere
            As for :meth:`heat_map`.
        targets : sequence of int or None
            ``None`` stands for the largest element of the whole image's score.
        on_update : callable, optional
            Called with an array of shape (targets, *grid*).
        coarse_first : bool
            With `on_update`, compute places from coarse to fine (default). False is for who only counts them: batches
            are fuller then.
        """
        score = self.settle(image)
        scores = score(self.whole(image))[0]
        predicted = int(scores.argmax())
        counted = [_element(predicted if target is None else target, score) for target in targets]
        score.check_finite(scores[counted])
        if self._occlusion.mode == "approximate" and self._occlusion.verify != 0:
            # Most of its values cannot be checked, but a wrong trace and noise show in the image itself.
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
        """Places that are computed again with the untouched network."""
        occlusion = self._occlusion
        if occlusion.mode == "approximate":
            # Only places that are surely computed, and exactly.
            exact = occlusion.target_ssim is not None and occlusion.tau == 1 and not occlusion.in_bfloat16
            first = spread_places(occlusion.grid.shape)
            return places_to_verify(occlusion.verify, first.shape, occlusion.seed, first) if exact else []
        # The naive mode is the network itself: one place tells whether it depends on the other records of a batch.
        wanted = 1 if occlusion.mode == "naive" and occlusion.verify is None else occlusion.verify
        return places_to_verify(wanted, occlusion.grid.shape, occlusion.seed)

    def _verified(
        self, image: Any, score: SettledScore, targets: Sequence[int], values: NDArray[np.float32]
    ) -> tuple[int, float]:
        """Compute some places again with the untouched network; returns their number and the largest difference."""
        places = self.places_again
        return len(places), self._verification(image, score, targets)(values, targets, places) if places else 0.0

    def _verification(self, image: Any, score: SettledScore, targets: Sequence[int]) -> Verification:
        """Describe how values are compared with the untouched network."""
        under, shape = self.under(image), self._occlusion.grid.shape

        def laid(place: tuple[int, ...]) -> NDArray[np.float32]:
            if not place:
                return image.pixels  # type: ignore[no-any-return]
            covered = self.covered(place)
            pixels: NDArray[np.float32] = image.pixels.copy()
            pixels[covered] = under[covered]
            return pixels

        def untouched(place: tuple[int, ...]) -> NDArray[np.float32]:
            elements: NDArray[np.float32] = score(self.untouched(image, laid(place)))[0]
            return elements

        def precise(place: tuple[int, ...]) -> NDArray[np.float32] | None:
            outputs = self.untouched_precisely(image, laid(place))
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
                    'records of its batch, as by a mean over the first axis; take mode="naive" and batch_size=1'
                )
            return self.difference(image, laid(place), place)

        largest = max(1.0, float(np.abs(score(self.whole(image))[0]).max()))
        return Verification(untouched, precise, reason, largest)

    def covered(self, place: tuple[int, ...]) -> tuple[slice, ...]:
        """Index the elements of the input that the patch covers at a place of the heat map."""
        grid = self._occlusion.grid
        begin = [int(grid.starts(axis)[at]) for axis, at in enumerate(place)]
        covered = tuple(slice(at, at + extent) for at, extent in zip(begin, grid.patch, strict=True))
        return covered if self.channels_last else (slice(None), *covered)

    @property
    def channels_last(self) -> bool:
        """Whether the input's channels are its last axis."""
        return self.patches.graph[self.patches.source].output_shape[1:] != self._occlusion.grid.image

    @abstractmethod
    def under(self, image: Any) -> NDArray[np.float32]:
        """Content of the patch wherever it is laid: an array of the opened image's shape."""

    @abstractmethod
    def untouched(self, image: Any, pixels: NDArray[np.float32]) -> NDArray[Any]:
        """Run the network as its author wrote it for one input, beside the opened image's other inputs."""

    def untouched_precisely(self, image: Any, pixels: NDArray[np.float32]) -> NDArray[Any] | None:
        """Run it in float64, where it runs in it."""
        return None

    def difference(self, image: Any, pixels: NDArray[np.float32], place: tuple[int, ...]) -> str:
        """Say where the computation departs from the untouched network; a place ``()`` is no patch."""
        return "please report it with the network"

    def _rounds(self) -> Rounds:
        """Choose the order of the places."""
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
        raise TargetError(f"from 0 to {score.size - 1}, not {target!r}; {score.statement}")
    return int(target)
