"""Plan of a launch, before it is launched."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Journal
from cerebro_spark.launching._document import LaunchDocument
from cerebro_spark.launching._labels import describe_labels
from cerebro_spark.launching._launched import Launched
from cerebro_spark.launching._search import build_search
from optimizer.errors import CerebroError
from udfs.requests import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.requests import RequestContext

__all__ = ["PLAN"]


def _plan(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Return the plan as text, its configurations and epochs, and a lower bound of its seconds if units are known."""
    read = LaunchDocument.read(document, needs_run=False)
    built = build_search(read, context)
    plan = built.search.plan()
    workers = context.backend.num_workers
    unit_seconds = _unit_seconds(read, context)
    seconds = None if unit_seconds is None else plan.seconds(unit_seconds, workers=workers)
    lines = [plan.explain(), *(f"  {line}" for line in describe_labels(built.labels))]
    if seconds is not None:
        lines.append(f"  at least {seconds:.3g} s on {workers} workers, from the units of a similar search")
    running = [run for run, each in context.searches.items() if isinstance(each, Launched) and not each.experiment.done]
    if running:
        lines.append(
            f"  shares the workers with {', '.join(running)}: takes up to {len(running) + 1} times as long meanwhile"
        )
    return {
        "text": "\n".join(lines),
        "configurations": plan.configurations,
        "epochs": plan.epochs,
        "seconds": seconds,
    }


PLAN = RequestHandler("plan", _plan)
"""Handler of a launch document, whose run may be missing."""


def _unit_seconds(document: LaunchDocument, context: RequestContext) -> float | None:
    """Return the mean time of a training unit of the parent, or of a search with the same source and table."""
    if document.parent:
        runs = [document.parent]
    else:
        runs = [
            run
            for run, each in reversed(list(context.searches.items()))
            if isinstance(each, Launched)
            and (each.document.get("source"), each.document.get("table")) == (document.source, document.table)
        ]
    for run in runs:
        try:
            seconds = [event.seconds for event in Journal(context.store, run).events() if event.kind == "train"]
        except CerebroError:  # a damaged journal is no reason to have no plan
            continue
        if seconds:
            return fmean(seconds)
    return None
