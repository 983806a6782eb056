"""A plan of an adaptation in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._plan import AdaptationPlan, Group

__all__ = ["explain", "listed"]

_SHOWN = 4


def explain(plan: AdaptationPlan) -> str:
    """Write the plan, see ``AdaptationPlan.explain``."""
    members = len(plan.feeds)
    workers = f"{plan.workers} worker{'s' if plan.workers > 1 else ''}"
    kept = f"{listed(plan.materialised)}, {_size(plan.materialised_bytes)} on disk" if plan.materialised else "nothing"
    current = _count(plan.current_flops)
    fewer = plan.current_flops / max(plan.flops, 1)
    doubt = "" if plan.optimal else "; the solver ran out of time, so there may be better layers"
    groups = f"{len(plan.groups)} group{_s(plan.groups)}"
    return "\n".join(
        [
            f"{members} candidate{'s' if members > 1 else ''} in {groups}, {plan.records:,} records, {workers}",
            f"materialised: {kept}",
            *(line for i, group in enumerate(plan.groups, 1) for line in _group(i, group)),
            f"FLOPs: {_count(plan.flops)}, {fewer:.2f} times fewer than current practice ({current})",
            f"equation 11: {plan.theoretical_speedup:.2f} times fewer if all frozen outputs were read at no cost",
            f"predicted: {plan.seconds:,.1f} s on {workers}{doubt}",
            *(f"note: {note}" for note in plan.notes),
        ]
    )


def _group(number: int, group: Group) -> list[str]:
    members = f"{len(group.members)} member{_s(group.members)} ({listed(group.members)})"
    flops = f"{_count(group.compute_flops)} FLOPs computed, {_count(group.load_flops)} missed while reading"
    lines = [f"group {number}: {members}, batch {group.batch_size}, {_size(group.memory_bytes)}, {flops}"]
    for phase in group.phases:
        computes = f"computes {len(phase.computes)} ({listed(phase.computes)})" if phase.computes else "computes none"
        lines.append(
            f"  {phase.epochs} epoch{'s' if phase.epochs > 1 else ''}: reads {listed(phase.loads)}; {computes}"
        )
    return lines


def listed(names: Sequence[str]) -> str:
    """Name the first few and count the rest."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _s(things: Sequence[object]) -> str:
    return "" if len(things) == 1 else "s"


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:  # noqa: PLR2004 - bytes in a KiB
            return f"{nbytes:,.0f} {unit}" if unit == "B" else f"{nbytes:,.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} TiB"


def _count(flops: float) -> str:
    for prefix in ("", " K", " M", " G", " T"):
        if flops < 1000:  # noqa: PLR2004 - a thousand
            return f"{flops:,.0f}" if not prefix else f"{flops:,.1f}{prefix}"
        flops /= 1000
    return f"{flops:,.1f} P"
