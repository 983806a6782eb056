"""Figure of the memory regions of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optimizer.memory import TransferPlan

__all__ = ["memory_figure"]

_GIB = 2**30


def memory_figure(plan: TransferPlan) -> Figure:
    """Draw the regions of a worker node's memory, by the names of Spark's settings and of the paper."""
    from udfs.driver.figure import NotebookFigure

    figure = NotebookFigure(figsize=(10, 3.8), layout="constrained")
    axes = figure.subplots()
    heap = [
        ("set aside by Spark", plan.set_aside_bytes, "#c7c7c7"),
        ("driver", plan.driver_bytes if plan.cluster.local else 0, "#d9c9e8"),
        ("User", plan.user_bytes, "#f2c48d"),
        ("Core", plan.core_bytes - plan.off_heap_bytes, "#a8d5a2"),
        ("Storage", plan.storage_bytes, "#7fb77e"),
    ]
    beside = [
        ("JVM overhead", plan.overhead_bytes + plan.off_heap_bytes, "#e3e3e3"),
        ("Python", plan.python_bytes, "#9ec5e8"),
        ("DL execution", plan.dl_bytes, "#1f77b4"),
    ]
    system = [("operating system", plan.os_bytes, "#8c8c8c")]
    left = 0.0
    spans = []
    for parts in (heap, beside, system):
        begun = left
        for name, size, colour in parts:
            if size:
                whole = size if parts is system else size * plan.executors_per_node
                axes.barh(
                    0, whole / _GIB, left=left, color=colour, edgecolor="white", label=f"{name}: {_in_gib(whole)}"
                )
                left += whole / _GIB
        spans.append((begun, left))
    master = "driver" if plan.cluster.local else "executor"
    several = f" x {plan.executors_per_node}" if plan.executors_per_node > 1 else ""
    titles = (
        f"spark.{master}.memory{several}",
        "beside the heap" if plan.cluster.local else f"spark.executor.memoryOverhead{several}",
        "",
    )
    # Each at a height of its own: a span may be narrower than its title.
    for (begun, end), title, height in zip(spans, titles, (0.57, 0.72, 0.0), strict=True):
        if title:
            axes.annotate("", (begun, 0.52), (end, 0.52), arrowprops={"arrowstyle": "<->", "color": "#444444"})
            axes.text(begun, height, title, va="bottom", fontsize="small")
    axes.axvline(plan.cluster.memory_bytes / _GIB, color="#d62728", linestyle="--", linewidth=1)
    axes.text(plan.cluster.memory_bytes / _GIB, -0.47, " the node", color="#d62728", va="bottom", ha="right")
    axes.set_ylim(-0.5, 0.9)
    axes.set_yticks([])
    axes.set_xlabel("GiB")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=4, frameon=False, fontsize="small")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle(
        f"{plan.cores * plan.executors_per_node} task slots, {plan.partitions} partitions, "
        f"{plan.join} join, {plan.persistence} cache"
    )
    return figure


def _in_gib(size: int) -> str:
    return f"{size / _GIB:.2f} GiB"
