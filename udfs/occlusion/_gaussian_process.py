"""Gaussian process through the known places of a heat map (kriging)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.occlusion._similarity import deviations, similarity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Surface"]

# Parameters that are tried: the exponent of the Matern correlation, its length in places, and the share of the variance
# that no neighbour tells of.
_SMOOTHNESS = (0.5, 1.5)
_LENGTHS = (1.0, 2.0, 3.0, 4.5, 7.0, 11.0)
_ROUGHNESS = (1e-6, 1e-3, 1e-2, 0.05, 0.2)

# How far a value may be off, by the deviation within the window around it: an exponent, and what is added to the
# deviation, as a share of the map's span. The first is the same everywhere.
_SCALES = ((0.0, 1.0), (0.5, 0.003), (1.0, 0.003), (0.5, 0.03), (1.0, 0.03))

# Places that the parameters are fitted to: the time grows with the cube.
_FITTED = 300

_DRAWS = 8
_LEAST_ROUGHNESS = 1e-8
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Surface:
    """A Gaussian process through the known places of a heat map; made by :meth:`through`.

    Neighbours deviate from the trend alike, and deviate more where the map is less flat. The parameters are those under
    which the known values are most likely.
    """

    mean: NDArray[np.float64]  # most likely value of each place; the known ones as they are
    scale: NDArray[np.float64]  # standard deviation of each value from the trend
    _known: tuple[NDArray[np.int64], ...]
    _kernels: tuple[NDArray[np.float64], ...]
    _roots: tuple[NDArray[np.float64], ...]
    _inverse: NDArray[np.float64]
    _roughness: float

    @classmethod
    def through(
        cls,
        values: NDArray[np.floating],
        axes: Sequence[NDArray[np.floating]],
        trend: NDArray[np.floating] | None = None,
    ) -> Surface:
        """Fit the surface.

        Parameters
        ----------
        values : array of float
            Heat map with NaN at unknown places; at least two places are known.
        axes : sequence of array of float
            Positions of the places by axis, about 1 between two of them.
        trend : array of float, optional
            Complete heat map that resembles this one. Default: a constant.

        Examples
        --------
        >>> rows = columns = np.arange(20.0)
        >>> hill = np.exp(-np.add.outer((rows - 9) ** 2, (columns - 12) ** 2) / 40)
        >>> known = np.full(hill.shape, np.nan)
        >>> known[::3, ::3] = hill[::3, ::3]
        >>> surface = Surface.through(known, [rows, columns])
        >>> bool(np.abs(surface.mean - hill).max() < 0.1), surface.likeness(surface.mean) > 0.95
        (True, True)
        """
        search = _Search(values, axes, trend)
        flat = np.ones(values.shape)
        # Without a trend, a first surface of the same scale everywhere shows where the map is flat.
        rough = search.best([flat]).mean if trend is None else np.asarray(trend, np.float64)
        within, span = deviations(rough), float(np.ptp(rough)) + _TINY
        return search.best([flat, *((within / span + added) ** exponent for exponent, added in _SCALES[1:])])

    def draw(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Draw a heat map that agrees with the known values."""
        noise = random.normal(size=self.mean.shape)
        for axis, root in enumerate(self._roots):
            noise = np.moveaxis(np.tensordot(root, noise, (1, axis)), 0, axis)
        noise += np.sqrt(self._roughness) * random.normal(size=noise.shape)
        off = self.scale * (noise - _summed(self._kernels, self._inverse @ noise[self._known]))
        off[self._known] = 0.0
        drawn: NDArray[np.float64] = self.mean + off
        return drawn

    def likeness(self, heat_map: NDArray[np.floating], *, draws: int = _DRAWS, seed: int = 0) -> float:
        """Estimate the SSIM of a heat map with the one behind this surface, as the mean over draws of the surface."""
        random = np.random.default_rng(seed)
        return float(np.mean([similarity(self.draw(random), heat_map) for _ in range(draws)]))


@dataclass(frozen=True, slots=True)
class _Parameters:
    smoothness: float
    length: float
    roughness: float
    coefficients: NDArray[np.float64]
    variance: float
    scale: NDArray[np.float64]


class _Search:
    """Search for the parameters under which some known values are most likely."""

    def __init__(
        self,
        values: NDArray[np.floating],
        axes: Sequence[NDArray[np.floating]],
        trend: NDArray[np.floating] | None,
    ) -> None:
        self._values, self._axes = values, axes
        self._known = np.nonzero(~np.isnan(values))
        self._observed = values[self._known].astype(np.float64)
        self._trend = np.stack([np.ones(values.shape), *([] if trend is None else [trend])])
        self._some = np.sort(np.random.default_rng(0).permutation(len(self._observed))[:_FITTED])
        positions = [at[index[self._some]] for at, index in zip(axes, self._known, strict=True)]
        self._spectra = {
            kind: np.linalg.eigh(_among(positions, *kind)) for kind in itertools.product(_SMOOTHNESS, _LENGTHS)
        }

    def best(self, scales: Sequence[NDArray[np.float64]]) -> Surface:
        """Return the surface of the most likely parameters and scale."""
        _, parameters = max((self._likely(kind, scale) for kind in self._spectra for scale in scales), key=_first)
        return self._surface(parameters)

    def _likely(self, kind: tuple[float, float], scale: NDArray[np.float64]) -> tuple[float, _Parameters]:
        """Find the most likely roughness, and the logarithm of the likelihood, for one correlation and scale."""
        spectrum, basis = self._spectra[kind]
        part: tuple[Any, ...] = tuple(index[self._some] for index in self._known)
        weight, observed = scale[part], self._observed[self._some]
        values = basis.T @ (observed / weight)
        columns = basis.T @ (self._trend[:, *part] / weight).T
        power = np.maximum(spectrum, 0)[:, None] + np.array(_ROUGHNESS)  # of shape (values, roughnesses)
        normal = np.einsum("ia,ir,ib->rab", columns, 1 / power, columns)
        right = np.einsum("ia,ir,i->ra", columns, 1 / power, values)
        coefficients = np.einsum("rab,rb->ra", np.linalg.pinv(normal, hermitian=True), right)
        rest = values[:, None] - columns @ coefficients.T
        variances = (rest * rest / power).mean(axis=0) + _TINY * (float(np.ptp(observed)) ** 2 + _TINY)
        likelihoods = -0.5 * (len(values) * np.log(variances) + np.log(power).sum(axis=0)) - np.log(weight).sum()
        at = int(likelihoods.argmax())
        return float(likelihoods[at]), _Parameters(*kind, _ROUGHNESS[at], coefficients[at], float(variances[at]), scale)

    def _surface(self, parameters: _Parameters) -> Surface:
        length, smoothness, scale = parameters.length, parameters.smoothness, parameters.scale
        positions = [at[index] for at, index in zip(self._axes, self._known, strict=True)]
        kernels = tuple(
            _correlation(np.subtract.outer(at, here), smoothness, length)
            for at, here in zip(self._axes, positions, strict=True)
        )
        among = _among(positions, smoothness, length)
        added = (parameters.roughness + _LEAST_ROUGHNESS) * np.eye(len(among))
        inverse = np.asarray(np.linalg.inv(among + added), np.float64)
        trend = np.tensordot(parameters.coefficients, self._trend, 1)
        off = (self._observed - trend[self._known]) / scale[self._known]
        likely = trend + scale * _summed(kernels, inverse @ off)
        roots = (_correlation(np.subtract.outer(at, at), smoothness, length) for at in self._axes)
        return Surface(
            np.where(np.isnan(self._values), likely, self._values).astype(np.float64),
            np.sqrt(parameters.variance) * scale,
            self._known,
            kernels,
            tuple(_root(matrix) for matrix in roots),
            inverse,
            parameters.roughness,
        )


def _first(likely: tuple[float, _Parameters]) -> float:
    return likely[0]


def _correlation(distances: NDArray[np.floating], smoothness: float, length: float) -> NDArray[np.float64]:
    """Compute the Matern correlation along an axis."""
    far = np.sqrt(2 * smoothness) * np.abs(distances) / length
    polynomial = {0.5: 1.0, 1.5: 1 + far}[smoothness]
    return np.asarray(polynomial * np.exp(-far), np.float64)


def _among(positions: Sequence[NDArray[np.floating]], smoothness: float, length: float) -> NDArray[np.float64]:
    """Compute the correlations of some places: products over the axes."""
    return reduce(np.multiply, (_correlation(np.subtract.outer(at, at), smoothness, length) for at in positions))


def _summed(kernels: Sequence[NDArray[np.float64]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the kernels of the known places, at all places of the map."""
    first, *others = kernels
    total = first * weights
    for kernel in others[:-1]:
        total = total[..., None, :] * kernel
    summed: NDArray[np.float64] = total @ others[-1].T if others else total.sum(axis=-1)
    return summed


def _root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.cholesky(matrix + _LEAST_ROUGHNESS * np.eye(len(matrix))), np.float64)
