"""Coefficients of a machine, fitted to what was measured on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ._cost import Costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["fit_costs", "scale_kernels"]

_SWEEPS = 500
_KERNEL = ("kernel_call_s", "bit_s", "kernel_walk_s", "kernel_far_s", "kernel_sum_s")


def fit_costs(measured: Sequence[tuple[Mapping[str, float], float]], start: Costs | None = None) -> Costs:
    """Fit coefficients, none below zero, so that relative errors are least in the sense of least squares.

    Parameters
    ----------
    measured : sequence of (mapping of str to float, float)
        How often each coefficient counts, as ``eager_terms`` says, and the seconds that it took.
    start : Costs, optional
        Coefficients that no measurement counts stay as here.

    Examples
    --------
    >>> fit_costs([({"call_s": 10, "walk_s": 1e6}, 0.011), ({"call_s": 10}, 0.001)]).walk_s
    1e-08
    """
    base = start or Costs()
    names = sorted({name for terms, _ in measured for name, times in terms.items() if times})
    seconds = np.array([spent for _, spent in measured])
    table = np.array([[terms.get(name, 0.0) for name in names] for terms, _ in measured]) / seconds[:, None]
    found = _least_squares(table, np.ones(len(measured)))
    return replace(base, **{name: float(f"{value:.4g}") for name, value in zip(names, found.tolist(), strict=True)})


def scale_kernels(costs: Costs, ratio: float, build_s: float | None = None) -> Costs:
    """Scale what kernels cost by measured over predicted seconds; and set what building one takes."""
    scaled = {name: getattr(costs, name) * ratio for name in _KERNEL}
    return replace(costs, **scaled, build_s=costs.build_s if build_s is None else build_s)


def _least_squares(table: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with nothing below zero, one coefficient after the other until they stay."""
    scale = np.sqrt((table**2).sum(axis=0))
    unit = table / scale
    products, aims = unit.T @ unit, unit.T @ wanted
    found = np.zeros(len(aims))
    for _ in range(_SWEEPS):
        before = found.copy()
        for place in range(len(found)):
            found[place] = max(found[place] + aims[place] - products[place] @ found, 0.0)
        if np.allclose(found, before, rtol=1e-9, atol=0):
            break
    solution: NDArray[np.float64] = found / scale
    return solution
