"""Formatting of a plan's description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.adaptation._group import Group

__all__ = ["count", "group_lines", "listed", "plural"]

_SHOWN = 4


def group_lines(number: int, group: Group) -> list[str]:
    """Describe a group in a line for members, memory and costs, and a line for each phase."""
    members = f"{plural(len(group.members), 'member')} ({listed(group.members)})"
    flops = f"{count(group.compute_flops)} FLOPs computed, {count(group.load_flops)} missed while reading"
    lines = [f"group {number}: {members}, batch {group.batch_size}, {size(group.memory_bytes)}, {flops}"]
    for phase in group.phases:
        computes = f"{len(phase.computes)} ({listed(phase.computes)})" if phase.computes else "none"
        lines.append(f"  {plural(phase.epochs, 'epoch')}: reads {listed(phase.loads)}; computes {computes}")
    return lines


def listed(names: Sequence[str]) -> str:
    """Format a list of names, shortened to the first few."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def plural(number: int, noun: str) -> str:
    """Format a number with a noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count(flops: float) -> str:
    """Format a number of FLOPs with a unit prefix."""
    for prefix in ("", " K", " M", " G", " T"):
        if flops < 1000:  # a thousand
            return f"{flops:,.0f}" if not prefix else f"{flops:,.1f}{prefix}"
        flops /= 1000
    return f"{flops:,.1f} P"
