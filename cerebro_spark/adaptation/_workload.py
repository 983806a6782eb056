"""Configurations at the start of a cycle, as input of the planner."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cerebro_spark.adaptation._candidates import OpenedCandidate
    from optimizer.adaptation import Candidate

__all__ = ["Workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """Configurations with their epochs."""

    configurations: tuple[tuple[OpenedCandidate, int], ...]

    @property
    def candidates(self) -> list[Candidate]:
        """Candidates of the planner, named by their places."""
        return [
            candidate
            for place, (opened, epochs) in enumerate(self.configurations)
            for candidate in opened.candidates(f"c{place:03d}", epochs)
        ]

    @property
    def batch_size(self) -> int:
        """Number of rows that pass the frozen layers at a time: the smallest batch size."""
        return min(opened.batch_size for opened, _ in self.configurations)

    @property
    def epochs(self) -> float:
        """Mean number of epochs of a configuration."""
        return fmean(epochs for _, epochs in self.configurations)

    def params_with(self, expressions: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return the params of a configuration for each of some frozen layers, with few configurations in total.

        Raises
        ------
        KeyError
            No configuration has a layer.
        """
        left = list(dict.fromkeys(expressions))
        has = [
            ({opened.graph.expression(name) for name in materialisable(opened.graph)}, opened.params)
            for opened, _ in self.configurations
        ]
        params_by_layer: dict[str, Mapping[str, Any]] = {}
        while left:
            layers, params = max(has, key=lambda each: len(each[0].intersection(left)))
            covered = layers.intersection(left)
            if not covered:
                raise KeyError(left[0])
            params_by_layer |= dict.fromkeys((layer for layer in left if layer in covered), params)
            left = [layer for layer in left if layer not in covered]
        return params_by_layer

    @property
    def deepest(self) -> tuple[Mapping[str, Any], list[str]] | None:
        """Params of the configuration with the most frozen FLOPs, and the layers that its branch reads.

        ``None`` if nothing is frozen.
        """
        opened = max((each for each, _ in self.configurations), key=lambda each: each.frozen_flops)
        return (opened.params, opened.feeds) if opened.frozen_flops else None
