"""Operators that bend each column."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import Apply, to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.compiling import Bins, Monomials, Operator, Patch, PowerTransform, Quantiles, Ufunc

__all__ = [
    "MODULES",
    "BinsModule",
    "MonomialsModule",
    "PatchModule",
    "PowerTransformModule",
    "QuantilesModule",
    "UfuncModule",
]

_OTHER_NAMES = {"degrees": "rad2deg", "fabs": "abs", "radians": "deg2rad", "rint": "round"}


class UfuncModule(torch.nn.Module):
    """Compute a function of numpy."""

    def __init__(self, operator: Ufunc) -> None:
        super().__init__()
        self.name, self.kinds = operator.name, operator.kinds
        known = _OTHER_NAMES.get(operator.name, operator.name)
        self.function = None if known == "cbrt" else getattr(torch, known)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        result = self._in_type_of_table(x)
        for place, kind in enumerate(self.kinds):
            if kind:
                narrow = getattr(np, self.name)(x[:, place].numpy().astype(kind))
                result[:, place] = torch.from_numpy(narrow.astype(result.numpy().dtype))
        return result

    def _in_type_of_table(self, x: torch.Tensor) -> torch.Tensor:
        if self.function is None:
            root = torch.sign(x) * x.abs().to(torch.float64).pow(1 / 3)
            # One step of Newton's makes the roots of cubes exact.
            wide = x.to(torch.float64)
            refined = root - (root * root * root - wide) / (3 * root * root)
            return torch.where(torch.isfinite(refined), refined, root).to(x.dtype)
        if self.name == "sign":
            return torch.where(torch.isnan(x), x, torch.sign(x))
        result: torch.Tensor = _log1p(x) if self.name == "log1p" else self.function(x)
        return result.to(x.dtype)


class PowerTransformModule(torch.nn.Module):
    """Compute in the wider type, and round to the input's."""

    lambdas: torch.Tensor

    def __init__(self, operator: PowerTransform) -> None:
        super().__init__()
        self.method = operator.method
        self.register_buffer("lambdas", to_tensor(operator.lambdas))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        result = self._box_cox(x) if self.method == "box-cox" else self._yeo_johnson(x)
        return result.to(x.dtype)

    def _yeo_johnson(self, x: torch.Tensor) -> torch.Tensor:
        eps = torch.finfo(torch.promote_types(x.dtype, self.lambdas.dtype)).eps
        other = 2 - self.lambdas
        near, far = self.lambdas.abs() < eps, (self.lambdas - 2).abs() <= eps
        above, below = _log1p(x.clamp_min(0)), _log1p(-x.clamp_max(0))
        upper = torch.where(near, above, torch.expm1(self.lambdas * above) / torch.where(near, 1.0, self.lambdas))
        lower = torch.where(far, -below, -torch.expm1(other * below) / torch.where(far, 1.0, other))
        return torch.where(x >= 0, upper, lower)

    def _box_cox(self, x: torch.Tensor) -> torch.Tensor:
        wide, lambdas = x.to(torch.float64), self.lambdas.to(torch.float64)
        logs = torch.log(wide)
        zero = lambdas.abs() < _NO_POWER
        exponent = lambdas * logs
        safe = torch.where(zero, 1.0, lambdas)
        small = torch.expm1(exponent) / safe
        large = torch.sign(safe) * torch.exp(exponent - torch.log(safe.abs())) - 1 / safe
        return torch.where(zero, logs, torch.where(exponent < _OVERFLOW, small, large))


def _log1p(x: torch.Tensor) -> torch.Tensor:
    return torch.log1p(x.to(torch.float64)).to(x.dtype)


# Where scipy's boxcox takes a power for zero, and where it goes through logarithms.
_NO_POWER, _OVERFLOW = 1e-19, 709.78


class QuantilesModule(torch.nn.Module):
    """Interpolate in both directions, and take the mean."""

    up: torch.Tensor
    up_slopes: torch.Tensor
    down: torch.Tensor
    down_slopes: torch.Tensor
    references: torch.Tensor
    backwards: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor
    twice: torch.Tensor

    def __init__(self, operator: Quantiles) -> None:
        super().__init__()
        self.normal = operator.normal
        up = operator.quantiles.T.astype(np.float64)
        # The two directions differ in columns in which a quantile is there twice.
        twice = np.flatnonzero((np.diff(up) <= 0).any(axis=1))
        self.register_buffer("twice", to_tensor(twice))
        forwards = (("up", up, "references", operator.references),)
        turned = (("down", -up[twice, ::-1], "backwards", -operator.references[::-1]),)
        for known, places, values, heights in forwards + turned:
            self.register_buffer(known, to_tensor(places))
            self.register_buffer(values, to_tensor(heights))
            with np.errstate(all="ignore"):
                slopes = np.diff(heights) / np.diff(places)
            self.register_buffer(f"{known}_slopes", to_tensor(np.pad(slopes, ((0, 0), (0, 1)))))
        self.register_buffer("first", to_tensor(operator.quantiles[0]))
        self.register_buffer("last", to_tensor(operator.quantiles[-1]))
        # The library clips before the quantiles of 1e-7 and of 1 - 1e-7, less a step.
        edge = torch.tensor(_BOUND - np.spacing(1), dtype=torch.float64)
        self.low, self.high = float(torch.special.ndtri(edge)), float(torch.special.ndtri(1 - edge))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        turned = x.to(torch.float64).t().contiguous()
        up = _interpolated(turned, self.up, self.references, self.up_slopes)
        if len(self.twice):
            some = turned.index_select(0, self.twice)
            down = _interpolated(-some, self.down, self.backwards, self.down_slopes)
            up = up.index_copy(0, self.twice, 0.5 * (up.index_select(0, self.twice) - down))
        share = torch.where(torch.isnan(turned), turned, up).t().to(x.dtype).contiguous()
        below = x - _BOUND < self.first if self.normal else x == self.first
        above = x + _BOUND > self.last if self.normal else x == self.last
        share = torch.where(below, torch.zeros_like(share), torch.where(above, torch.ones_like(share), share))
        if not self.normal:
            return share
        scores: torch.Tensor = torch.special.ndtri(share.to(torch.float64))
        return scores.clamp(self.low, self.high).to(x.dtype)


_BOUND = 1e-7


def _interpolated(x: torch.Tensor, known: torch.Tensor, values: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """``numpy.interp``, bit by bit, of one table of values for all columns.

    Tables and their knots are turned: of shape (columns, rows) and (columns, knots).
    """
    last = known.shape[1] - 1
    at = torch.searchsorted(known, x, right=True) - 1
    left = at.clamp(0, max(last - 1, 0))
    knot, height = known.gather(1, left), values[left]
    inside = slopes.gather(1, left) * (x - knot) + height
    inside = torch.where(x == knot, height, inside)
    return torch.where(at < 0, values[0], torch.where(at >= last, values[last], inside))


class BinsModule(torch.nn.Module):
    """Count the edges that are not above."""

    def __init__(self, operator: Bins) -> None:
        super().__init__()
        ends = np.cumsum(operator.sizes)
        self.columns = len(ends)
        for place, (end, size) in enumerate(zip(ends, operator.sizes, strict=True)):
            self.register_buffer(f"edges_{place}", to_tensor(operator.edges[end - size : end]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        wide = x.to(torch.float64)
        columns = [
            torch.searchsorted(getattr(self, f"edges_{place}"), wide[:, place].contiguous(), right=True)
            for place in range(self.columns)
        ]
        return torch.stack(columns, dim=1)


class MonomialsModule(torch.nn.Module):
    """Multiply columns, round by round."""

    def __init__(self, operator: Monomials) -> None:
        super().__init__()
        ends = np.cumsum(operator.rounds)
        self.rounds, self.products = len(ends), len(operator.left)
        self.runs = [_runs(operator.left[a:b], operator.right[a:b]) for a, b in pairwise([0, *ends.tolist()])]
        for number, (end, size) in enumerate(zip(ends, operator.rounds, strict=True)):
            self.register_buffer(f"left_{number}", to_tensor(operator.left[end - size : end]))
            self.register_buffer(f"right_{number}", to_tensor(operator.right[end - size : end]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        if torch.is_inference_mode_enabled() and not torch.compiler.is_compiling() and len(x) > ops.FEW_ROWS:
            return self._in_place(x)
        known = torch.cat([torch.ones_like(x[:, :1]) if x.shape[1] else x.new_ones((len(x), 1)), x], dim=1)
        for number in range(self.rounds):
            known = torch.cat([known, self._gathered(number, known, x)], dim=1)
        return known

    def _in_place(self, x: torch.Tensor) -> torch.Tensor:
        """Neighbouring columns times one column, without gathering either: five times as fast where rows are many."""
        at = x.shape[1] + 1
        known = x.new_empty((len(x), at + self.products))
        known[:, 0] = 1
        known[:, 1:at] = x
        for number, runs in enumerate(self.runs):
            if runs is None:
                products = self._gathered(number, known, x)
                known[:, at : at + products.shape[1]] = products
                at += products.shape[1]
            for left, right, size in runs or ():
                torch.mul(known[:, left : left + size], x[:, right : right + 1], out=known[:, at : at + size])
                at += size
        return known

    def _gathered(self, number: int, known: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        left = known.index_select(1, getattr(self, f"left_{number}"))
        return left * x.index_select(1, getattr(self, f"right_{number}"))


# Products of one call; fewer take longer than to gather them.
_RUN = 4


def _runs(left: NDArray[np.int64], right: NDArray[np.int64]) -> list[tuple[int, int, int]] | None:
    """Products as neighbouring left factors times one right one: places, and how many. ``None`` if they are few."""
    breaks = (np.diff(left) != 1) | (np.diff(right) != 0)
    starts = np.flatnonzero(np.append(True, breaks)[: len(left)])
    if len(left) < _RUN * len(starts):
        return None
    sizes = np.diff([*starts, len(left)])
    return [(int(left[at]), int(right[at]), int(size)) for at, size in zip(starts, sizes, strict=True)]


class PatchModule(torch.nn.Module):
    """Fill one column where it is missing."""

    def __init__(self, operator: Patch) -> None:
        super().__init__()
        self.column, self.mark = operator.column, operator.mark
        self.low, self.high = operator.low, operator.high

    def forward(self, x: torch.Tensor, marked: torch.Tensor, filling: torch.Tensor) -> torch.Tensor:
        """Run on the table to fill, the table with the marks, and the column that fills."""
        place = slice(self.column, self.column + 1)
        filled = torch.where(
            _holes(marked[:, place], self.mark), filling.clamp(self.low, self.high).to(x.dtype), x[:, place]
        )
        return torch.cat([x[:, : self.column], filled, x[:, self.column + 1 :]], dim=1)


def _holes(x: torch.Tensor, mark: float) -> torch.Tensor:
    return torch.isnan(x) if mark != mark else x == mark  # NaN is not itself


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Bins: BinsModule,
    ops.Missing: lambda operator: Apply(lambda x: _holes(x, operator.mark).to(x.dtype)),
    ops.Monomials: MonomialsModule,
    ops.Patch: PatchModule,
    ops.PowerTransform: PowerTransformModule,
    ops.Quantiles: QuantilesModule,
    ops.Ufunc: UfuncModule,
}
"""Constructors of modules, by operator class."""
