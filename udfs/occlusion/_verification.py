"""The guard of heat maps: some places, computed again by the network as its author wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Verification", "VerificationError", "places_to_verify"]

# Of a heat map's places, and the most of them by default.
_SHARE, _MOST = 50, 4

_TOLERANCE = 1e-5

# How many times its own rounding error a network may differ where float32 is coarser than the tolerance.
_ROUNDING = 4


_RANDOM = (
    "run once more it gives another value, as a dropout that is always on or noise makes it: take that out of the "
    "network, or leave the check out by verify=0"
)


class VerificationError(CerebroError, ArithmeticError):
    """A value of a heat map is not what the untouched network gives; the message names the first layer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A comparison of a heat map's places with the untouched network.

    Parameters
    ----------
    untouched : callable
        From the index of a place to all elements of the score there, by the untouched network, one record at a time;
        from ``()`` to those of the image without a patch.
    precise : callable
        The same in float64; ``None`` where the network does not run in it.
    reason : callable
        From the index of a place and the targets' scores by :attr:`untouched` to a sentence about what is wrong.
    largest : float
        The largest score of the whole image, in magnitude.
    """

    untouched: Callable[[tuple[int, ...]], NDArray[np.floating]]
    precise: Callable[[tuple[int, ...]], NDArray[np.floating] | None]
    reason: Callable[[tuple[int, ...], NDArray[np.floating]], str]
    largest: float

    def __call__(self, values: NDArray[np.float32], targets: Sequence[int], places: Sequence[tuple[int, ...]]) -> float:
        """Compare the heat maps of some targets at some places, and return the largest difference.

        Parameters
        ----------
        values : array of float32, of shape (targets, *grid)
            Or of shape (targets,), without a patch.
        targets : sequence of int
        places : sequence of tuple of int
            The place ``()`` is the image without a patch.

        Raises
        ------
        VerificationError
            They differ by more than 1e-5, or 1e-5 of the largest score, and by more than float32 rounds the network.
        """
        most, tolerance = 0.0, _TOLERANCE * max(1.0, self.largest)
        for place in places:
            at: Any = (slice(None), *place)
            elements = self.untouched(place)
            mapped, expected = values[at], elements[list(targets)]
            differences = np.abs(mapped - expected)
            if not (differences <= tolerance).all() and not self._is_rounding(
                place, mapped, elements, targets, tolerance
            ):
                worst = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
                again = self.untouched(place)
                reason = self.reason(place, expected) if _same(again, elements, tolerance) else _RANDOM
                where = f"at place {', '.join(map(str, place))}" if place else "without a patch"
                raise VerificationError(
                    f"the heat map of target {targets[worst]} has {mapped[worst]:.6g} {where}, where the untouched "
                    f"network gives {expected[worst]:.6g}: {reason}"
                )
            most = max(most, float(differences.max()))
        return most

    def _is_rounding(
        self,
        place: tuple[int, ...],
        mapped: NDArray[np.float32],
        elements: NDArray[np.floating],
        targets: Sequence[int],
        tolerance: float,
    ) -> bool:
        """Whether float32 rounds the untouched network itself about as far, in any element of the score."""
        precise = self.precise(place)
        if precise is None or not _same(self.untouched(place), elements, tolerance):
            return False
        rounding = np.abs(elements - precise).max()
        return bool((np.abs(mapped - precise[list(targets)]) <= _ROUNDING * rounding).all())


def _same(again: NDArray[np.floating], before: NDArray[np.floating], tolerance: float) -> bool:
    """Whether a network that was run twice over one place draws nothing at random."""
    return bool(np.allclose(again, before, 0.0, tolerance, equal_nan=True))


def places_to_verify(
    verify: int | None, shape: tuple[int, ...], seed: int, among: NDArray[np.bool_] | None = None
) -> list[tuple[int, ...]]:
    """Choose places of a heat map to compute again.

    Parameters
    ----------
    verify : int or None
        How many; ``None`` is 1 in 50, at least 1 and at most 4.
    shape : tuple of int
        Of the heat map.
    seed : int
        Of the choice.
    among : array of bool, of that shape, optional
        Places to choose from; all by default.

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
