"""The values of the nearest points, and whether the library's choice of them can be known."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from udfs.compiling.torch._numbers import to_tensor, unit_rows

if TYPE_CHECKING:
    from optimizer.compiling import Neighbors

__all__ = ["NeighborsModule"]

_EXPONENTS = {"euclidean": 2.0, "sqeuclidean": 2.0, "manhattan": 1.0, "chebyshev": float("inf")}
# Votes that are nearer to each other than this part of the greatest may be in another order when added in another, or
# of distances in float32.
_NEAR, _NEAR_IN_SINGLE = 1e-12, 1e-5


# Minimum numbers of points and columns for a shortlist, number of extra points in it, and size of a group.
_FEW_POINTS, _FEW_COLUMNS, _SPARE, _GROUP = 256, 16, 6, 16


class Shortlist(torch.nn.Module):
    """Candidate nearest points, from a matrix product in float32, and their distances in float64.

    A matrix product is ten times as fast as a loop over the columns, but less accurate, because it computes squared
    distances as differences of larger numbers. The error is bounded, so the rows whose list may lack a point are known.

    Parameters
    ----------
    points : tensor of shape (points, columns), float64
        Training points.
    size : int
        Number of candidate points per row.
    """

    points: torch.Tensor
    middle: torch.Tensor
    turned: torch.Tensor
    squares: torch.Tensor

    def __init__(self, points: torch.Tensor, size: int) -> None:
        super().__init__()
        self.size = size
        middle = points.mean(dim=0)
        around = points - middle
        squares = around.square().sum(dim=1)
        self.register_buffer("points", points)
        self.register_buffer("middle", middle)
        # Points are divided into groups, whose nearest points are searched first. Padding points are infinitely far.
        self.groups = -(-len(points) // _GROUP)
        missing = self.groups * _GROUP - len(points)
        fill = torch.nn.functional.pad
        self.register_buffer("turned", fill(around.T.to(torch.float32), (0, missing)).contiguous())
        self.register_buffer("squares", fill(squares.to(torch.float32), (0, missing), value=float("inf")))
        self.largest = float(squares.max())
        self.off = float(torch.linalg.vector_norm(middle))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return distances and indices of shape (rows, size), and the least distance of a point that is not listed."""
        around = x - self.middle
        square = around.square().sum(dim=1)
        # But for the square of the row, which is one for all points.
        partial = torch.addmm(self.squares, around.to(torch.float32), self.turned, alpha=-2)
        values, places = self._least(partial)
        distance = torch.cdist(x[:, None, :], self.points[places], compute_mode="donot_use_mm_for_euclid_dist")[:, 0]
        narrow, wide = torch.finfo(torch.float32), torch.finfo(torch.float64)
        error = 4 * (x.shape[1] + 4) * (narrow.eps * (square + self.largest) + narrow.tiny)
        # What is lost as the middle is taken away.
        far = torch.linalg.vector_norm(x, dim=1) + self.off
        error = error + 8 * wide.eps * far * (square + self.largest + far.square()).sqrt()
        last = values[:, -1].to(torch.float64)
        # Beyond float32 nothing is known, nor is it of a row with NaN.
        least = torch.where(torch.isfinite(last), square + last - error, 0).nan_to_num(0.0).clamp(min=0).sqrt()
        return distance, places, least

    def _least(self, partial: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the smallest numbers of each row and their indices, from the groups with the smallest numbers."""
        grouped = partial.view(-1, _GROUP, self.groups)
        group = grouped.amin(dim=1).topk(min(self.size, self.groups), dim=1, largest=False).indices
        among = (group[:, None, :] + self.groups * torch.arange(_GROUP)[:, None]).flatten(1)
        values, order = partial.gather(1, among).topk(self.size, dim=1, largest=False)
        # Of a row with NaN, which is bad, any point may be listed.
        return values, among.gather(1, order).clamp(max=len(self.points) - 1)


class NeighborsModule(torch.nn.Module):
    """Average the values of neighbours."""

    points: torch.Tensor
    values: torch.Tensor

    def __init__(self, operator: Neighbors) -> None:
        super().__init__()
        self.metric, self.p = operator.metric, _EXPONENTS.get(operator.metric, operator.p)
        self.count = operator.count
        self.by_distance, self.expanded = operator.by_distance, operator.rounding == "expanded"
        self.eps = torch.finfo(torch.float32 if operator.rounding == "single" else torch.float64).eps
        self.near = _NEAR_IN_SINGLE if operator.rounding == "single" else _NEAR
        ends = [*operator.groups.tolist(), operator.values.shape[1]]
        self.groups = list(pairwise(ends))
        points = to_tensor(operator.points)
        self.register_buffer("points", unit_rows(points) if self.metric == "cosine" else points)
        self.register_buffer("values", to_tensor(operator.values))
        self.largest = float(points.square().sum(dim=1).max())
        wanted = self.count + 1 + _SPARE
        self.shortlist = None
        large = len(points) >= max(_FEW_POINTS, 8 * wanted) and points.shape[1] >= _FEW_COLUMNS
        if self.metric == "euclidean" and large:
            self.shortlist = Shortlist(points, wanted)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns): doubt, number of neighbours, values."""
        return self._nearest(x.to(torch.float64))

    def _distances(self, x: torch.Tensor) -> torch.Tensor:
        if self.metric == "cosine":
            return (1 - unit_rows(x) @ self.points.T).clamp(0, 2)
        return torch.cdist(x, self.points, self.p, compute_mode="donot_use_mm_for_euclid_dist")

    def _blur(self, x: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        """Return the gap below which the library may order two distances of a row either way."""
        eps = self.eps
        if self.metric == "cosine":
            return torch.full_like(distance, 8 * eps * x.shape[1])
        rounding = 4 * eps * (x.shape[1] + 1) * distance
        if not self.expanded:
            return rounding
        # An error in the square, as one in the distance; never more than its root.
        square = 4 * eps * (x.shape[1] + 4) * (x.square().sum(dim=1, keepdim=True) + self.largest)
        return rounding + torch.minimum(square.sqrt(), square / distance)

    def _ordered(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances and indices of the nearest points, one more than wanted if there are as many."""
        count = min(self.count + 1, len(self.points))
        if self.shortlist is None:
            distance, place = self._distances(x).topk(count, dim=1, largest=False)
            return distance, place
        near, listed, least = self.shortlist(x)
        distance, order = near.topk(count, dim=1, largest=False)
        place = listed.gather(1, order)
        unsure = torch.logical_not(distance[:, -1] < least).nonzero()[:, 0]
        if len(unsure):
            distance[unsure], place[unsure] = self._distances(x[unsure]).topk(count, dim=1, largest=False)
        return distance, place

    def _nearest(self, x: torch.Tensor) -> torch.Tensor:
        count = self.count
        distance, place = self._ordered(x)
        doubt = torch.zeros(len(x), dtype=torch.bool)
        if distance.shape[1] > count:
            last = distance[:, count - 1, None]
            blur = self._blur(x, last)
            tied = torch.logical_not(distance[:, count, None] - last > blur)[:, 0]
            rows = tied.nonzero()[:, 0]
            if len(rows):
                rivals = torch.logical_not((self._distances(x[rows]) - last[rows]).abs() > blur[rows])
                doubt[rows] = self._differ(rivals)
        near, chosen = distance[:, :count], self.values[place[:, :count]]
        if not self.by_distance:
            return self._result(doubt, torch.full((len(x), 1), count, dtype=x.dtype), chosen.mean(dim=1))
        doubt = doubt | self._zeros_differ(x, near, place[:, :count])
        weights = _weights(near)
        sums = (chosen * weights[:, :, None]).sum(dim=1)
        doubt = doubt | self._close_votes(sums, weights)
        mean = sums / weights.sum(dim=1, keepdim=True)
        return self._result(doubt, torch.full((len(x), 1), count, dtype=x.dtype), mean)

    def _differ(self, among: torch.Tensor) -> torch.Tensor:
        """Return whether the values of some points of a row differ."""
        least = torch.where(among[:, :, None], self.values, torch.inf).amin(dim=1)
        most = torch.where(among[:, :, None], self.values, -torch.inf).amax(dim=1)
        return (least < most).any(dim=1)

    def _zeros_differ(self, x: torch.Tensor, near: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Return whether rounding decides which of several points near distance zero counts alone."""
        if not self.expanded:
            return torch.zeros(len(x), dtype=torch.bool)
        noise = near <= self._blur(x, torch.zeros_like(near[:, :1]))
        values = self.values[place]
        least = torch.where(noise[:, :, None], values, torch.inf).amin(dim=1)
        most = torch.where(noise[:, :, None], values, -torch.inf).amax(dim=1)
        return (least < most).any(dim=1)

    def _close_votes(self, sums: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return whether the two greatest votes of a group are so close that the order of the sum decides."""
        close = torch.zeros(len(sums), dtype=torch.bool)
        for start, end in self.groups:
            if end - start > 1:
                first = sums[:, start:end].topk(2, dim=1).values
                close = close | (first[:, 0] - first[:, 1] <= self.near * first[:, 0])
        return close & (weights != weights.round()).any(dim=1)

    def _result(self, doubt: torch.Tensor, number: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.cat([doubt[:, None].to(values.dtype), number.to(values.dtype), values], dim=1)


def _weights(distance: torch.Tensor) -> torch.Tensor:
    # As the library tells what lies on a point: by its weight, which may be infinite a little before.
    near = torch.isinf(1 / distance)
    return torch.where(near.any(dim=1, keepdim=True), near.to(distance.dtype), 1 / distance)
