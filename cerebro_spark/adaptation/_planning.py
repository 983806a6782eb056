"""Planning of a campaign: layers to store for a number of records, and groups over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.adaptation import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from optimizer.adaptation import AdaptationPlan, Candidate, Costs

__all__ = ["Planning"]


@dataclass(frozen=True, slots=True)
class Planning:
    """Common arguments of all plans of a campaign.

    ``memory_bytes`` is the memory of a worker for a group, of which the framework uses ``workspace_bytes``. ``rows_of``
    returns the rows to store for a number of records, as many by default.
    """

    disk_bytes: int
    memory_bytes: int
    workspace_bytes: int
    workers: int
    costs: Costs
    materialise: bool = True
    fuse: bool = True
    joint: bool = True
    float_bytes: int = 4
    rows_of: Callable[[int], int] | None = None

    def choose(self, candidates: Sequence[Candidate], records: int) -> AdaptationPlan:
        """Choose the layers to store for a number of records, and the groups."""
        return self._plan(candidates, records, None)

    def group(self, candidates: Sequence[Candidate], records: int, stored: Collection[str]) -> AdaptationPlan:
        """Group candidates over the layers on disk, which have these expressions."""
        return self._plan(candidates, records, stored)

    def within(self, disk_bytes: int) -> Planning:
        """Return a planning with another limit of disk space."""
        return replace(self, disk_bytes=disk_bytes)

    def _plan(self, candidates: Sequence[Candidate], records: int, stored: Collection[str] | None) -> AdaptationPlan:
        return plan(
            candidates,
            records=records,
            stored_rows=None if self.rows_of is None else self.rows_of(records),
            disk_bytes=self.disk_bytes,
            memory_bytes=self.memory_bytes,
            workspace_bytes=self.workspace_bytes,
            workers=self.workers,
            costs=self.costs,
            materialise=self.materialise,
            fuse=self.fuse,
            joint=self.joint,
            stored=stored,
            float_bytes=self.float_bytes,
        )
