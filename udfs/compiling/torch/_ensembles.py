"""Operators that combine members of ensembles, and constants."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops
from udfs.compiling.torch._numbers import Apply, to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import (
        Average,
        Constant,
        LogMean,
        Operator,
        Pairwise,
        Votes,
        WeightedMedian,
    )

__all__ = [
    "MODULES",
    "AverageModule",
    "ConstantModule",
    "PairwiseModule",
    "VotesModule",
    "WeightedMedianModule",
]


class AverageModule(torch.nn.Module):
    """Add tables one after the other: the library's order gives the library's bits."""

    def __init__(self, operator: Average) -> None:
        super().__init__()
        self.weights, self.divisor = operator.weights.tolist(), operator.divisor

    def forward(self, *tables: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns)."""
        terms = tables
        if self.weights:
            terms = tuple(table.to(torch.float64) * weight for table, weight in zip(tables, self.weights, strict=True))
        total = terms[0]
        for table in terms[1:]:
            total = total + table
        return total / self.divisor


class VotesModule(torch.nn.Module):
    """Count votes, voter after voter."""

    hits: torch.Tensor
    misses: torch.Tensor
    classes: torch.Tensor

    def __init__(self, operator: Votes) -> None:
        super().__init__()
        self.register_buffer("hits", to_tensor(operator.hits))
        self.register_buffer("misses", to_tensor(operator.misses))
        self.register_buffer("classes", torch.arange(operator.classes))
        self.voters = len(operator.hits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on places of shape (rows, voters)."""
        total = torch.zeros((x.shape[0], len(self.classes)), dtype=self.hits.dtype)
        for voter in range(self.voters):
            named = x[:, voter : voter + 1] == self.classes
            total = total + torch.where(named, self.hits[voter], self.misses[voter])
        return total


class PairwiseModule(torch.nn.Module):
    """Count the pairs that a class wins, and break ties by confidences."""

    def __init__(self, operator: Pairwise) -> None:
        super().__init__()
        self.classes = operator.classes

    def forward(self, decisions: torch.Tensor, confidences: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, pairs)."""
        nothing = torch.zeros(len(decisions), dtype=torch.float64)
        votes, sums = [nothing] * self.classes, [nothing] * self.classes
        pair = 0
        for first in range(self.classes):
            for second in range(first + 1, self.classes):
                sums[first] = sums[first] - confidences[:, pair]
                sums[second] = sums[second] + confidences[:, pair]
                votes[first] = votes[first] + (decisions[:, pair] == 0)
                votes[second] = votes[second] + (decisions[:, pair] == 1)
                pair += 1
        confidence = torch.stack(sums, dim=1)
        return torch.stack(votes, dim=1) + confidence / (3 * (confidence.abs() + 1))


class WeightedMedianModule(torch.nn.Module):
    """Sort each row, and go up to half of the weights."""

    weights: torch.Tensor

    def __init__(self, operator: WeightedMedian) -> None:
        super().__init__()
        self.register_buffer("weights", to_tensor(operator.weights))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        ordered, order = torch.sort(x.to(torch.float64), dim=1, stable=True)
        reached = self.weights[order].cumsum(dim=1)
        half = (reached >= 0.5 * reached[:, -1:]).to(torch.int8).argmax(dim=1, keepdim=True)
        return ordered.gather(1, half)


class ConstantModule(torch.nn.Module):
    """The same row for all."""

    values: torch.Tensor

    def __init__(self, operator: Constant) -> None:
        super().__init__()
        self.register_buffer("values", to_tensor(operator.values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of any table."""
        return self.values.expand(x.shape[0], -1)


def _log_mean(operator: LogMean) -> Apply:
    """Return a module that adds what the logarithms are of, one table after the other."""
    divisor = math.log(operator.divisor)
    return Apply(lambda *tables: reduce(torch.logaddexp, tables) - divisor)


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.Average: AverageModule,
    ops.Constant: ConstantModule,
    ops.LogMean: _log_mean,
    ops.Pairwise: PairwiseModule,
    ops.Votes: VotesModule,
    ops.WeightedMedian: WeightedMedianModule,
}
"""Constructors of modules, by operator class."""
