"""Rounds in which the places of heat maps are computed: all at once, or by drill-down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udfs.occlusion._drill_down import Lattice

__all__ = ["DrillingDown", "EveryPlace", "Rounds"]


class Rounds(Protocol):
    """Order of the places of one image's heat maps."""

    @property
    def likeness(self) -> tuple[float, ...]:
        """Estimated SSIM of each heat map with that of every place, where the rounds estimate it."""

    def rounds(self, values: NDArray[np.floating]) -> Iterator[NDArray[np.bool_]]:
        """Yield the places to compute next; the caller writes their values before it asks for more.

        Parameters
        ----------
        values : array of float, of shape (heat maps, ...)
            NaN where nothing is computed.
        """

    def filled(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Fill in the places that no round computed."""


@dataclass(frozen=True, slots=True)
class EveryPlace:
    """Single round of all places. A :class:`Rounds`."""

    likeness: tuple[float, ...] = ()

    def rounds(self, values: NDArray[np.floating]) -> Iterator[NDArray[np.bool_]]:
        """Yield all places."""
        yield np.ones(values.shape[1:], np.bool_)

    def filled(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the values: none is missing."""
        return values


@dataclass(frozen=True, slots=True)
class DrillingDown:
    """Two rounds: a lattice, then a fraction of each map around its lowest values (Krypton, section 6.4.2)."""

    lattice: Lattice
    fraction: float
    likeness: tuple[float, ...] = ()

    def rounds(self, values: NDArray[np.floating]) -> Iterator[NDArray[np.bool_]]:
        """Yield the lattice, then the places of the second stage of any heat map."""
        yield self.lattice.first
        yield np.logical_or.reduce([self.lattice.second(mapped, self.fraction) for mapped in values])

    def filled(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Interpolate between the lattice's places."""
        return np.stack([self.lattice.filled(mapped) for mapped in values])
