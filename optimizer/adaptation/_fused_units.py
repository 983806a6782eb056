"""Units of branches that train together, with their costs and memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._reuse import ReusePlans

__all__ = ["Fused"]


@dataclass(frozen=True, slots=True)
class Fused:
    """Branches that train together on one pass of the trunk, created by :meth:`of` and :meth:`join`.

    ``counts`` are numbers of branches, each with its number of members. ``levels`` are decreasing numbers of epochs,
    each with the nodes of the trunk that members with at least as many need. ``branch_flops`` are for one record over
    all epochs, ``step_bytes`` the gradients and live tensors of a batch in the largest branch.
    """

    counts: tuple[tuple[int, int], ...]
    batch_size: int
    levels: tuple[tuple[int, frozenset[int]], ...]
    branch_flops: int
    kept_bytes: int
    step_bytes: int

    @classmethod
    def of(cls, number: int, branch: Branch, feeds: frozenset[int]) -> Fused:
        """Create the unit of one member of a branch."""
        return cls(
            counts=((number, 1),),
            batch_size=branch.batch_size,
            levels=((branch.epochs, feeds),),
            branch_flops=branch.flops * branch.epochs,
            kept_bytes=branch.kept_bytes,
            step_bytes=branch.gradient_bytes + branch.peak_bytes * branch.batch_size,
        )

    def join(self, other: Fused) -> Fused:
        """Fuse two units with the same batch size."""
        return Fused(
            counts=tuple(sorted((Counter(dict(self.counts)) + Counter(dict(other.counts))).items())),
            batch_size=self.batch_size,
            levels=self.levels if self.levels == other.levels else _levels(self, other),
            branch_flops=self.branch_flops + other.branch_flops,
            kept_bytes=self.kept_bytes + other.kept_bytes,
            step_bytes=max(self.step_bytes, other.step_bytes),
        )

    def phases(self) -> Iterator[tuple[int, frozenset[int]]]:
        """Yield the phases with the same members in order, as numbers of epochs with the nodes that they need.

        A shared layer runs until the last member that needs it has ended.
        """
        done = 0
        for epochs, wanted in reversed(self.levels):
            yield epochs - done, wanted
            done = epochs

    def trunk_flops(self, plans: ReusePlans) -> int:
        """Return the FLOPs of the trunk for one record over all epochs."""
        return sum(epochs * plans.plan(wanted).flops for epochs, wanted in self.phases())

    def flops(self, plans: ReusePlans) -> int:
        """Return the FLOPs of the unit for one record over all epochs: equation 5 times the epochs of equation 6."""
        return self.branch_flops + self.trunk_flops(plans)

    def memory_bytes(self, plans: ReusePlans, workspace_bytes: int) -> int:
        """Predict the peak memory of the unit.

        Branches run one after the other, so only the largest step counts. Parameters of the trunk count whether their
        layers run or are read. `workspace_bytes` is what the framework needs for its operations.
        """
        trunks = [plans.memory(wanted) for _, wanted in self.levels]
        step = max(trunk.fed_bytes for trunk in trunks) * self.batch_size + self.step_bytes
        peak = max(trunk.peak_bytes for trunk in trunks) * self.batch_size
        params = max(trunk.param_bytes for trunk in trunks)
        return workspace_bytes + self.kept_bytes + params + max(step, peak)


def _levels(left: Fused, right: Fused) -> tuple[tuple[int, frozenset[int]], ...]:
    levels: list[tuple[int, frozenset[int]]] = []
    for epochs in sorted({level[0] for level in (*left.levels, *right.levels)}, reverse=True):
        reach = [wanted for least, wanted in (*left.levels, *right.levels) if least >= epochs]
        # Fewer epochs need more nodes; a level that adds none is part of the one above it.
        wanted = frozenset().union(*reach)
        if not levels or wanted != levels[-1][1]:
            levels.append((epochs, wanted))
    return tuple(levels)
