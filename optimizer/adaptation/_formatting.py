"""Formatting of a plan's description.

A plan assigns candidates (models to train) to groups that train together. A phase is a number of epochs in which a
group reads and computes the same frozen layers. The cost of reading stored layers is a number of FLOPs: those that the
worker could compute in the time of reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.adaptation._group import Group

__all__ = ["describe_group", "format_count", "format_flops", "format_names"]

_SHOWN_NAMES = 4


def describe_group(number: int, group: Group) -> list[str]:
    """Describe a group in a line for members, memory and costs, and a line for each phase."""
    members = f"{format_count(len(group.members), 'member')} ({format_names(group.members)})"
    computed, read = format_flops(group.compute_flops), format_flops(group.load_flops)
    flops = f"{computed} FLOPs computed, reading costs as much as {read}"
    lines = [f"group {number}: {members}, batch {group.batch_size}, {size(group.memory_bytes)}, {flops}"]
    for phase in group.phases:
        computes = f"{len(phase.computes)} ({format_names(phase.computes)})" if phase.computes else "none"
        lines.append(f"  {format_count(phase.epochs, 'epoch')}: reads {format_names(phase.loads)}; computes {computes}")
    return lines


def format_names(names: Sequence[str]) -> str:
    """Format a list of names, shortened to the first few."""
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more


def format_count(number: int, noun: str) -> str:
    """Format a number with a noun, in the plural except after 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_flops(flops: float) -> str:
    """Format a number of FLOPs with a unit prefix; prefixes are powers of 1000."""
    for prefix in ("", " K", " M", " G", " T"):
        if flops < 1000:
            return f"{flops:,.0f}" if not prefix else f"{flops:,.1f}{prefix}"
        flops /= 1000
    return f"{flops:,.1f} P"
