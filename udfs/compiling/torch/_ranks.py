"""Modules that sort the numbers of a row, and gather by places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import optimizer.compiling as ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from optimizer.compiling import Operator, TopK

__all__ = ["MODULES", "GatherElementsModule", "TopKModule"]


class TopKModule(torch.nn.Module):
    """Sort, and cut off."""

    def __init__(self, operator: TopK) -> None:
        super().__init__()
        self.count, self.largest, self.places = operator.count, operator.largest, operator.places

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run on a batch of shape (rows, columns)."""
        # topk() leaves open which of equals comes first.
        values, places = torch.sort(x, dim=1, descending=self.largest, stable=True)
        return (places if self.places else values)[:, : self.count]


class GatherElementsModule(torch.nn.Module):
    """Gather by places."""

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Run on batches of shape (rows, columns)."""
        whole = places.to(torch.int64)
        return x.gather(1, torch.where(whole < 0, whole + x.shape[1], whole))


MODULES: Mapping[type[Operator], Callable[[Any], torch.nn.Module]] = {
    ops.GatherElements: lambda _: GatherElementsModule(),
    ops.TopK: TopKModule,
}
"""How to make the module of an operator, by its class."""
