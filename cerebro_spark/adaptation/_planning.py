"""Plans of a campaign: which layers lie on disk for a number of records, and who trains together over them."""

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
    """What all plans of a campaign have in common.

    Parameters
    ----------
    disk_bytes : int
        For stored layers.
    memory_bytes, workspace_bytes : int
        Of a worker, for a group; and what the framework takes of that.
    workers : int
    costs : Costs
    materialise, fuse, joint : bool
    float_bytes : int
        As for :func:`optimizer.adaptation.plan`.
    rows_of : callable, optional
        Counts the rows to store of so many records. Default ``None``: they are not augmented.
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
        """Choose the layers to keep on disk for so many records, and the groups."""
        return self._plan(candidates, records, None)

    def group(self, candidates: Sequence[Candidate], records: int, stored: Collection[str]) -> AdaptationPlan:
        """Group candidates over the layers that lie on disk, which are given by their expressions."""
        return self._plan(candidates, records, stored)

    def within(self, disk_bytes: int) -> Planning:
        """Plan with less disk."""
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
