"""Module that fills missing numbers from the nearest points, and flags rows whose donors depend on rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import NearestFill, Operator

__all__ = ["MODULES", "NearestFillModule"]

# How far a distance that is a weight may be off, relative to itself.
_NEAR = 1e-6


class NearestFillModule(torch.nn.Module):
    """Fill column by column, from the points that have a number there."""

    points: torch.Tensor
    means: torch.Tensor

    def __init__(self, operator: NearestFill) -> None:
        super().__init__()
        self.count, self.by_distance, self.step = operator.count, operator.by_distance, operator.step
        self.register_buffer("points", to_tensor(operator.points))
        self.register_buffer("means", to_tensor(operator.means))
        self.largest = float(torch.nan_to_num(self.points).square().sum(dim=1).max())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns): doubt, then the filled columns."""
        wide, missing = x.to(torch.float64), torch.isnan(x)
        filled, doubt = wide.clone(), torch.zeros(len(x), dtype=torch.bool)
        known = ~torch.isnan(self.means)
        rows = (missing & known).any(dim=1).nonzero()[:, 0]
        if len(rows):
            square, error = self._squares(wide[rows])
            for column in (missing[rows].any(dim=0) & known).nonzero()[:, 0].tolist():
                holes = missing[rows, column].nonzero()[:, 0]
                donors = (~torch.isnan(self.points[:, column])).nonzero()[:, 0]
                value, unsure = self._mean(
                    square[holes][:, donors], error[holes][:, donors], self.points[donors, column], self.means[column]
                )
                filled[rows[holes], column] = value
                doubt[rows[holes]] |= unsure
        return torch.cat([doubt[:, None].to(x.dtype), filled.to(x.dtype)], dim=1)

    def _squares(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return squared distances, infinite where no column is shared, and bounds of the library's error."""
        total = torch.zeros((len(x), len(self.points)), dtype=torch.float64)
        shared = torch.zeros_like(total)
        for column in range(x.shape[1]):
            gap = x[:, column, None] - self.points[None, :, column]
            there = ~torch.isnan(gap)
            total += torch.where(there, gap.square(), 0.0)
            shared += there
        width = x.shape[1]
        scale = width / shared.clamp(min=1)
        size = torch.nan_to_num(x).square().sum(dim=1, keepdim=True) + self.largest
        return torch.where(shared > 0, total * scale, torch.inf), 8 * self.step * (width + 4) * size * scale

    def _mean(
        self, square: torch.Tensor, error: torch.Tensor, values: torch.Tensor, plain: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean of the nearest values for each row, and whether it is in doubt."""
        count = min(self.count, square.shape[1])
        near, place = square.topk(count, dim=1, largest=False)
        last, shared = near[:, -1:], torch.isfinite(near)
        # Points about as far as the last one that counts: among them the library chooses in its own way.
        slack = error + error.gather(1, place[:, -1:])
        band = torch.isfinite(last) & ((square - last).abs() <= slack)
        nearest = torch.zeros_like(band).scatter_(1, place, value=True)
        unsure = (band & ~nearest).any(dim=1) & _differ(band, values)
        weights = shared.to(torch.float64)
        chosen = values[place]
        if self.by_distance:
            off = error.gather(1, place) > _NEAR * near
            donors = torch.where(shared, chosen, chosen[:, :1])
            unsure |= (off & shared).any(dim=1) & (donors.amin(dim=1) < donors.amax(dim=1))
            distance = near.sqrt()
            zero = distance == 0
            donor_weights = torch.where(zero.any(dim=1, keepdim=True), zero.to(torch.float64), 1 / distance)
            weights = torch.where(shared, donor_weights, 0.0)
        mean = (chosen * weights).sum(dim=1) / weights.sum(dim=1)
        return torch.where(shared.any(dim=1), mean, plain), unsure


def _differ(among: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return whether the values of some points of a row differ."""
    least = torch.where(among, values, torch.inf).amin(dim=1)
    return least < torch.where(among, values, -torch.inf).amax(dim=1)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {ops.NearestFill: NearestFillModule}
"""Constructors of modules, by operator class."""
