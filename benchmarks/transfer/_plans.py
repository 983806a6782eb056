"""Figures 6, 9 and 10: logical plans, how they scale, and joins with formats of the cache."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from benchmarks.harness.charts import bars, lines, panels
from benchmarks.transfer._study import Cell
from optimizer.memory import LOGICAL_PLANS

if TYPE_CHECKING:
    from benchmarks.transfer._study import Study

__all__ = ["SCALES", "joins", "plans", "scales"]

_COLUMNS = ("seconds of inference", "other seconds", "as it ran")
SCALES = (1, 2, 4)
"""Data scales of Figure 9; of Figure 10 the ends."""

# The paper's names of Figure 9.
_FOUR = {
    "Eager/BJ": "eager",
    "Eager/AJ": "eager-reordered",
    "Staged/BJ": "staged-before-join",
    "Staged/AJ": "staged",
}

_WIDE = 1000

_PLANNER = "the planner"
_JOINS = ("shuffle", "broadcast")
_FORMS = ("serialized", "deserialized")


def plans(study: Study) -> None:
    """Figure 6: every logical plan, and the one that is chosen."""
    cells = {name: Cell(study.cores, study.job(name, train=True)) for name in ("auto", *LOGICAL_PLANS)}
    found = study.time("figure 6", cells)
    report = study.report
    report.table(
        f"Figure 6: runtime by plan, {study.images} images, {len(study.layers)} layers",
        ("plan", *_COLUMNS),
        [(name, *timed.columns) for name, timed in found.items()],
    )
    report.note(
        "Inference is what plans differ in, joins included; the rest checks tables, plans and trains, in all alike. "
        "Join, format and partitions are the planner's for each plan."
    )
    auto, staged, lazy = (found[name].seconds for name in ("auto", "staged", "lazy"))
    best = min((name for name in LOGICAL_PLANS), key=lambda name: found[name].seconds)
    report.ratio("auto_over_best", found[best].seconds / auto, f"seconds of the best plan ({best}) / auto's", 0.95)
    speedup = found["staged"].one.speedup
    report.ratio(
        "vs_lazy_over_flops", lazy / staged / speedup, f"(our lazy / staged) / {speedup:.2f}, the ratio of FLOPs", 0.95
    )
    report.ratio("auto_vs_lazy_over_flops", lazy / auto / found["auto"].one.speedup, "the same of auto", 0.95)
    figure, (axes,) = panels(f"Figure 6: {study.setup.model}, {study.images} images, local[{study.cores}]")
    rest = {name: timed.total - timed.seconds for name, timed in found.items()}
    bars(axes, {name: timed.seconds for name, timed in found.items()}, "seconds", chosen="auto", rest=rest)
    study.save(figure, "figure6")


def scales(study: Study) -> None:
    """Figure 9: eager and staged, joined before and after, by data scale and by number of layers."""
    tops = sorted({1, (len(study.layers) + 1) // 2, len(study.layers)})
    cells = {
        (name, scale, top): Cell(study.cores, study.job(plan, scale=scale, top=top))
        for name, plan in _FOUR.items()
        for scale, top in dict.fromkeys(
            [*((scale, len(study.layers)) for scale in SCALES), *((1, top) for top in tops)]
        )
    }
    found = study.time("figure 9", cells)
    report = study.report
    report.table(
        f"Figure 9: runtime by data scale (1x is {study.images} images) and number of layers",
        ("plan, scale, layers", *_COLUMNS),
        [(f"{name}, {scale}x, {top}", *timed.columns) for (name, scale, top), timed in found.items()],
    )
    report.note("BJ: inference before the join; AJ: after it. The larger scales have more photographs, not copies.")
    for what, place in (("scale", (SCALES[-1], tops[-1])), ("layers", (1, tops[-1]))):
        best = min(_FOUR, key=lambda name, place=place: found[name, *place].seconds)
        value = found[best, *place].seconds / found["Staged/AJ", *place].seconds
        where = f"at {place[0]}x and {place[1]} layers"
        report.ratio(f"staged_over_best_{what}", value, f"the best of the four ({best}) / Staged/AJ, {where}")
    figure, (left, right) = panels(f"Figure 9: {study.setup.model}, local[{study.cores}]", 2)
    by_scale = {name: [found[name, scale, tops[-1]].seconds for scale in SCALES] for name in _FOUR}
    lines(left, SCALES, by_scale, f"data scale, {tops[-1]} layers", "seconds of inference")
    by_layers = {name: [found[name, 1, top].seconds for top in tops] for name in _FOUR}
    lines(right, tops, by_layers, "layers from the top, 1x", "seconds of inference")
    study.save(figure, "figure9")


def joins(study: Study) -> None:
    """Figure 10: join and persistence, by data scale and by the number of structured features."""
    narrow = study.job().features
    places = [(SCALES[0], narrow), (SCALES[-1], narrow), (SCALES[0], _WIDE)]
    hands = {f"{join} {form}": {"join": join, "persistence": form} for join, form in product(_JOINS, _FORMS)}
    cells = {
        (name, scale, features): Cell(study.cores, study.job("staged", scale=scale, features=features, **settings))
        for scale, features in places
        for name, settings in {_PLANNER: {}, **hands}.items()
    }
    found = study.time("figure 10", cells)
    report = study.report
    report.table(
        f"Figure 10: runtime by join and format of the cache (1x is {study.images} images), the staged plan",
        ("by hand, scale, structured features", *_COLUMNS),
        [(f"{name}, {scale}x, {features}", *timed.columns) for (name, scale, features), timed in found.items()],
    )
    worst, best = min(
        ((min(found[hand, *place].seconds for hand in hands) / found[_PLANNER, *place].seconds), place)
        for place in places
    )
    where = f"at {best[0]}x and {best[1]} structured features, where it does worst"
    report.ratio("join_persistence_over_best", worst, f"the best by hand / the planner's, {where}", 0.95)
    figure, (left, right) = panels(f"Figure 10: {study.setup.model}, staged, local[{study.cores}]", 2)

    def series(xs: list[tuple[int, int]]) -> dict[str, list[float]]:
        return {name: [found[name, *place].seconds for place in xs] for name in (_PLANNER, *hands)}

    lines(left, (1, SCALES[-1]), series(places[:2]), f"data scale, {narrow} features", "seconds of inference")
    wide = series([places[0], places[2]])
    lines(right, (narrow, _WIDE), wide, "structured features, 1x", "seconds of inference")
    study.save(figure, "figure10")
