"""Branches fused into one unit: what it costs and what it holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._reuse import ReusePlans

__all__ = ["Fused", "Memory"]


@dataclass(frozen=True, slots=True)
class Memory:
    """How a fused unit's memory is counted.

    Parameters
    ----------
    workspace_bytes : int
        What the framework takes for its operations.
    barrier : bool
        One loss for all branches, as in the paper: every branch's forward pass is over before the first backward pass
        begins, so their tensors add up; and parameters of layers that are read count as none. Else branches run one
        after the other, only the largest counts, and parameters count whether their layers are run or read.
    """

    workspace_bytes: int
    barrier: bool


@dataclass(frozen=True, slots=True)
class Fused:
    """Branches that train together on one pass of the trunk. Made by :meth:`of` and :meth:`join`.

    Attributes
    ----------
    counts : tuple of (int, int)
        Branches by number, and how many members of each, in order.
    batch_size : int
    levels : tuple of (int, frozenset of int)
        Epochs, falling, and the nodes of the trunk that members with at least as many need.
    branch_flops : int
        FLOPs of the branches for one record, over their epochs.
    kept_bytes : int
        Parameters and optimizer slots of all branches.
    step_bytes : int
        Gradients and live tensors of a batch, of the largest branch.
    gradient_bytes, loss_bytes, rise_bytes : int
        For the barrier: gradients of all branches, their live tensors of a batch at the loss, and by how much the
        peak of one is above that.
    """

    counts: tuple[tuple[int, int], ...]
    batch_size: int
    levels: tuple[tuple[int, frozenset[int]], ...]
    branch_flops: int
    kept_bytes: int
    step_bytes: int
    gradient_bytes: int
    loss_bytes: int
    rise_bytes: int

    @classmethod
    def of(cls, number: int, branch: Branch, feeds: frozenset[int]) -> Fused:
        """Make the unit of one member of a branch."""
        return cls(
            counts=((number, 1),),
            batch_size=branch.batch_size,
            levels=((branch.epochs, feeds),),
            branch_flops=branch.flops * branch.epochs,
            kept_bytes=branch.kept_bytes,
            step_bytes=branch.gradient_bytes + branch.peak_bytes * branch.batch_size,
            gradient_bytes=branch.gradient_bytes,
            loss_bytes=branch.loss_bytes * branch.batch_size,
            rise_bytes=(branch.peak_bytes - branch.loss_bytes) * branch.batch_size,
        )

    def join(self, other: Fused) -> Fused:
        """Fuse two units of one batch size."""
        return Fused(
            counts=tuple(sorted((Counter(dict(self.counts)) + Counter(dict(other.counts))).items())),
            batch_size=self.batch_size,
            levels=self.levels if self.levels == other.levels else _levels(self, other),
            branch_flops=self.branch_flops + other.branch_flops,
            kept_bytes=self.kept_bytes + other.kept_bytes,
            step_bytes=max(self.step_bytes, other.step_bytes),
            gradient_bytes=self.gradient_bytes + other.gradient_bytes,
            loss_bytes=self.loss_bytes + other.loss_bytes,
            rise_bytes=max(self.rise_bytes, other.rise_bytes),
        )

    def phases(self) -> Iterator[tuple[int, frozenset[int]]]:
        """Yield the runs of epochs with the same members, first to last: how many, and the nodes that they need.

        A shared layer runs until the last member that needs it has ended, and not a moment longer.
        """
        done = 0
        for epochs, wanted in reversed(self.levels):
            yield epochs - done, wanted
            done = epochs

    def trunk_flops(self, plans: ReusePlans) -> int:
        """Sum up what the trunk costs for one record, over all epochs."""
        return sum(epochs * plans.plan(wanted).flops for epochs, wanted in self.phases())

    def flops(self, plans: ReusePlans) -> int:
        """Sum up what the unit costs for one record, over all epochs: equation 5 times the epochs of equation 6."""
        return self.branch_flops + self.trunk_flops(plans)

    def memory_bytes(self, plans: ReusePlans, memory: Memory) -> int:
        """Predict the peak of the unit: parameters, slots, gradients, workspace and live tensors times the batch."""
        trunks = [plans.memory(wanted) for _, wanted in self.levels]
        held = max(trunk.fed_bytes for trunk in trunks) * self.batch_size
        if memory.barrier:
            held += self.gradient_bytes + self.loss_bytes + self.rise_bytes
            params = max(trunk.param_bytes for trunk in trunks)
        else:
            held += self.step_bytes
            params = max(trunk.held_bytes for trunk in trunks)
        peak = max(trunk.peak_bytes for trunk in trunks) * self.batch_size
        return memory.workspace_bytes + self.kept_bytes + params + max(held, peak)


def _levels(one: Fused, other: Fused) -> tuple[tuple[int, frozenset[int]], ...]:
    levels: list[tuple[int, frozenset[int]]] = []
    for epochs in sorted({level[0] for level in (*one.levels, *other.levels)}, reverse=True):
        reach = [wanted for least, wanted in (*one.levels, *other.levels) if least >= epochs]
        # Falling epochs need ever more; a level that adds nothing is part of the one above it.
        wanted = frozenset().union(*reach)
        if not levels or wanted != levels[-1][1]:
            levels.append((epochs, wanted))
    return tuple(levels)
