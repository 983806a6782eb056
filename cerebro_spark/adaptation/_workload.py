"""The configurations that a cycle begins with, as the planner takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.graph import materialisable

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        return [opened.candidate(f"c{place:03d}", epochs) for place, (opened, epochs) in enumerate(self.configurations)]

    @property
    def batch_size(self) -> int:
        """Rows that pass the frozen layers at a time: the smallest batch of all."""
        return min(opened.batch_size for opened, _ in self.configurations)

    def params_with(self, expression: str) -> Mapping[str, Any]:
        """Give the params of a configuration that has a frozen layer.

        Raises
        ------
        KeyError
            None has it.
        """
        for opened, _ in self.configurations:
            if any(opened.graph.expression(name) == expression for name in materialisable(opened.graph)):
                return opened.params
        raise KeyError(expression)

    @property
    def deepest(self) -> tuple[Mapping[str, Any], list[str]] | None:
        """Params of the configuration with the most frozen work, and the layers that its branch reads.

        ``None`` where nothing is frozen.
        """
        opened = max((each for each, _ in self.configurations), key=lambda each: each.frozen_flops)
        return (opened.params, opened.feeds) if opened.frozen_flops else None
