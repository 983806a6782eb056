"""Error of a planner that finds no plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from optimizer.memory._spec import ClusterSpec

__all__ = ["InfeasiblePlanError"]


class InfeasiblePlanError(CerebroError):
    """No configuration of a cluster meets every constraint of a plan.

    ``constraint`` (``"cores"``, ``"partition"``, ``"memory"``, ``"gpu"``, ``"driver"`` or ``"heap"``) is the first one
    that fails with the fewest cores that were asked for, by ``short_bytes``. ``smallest`` is the cluster with each
    machine raised to the smallest that will do, ``None`` where no machine would.
    """

    def __init__(
        self, message: str, constraint: str = "", short_bytes: int = 0, smallest: ClusterSpec | None = None
    ) -> None:
        super().__init__(message, constraint, short_bytes, smallest)
        self.constraint = constraint
        self.short_bytes = short_bytes
        self.smallest = smallest

    @property
    def smallest_memory_bytes(self) -> int | None:
        """Memory of a worker node with which there is a plan; ``None`` where no memory would do."""
        return None if self.smallest is None else self.smallest.memory_bytes

    def __str__(self) -> str:
        return str(self.args[0])
