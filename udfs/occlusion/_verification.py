"""Verification of heat maps: some places are computed again by the original network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Verification", "VerificationError", "places_to_verify"]

# Default share of a heat map's places (1 in 50), and their largest number.
_SHARE, _MOST = 50, 4

_TOLERANCE = 1e-5

# Factor of the network's own rounding error that is accepted where float32 is coarser than the tolerance.
_ROUNDING = 4


_RANDOM = (
    "run once more it gives another value, such as by noise or by a dropout that is always on; remove it from the "
    "network, or disable verification by verify=0"
)


class VerificationError(CerebroError, ArithmeticError):
    """Value of a heat map that differs from the original network; the message names the first layer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Comparison of a heat map's places with the original network."""

    # Function from the index of a place, or () for the image without a patch, to all elements of the score by the
    # original network, run for one record at a time.
    original: Callable[[tuple[int, ...]], NDArray[np.floating]]
    # The same function in float64; returns None where the network does not support it.
    precise: Callable[[tuple[int, ...]], NDArray[np.floating] | None]
    # Function from the index of a place and the targets' scores by original to the reason of a difference.
    reason: Callable[[tuple[int, ...], NDArray[np.floating]], str]
    largest: float  # largest magnitude of the whole image's score
    # Function that returns the rounding unit of the lowest precision that the original network computes in.
    rounding_unit: Callable[[], float] = lambda: 0.0

    def __call__(self, values: NDArray[np.float32], targets: Sequence[int], places: Sequence[tuple[int, ...]]) -> float:
        """Compare the heat maps of some targets at some places, and return the largest difference.

        Parameters
        ----------
        values : array of float32, of shape (targets, *grid)
            Heat maps; of shape (targets,) for the image without a patch.
        places : sequence of tuple of int
            Places to compare; ``()`` is the image without a patch.

        Raises
        ------
        VerificationError
            The values differ by more than 1e-5 (of the largest score above 1) and by more than the rounding of the
            lowest precision in the network.
        """
        most, tolerance = 0.0, _TOLERANCE * max(1.0, self.largest)
        for place in places:
            at: Any = (slice(None), *place)
            elements = self.original(place)
            mapped, expected = values[at], elements[list(targets)]
            differences = np.abs(mapped - expected)
            if not (differences <= tolerance).all():
                tolerance = max(_TOLERANCE, _ROUNDING * self.rounding_unit()) * max(1.0, self.largest)
            if not (differences <= tolerance).all() and not self._is_rounding(
                place, mapped, elements, targets, tolerance
            ):
                worst = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
                reason = self._reason(place, elements, expected, tolerance)
                where = f"at place {', '.join(map(str, place))}" if place else "without a patch"
                raise VerificationError(
                    f"the heat map of target {targets[worst]} has {mapped[worst]:.6g} {where}, where the original "
                    f"network has {expected[worst]:.6g}: {reason}"
                )
            most = max(most, float(differences.max()))
        return most

    def _reason(
        self,
        place: tuple[int, ...],
        elements: NDArray[np.floating],
        expected: NDArray[np.floating],
        tolerance: float,
    ) -> str:
        """Describe a difference; a search for the reason that fails must not hide it."""
        try:
            again = self.original(place)
            return self.reason(place, expected) if _same(again, elements, tolerance) else _RANDOM
        except Exception as error:  # noqa: BLE001 - the user's own network, run in unusual ways
            return f'no layer can be named ({type(error).__name__}: {error}); set mode="naive", or verify=0'

    def _is_rounding(
        self,
        place: tuple[int, ...],
        mapped: NDArray[np.float32],
        elements: NDArray[np.floating],
        targets: Sequence[int],
        tolerance: float,
    ) -> bool:
        """Return whether float32 rounds the original network itself about as far, in any element of the score."""
        precise = self.precise(place)
        if precise is None or not _same(self.original(place), elements, tolerance):
            return False
        rounding = np.abs(elements - precise).max()
        return bool((np.abs(mapped - precise[list(targets)]) <= _ROUNDING * rounding).all())


def _same(again: NDArray[np.floating], before: NDArray[np.floating], tolerance: float) -> bool:
    """Return whether two runs of a network over one place agree, so that it draws nothing at random."""
    return bool(np.allclose(again, before, 0.0, tolerance, equal_nan=True))


def places_to_verify(
    verify: int | None, shape: tuple[int, ...], seed: int, among: NDArray[np.bool_] | None = None
) -> list[tuple[int, ...]]:
    """Choose places of a heat map to compute again.

    Parameters
    ----------
    verify : int or None
        Number of places; ``None`` is 1 in 50, at least 1 and at most 4.
    among : array of bool, of that shape, optional
        Places to choose from. Default: all.

    Examples
    --------
    >>> [len(places_to_verify(None, shape, 0)) for shape in ((53, 53), (12, 10), (2,))]
    [4, 2, 1]
    """
    candidates = np.arange(int(np.prod(shape))) if among is None else np.flatnonzero(among)
    count = len(candidates)
    wanted = max(1, min(_MOST, count // _SHARE)) if verify is None else min(verify, count)
    chosen = np.random.default_rng(seed).choice(candidates, wanted, replace=False)
    return [tuple(int(at) for at in np.unravel_index(place, shape)) for place in np.sort(chosen)]
