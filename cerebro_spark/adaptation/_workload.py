"""The configurations that a cycle begins with, as the planner takes them."""

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
    """Configurations and the epochs that they are to train.

    Parameters
    ----------
    configurations : tuple of (OpenedCandidate, int)
        At least one.
    """

    configurations: tuple[tuple[OpenedCandidate, int], ...]

    @property
    def candidates(self) -> list[Candidate]:
        """The planner's candidates, by their places."""
        return [
            candidate
            for place, (opened, epochs) in enumerate(self.configurations)
            for candidate in opened.candidates(f"c{place:03d}", epochs)
        ]

    @property
    def batch_size(self) -> int:
        """Rows that pass the frozen layers at a time: the smallest batch of all."""
        return min(opened.batch_size for opened, _ in self.configurations)

    @property
    def epochs(self) -> float:
        """Epochs that a configuration trains, the mean of all."""
        return fmean(epochs for _, epochs in self.configurations)

    def params_with(self, expressions: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Give for each of some frozen layers the params of a configuration that has it.

        Of as few configurations as can be found quickly, for a worker opens each.

        Raises
        ------
        KeyError
            None has a layer.
        """
        left = list(dict.fromkeys(expressions))
        has = [
            ({opened.graph.expression(name) for name in materialisable(opened.graph)}, opened.params)
            for opened, _ in self.configurations
        ]
        found: dict[str, Mapping[str, Any]] = {}
        while left:
            own, params = max(has, key=lambda each: len(each[0].intersection(left)))
            covered = own.intersection(left)
            if not covered:
                raise KeyError(left[0])
            found |= dict.fromkeys((one for one in left if one in covered), params)
            left = [one for one in left if one not in covered]
        return found

    @property
    def deepest(self) -> tuple[Mapping[str, Any], list[str]] | None:
        """Params of the configuration with the most frozen work, and the layers that its branch reads.

        ``None`` where nothing is frozen.
        """
        opened = max((each for each, _ in self.configurations), key=lambda each: each.frozen_flops)
        return (opened.params, opened.feeds) if opened.frozen_flops else None
