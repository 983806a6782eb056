"""Distances of rows from points, and what libsvm makes of pairs of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._neighbors import NeighborsModule
from udfs.compiling.torch._numbers import to_tensor, unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.compiling import Coupling, Distances, Least, Operator

__all__ = ["MODULES", "CouplingModule", "DistancesModule", "LeastModule"]

_EXPONENTS = {"sqeuclidean": 2.0, "euclidean": 2.0, "manhattan": 1.0, "chebyshev": float("inf")}


class DistancesModule(torch.nn.Module):
    """Compute the distance of each row to each point, from differences."""

    points: torch.Tensor

    def __init__(self, operator: Distances) -> None:
        super().__init__()
        self.metric, self.p = operator.metric, _EXPONENTS.get(operator.metric, operator.p)
        points = to_tensor(operator.points)
        self.register_buffer("points", unit_rows(points) if operator.metric == "cosine" else points)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        dtype = torch.promote_types(x.dtype, self.points.dtype)
        rows, points = x.to(dtype), self.points.to(dtype)
        if self.metric == "cosine":
            return (1 - unit_rows(rows) @ points.T).clamp(0, 2)
        distances = torch.cdist(rows, points, self.p, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.square() if self.metric == "sqeuclidean" else distances


class LeastModule(torch.nn.Module):
    """Find the least numbers of each row, and their places."""

    def __init__(self, operator: Least) -> None:
        super().__init__()
        self.count = operator.count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        values, places = torch.sort(x, dim=1, stable=True)
        return torch.cat([values[:, : self.count], places[:, : self.count].to(x.dtype)], dim=1)


class CouplingModule(torch.nn.Module):
    """Couple the probabilities of pairs, by the rounds that libsvm makes: a row stops as soon as libsvm stops."""

    def __init__(self, operator: Coupling) -> None:
        super().__init__()
        self.classes = operator.classes
        pairs = [(first, second) for first in range(self.classes) for second in range(first + 1, self.classes)]
        self.one, self.other = ([pair[side] for pair in pairs] for side in (0, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, pairs)."""
        classes, rows = self.classes, len(x)
        # r[:, i, j] is the probability of i against j; Q as in equation 25 of the paper.
        r = torch.zeros((rows, classes, classes), dtype=x.dtype)
        r[:, self.one, self.other], r[:, self.other, self.one] = x, 1 - x
        q = -r.transpose(1, 2) * r + torch.diag_embed(r.square().sum(dim=1))
        p = torch.full((rows, classes), 1 / classes, dtype=x.dtype)
        running = torch.ones((rows, 1), dtype=torch.bool)
        for _ in range(max(100, classes)):
            qp = (q @ p[:, :, None])[:, :, 0]
            pqp = (p * qp).sum(dim=1, keepdim=True)
            # NaN stops a row, as no error of libsvm's is then the greatest one.
            running = running & ((qp - pqp).abs().amax(dim=1, keepdim=True) >= 0.005 / classes)
            if not running.any():
                break
            moved = p
            for place in range(classes):
                self_term = q[:, place, place, None]
                step = (pqp - qp[:, place, None]) / self_term
                moved = torch.cat([moved[:, :place], moved[:, place, None] + step, moved[:, place + 1 :]], dim=1)
                pqp = (pqp + step * (step * self_term + 2 * qp[:, place, None])) / (1 + step) / (1 + step)
                qp = (qp + step * q[:, place]) / (1 + step)
                moved = moved / (1 + step)
            p = torch.where(running, moved, p)
        return p


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Coupling: CouplingModule,
    ops.Distances: DistancesModule,
    ops.Least: LeastModule,
    ops.Neighbors: NeighborsModule,
}
"""Constructors of modules, by operator class."""
