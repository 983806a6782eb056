"""Nexus's case studies and its splits of queries, in simulated time: Figures 3.14, 3.15 and 3.21."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.serving._arms import CLIPPER, OBLIVIOUS, OURS, TF_SERVING, Models, Split, good_rate
from benchmarks.serving._lines import GOOGLENET, LENET, RESNET50, SSD, VGG_FACE, with_heads
from optimizer.serving import Query, QuerySplit, backends_for, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.harness.report import Report
    from optimizer.serving import BatchingProfile

__all__ = ["games", "query_splits", "traffic"]

_BACKENDS = 16
_GAMES, _GAMES_SLO, _DIGITS = 20, 50.0, 6
_TRAFFIC_SLO = 400.0
# Cars and faces a frame. By day as many of each as half of the people, 4.7 a frame, that an SSD-MobileNetV2 (COCO,
# score above 0.5) finds in each twentieth frame of OpenCV's vtest.avi; by night a fifth of that.
_DAY, _NIGHT = {"car": 2.4, "face": 2.4}, {"car": 0.48, "face": 0.48}
# Simulated seconds of 16 backends cost more than those of one.
_PART = 0.2


def games(report: Report, seconds: float) -> None:
    """Redo Figure 3.14: frames of 20 games, each with six digits and an icon, on 16 backends."""
    shares = 1 / np.arange(1, _GAMES + 1) ** 0.9
    shares /= shares.sum()
    apart = {f"icon-{number}": (RESNET50, float(share)) for number, share in enumerate(shares)}
    together = {"icons": (with_heads(RESNET50, _GAMES), 1.0)}
    digits = {"digits": (LENET, _DIGITS)}
    cases = [
        ("ours", OURS, together, digits),
        ("ours, no prefix batching", OURS, apart, digits),
        ("the same, batch-oblivious", OBLIVIOUS, apart, digits),
        ("TF-Serving-like", TF_SERVING, apart, digits),
        ("Clipper-like", CLIPPER, apart, digits),
        ("TF-Serving-like, no digits", TF_SERVING, apart, {}),
        ("Clipper-like, no digits", CLIPPER, apart, {}),
    ]
    paper = {
        "ours, no prefix batching": "1.16",
        "the same, batch-oblivious": "1.16 x 1.27",
        "TF-Serving-like": "21",
        "Clipper-like": "41",
        "TF-Serving-like, no digits": "3 to 4",
        "Clipper-like, no digits": "3 to 4",
    }
    found = {
        name: good_rate(arm, Models(icons, _GAMES_SLO, beside), _BACKENDS, seconds * _PART)
        for name, arm, icons, beside in cases
    }
    best = found["ours"]
    rows = [(name, f"{rate:.0f}", _over(best, rate), paper.get(name, "")) for name, rate in found.items()]
    report.table(
        f"Figure 3.14: frames/s of {_GAMES} games on {_BACKENDS} backends, 99 % of calls within {_GAMES_SLO:g} ms",
        ("arm", "frames/s", "ours over it", "paper"),
        rows,
    )
    for key, name in (("no_prefix", "ours, no prefix batching"), ("oblivious", "the same, batch-oblivious")):
        report.ratio(
            f"games_over_{key}", best / max(found[name], 1.0), f"frames/s of 20 games, ours / {name}, simulated"
        )


def traffic(report: Report, seconds: float) -> None:
    """Redo Figure 3.15: cameras by day and by night, a detector that calls two classifiers, on 16 backends."""
    rows = []
    for when, alphas in (("day", _DAY), ("night", _NIGHT)):
        query = _cameras(alphas)
        found = {
            arm.name: good_rate(arm, Split(query), _BACKENDS, seconds * _PART) for arm in (OURS, TF_SERVING, CLIPPER)
        }
        best = found[OURS.name]
        budget = split(query).budgets["ssd"]
        cells = [f"{rate:.0f} ({_over(best, rate)})" for rate in found.values()]
        said = "302 ms, 1.8 and 4.4" if when == "day" else "345 ms, 2.9 and 2.2"
        rows.append((when, *cells, f"{budget:.0f} ms", said))
        for arm in (TF_SERVING, CLIPPER):
            key = f"traffic_{when}_over_{'tf_serving' if arm is TF_SERVING else 'clipper'}"
            report.ratio(key, best / max(found[arm.name], 1.0), f"frames/s by {when}, ours / {arm.name}, simulated")
    columns = ("traffic", "ours", "TF-Serving-like (ours over it)", "Clipper-like", "ours gives SSD", "paper")
    report.table(f"Figure 3.15: frames/s on {_BACKENDS} backends, SLO {_TRAFFIC_SLO:g} ms", columns, rows)


def query_splits(report: Report, seconds: float) -> None:
    """Redo Figure 3.21: SSD calls VGG-Face once, under every split of 400 ms, on 8 backends."""
    query = Query("faces", {"ssd": SSD, "face": VGG_FACE}, {("ssd", "face"): 1.0}, _TRAFFIC_SLO, 50)
    best = split(query)
    tried = {f"{ssd:.0f} / {400 - ssd:.0f}": ssd for ssd in (150.0, 200.0, 250.0, 300.0, 325.0, 345.0, 360.0)}
    tried[f"{best.budgets['ssd']:.0f} / {best.budgets['face']:.0f}, by the analysis"] = best.budgets["ssd"]
    rates = {
        name: good_rate(OURS, Split(query, partial(_as_said, {"ssd": ssd, "face": _TRAFFIC_SLO - ssd})), 8, seconds)
        for name, ssd in tried.items()
    }
    busy = {name: backends_for(query, {"ssd": ssd, "face": _TRAFFIC_SLO - ssd}) for name, ssd in tried.items()}
    rows = [(name, f"{rate:.0f}", f"{busy[name]:.2f}", "") for name, rate in rates.items()]
    columns = ("SSD / VGG-Face, ms", "requests/s", "backends busy at 50/s, reckoned", "")
    report.table("Figure 3.21: splits of 400 ms on 8 backends, 99 % in time (paper: best at 345 / 55)", columns, rows)
    *others, chosen = rates.values()
    report.ratio("query_split", chosen / max(others), "requests/s, split by the analysis / the best of seven", 0.95)


def _cameras(alphas: Mapping[str, float]) -> Query:
    models: dict[str, BatchingProfile] = {"ssd": SSD, "car": GOOGLENET, "face": VGG_FACE}
    return Query("cameras", models, {("ssd", name): alpha for name, alpha in alphas.items()}, _TRAFFIC_SLO, 100)


def _as_said(budgets: Mapping[str, float], query: Query) -> QuerySplit:
    return QuerySplit(query, dict(budgets), backends_for(query, budgets), "node", "as said")


def _over(best: float, rate: float) -> str:
    return f"{best / rate:.2f}" if rate else "no rate is good"
