"""Thirty everyday pipelines as users write them, compiled by default, beside their library.

``python -m benchmarks.compiling.everyday`` fits each on drawn customers (numbers, some missing, and two columns of
texts), scores tables of several sizes as DataFrames and, if all columns are numbers, as arrays, and prints the seconds
of the library over those of the compiled pipeline: by the clock and of the processor, medians of calls in turn. Threads
are those that a user gets: torch's number, and the library's own. A ratio below 0.95 is listed. ``--busy`` keeps every
core busy with a process beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LEAST = 0.95
_NUMBERS, _TEXTS = [f"x{place}" for place in range(20)], ["plan", "city"]
_CALL_S = 0.01  # shorter calls are repeated


class _Ratio(NamedTuple):
    pipeline: str
    rows: int
    source: str
    wall: float
    cpu: float
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the pipelines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,100,10000", help="sizes of the tables that are scored, with commas")
    parser.add_argument("--repeats", type=int, default=7, help="calls of each side, of which the median counts")
    parser.add_argument("--pipelines", default="", help="names, or parts of names, with commas; all by default")
    parser.add_argument("--busy", action="store_true", help="keep every core busy")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    report = Report(f"{'busy' if options.busy else 'idle'} cores; load {load_average()}")
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_cores() * options.busy)]
    try:
        ratios = list(_measured(options))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    rows = []
    for size in sorted({ratio.rows for ratio in ratios}):
        for source in ("DataFrame", "array"):
            some = [ratio for ratio in ratios if (ratio.rows, ratio.source) == (size, source)]
            if not some:
                continue
            wall, cpu = ([getattr(ratio, kind) for ratio in some] for kind in ("wall", "cpu"))
            slow = [ratio for ratio in some if ratio.wall < _LEAST]
            names = ", ".join(f"{ratio.pipeline} {ratio.wall:.2f}" for ratio in sorted(slow, key=lambda one: one.wall))
            report.ratio(f"{size} rows, {source}", min(wall), "least, library over compiled seconds", _LEAST)
            numbers = (f"{value:.2f}" for value in (median(wall), min(wall), median(cpu), min(cpu)))
            rows.append((f"{size:,} rows, {source}", *numbers, f"{len(some)}", names))
    columns = ("table", "wall, median", "wall, least", "CPU, median", "CPU, least", "pipelines", f"wall below {_LEAST}")
    report.table("Library over compiled", columns, rows)
    report.show(as_json=options.json)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _measured(options: argparse.Namespace) -> Iterator[_Ratio]:
    from vista_spark import compile_pipeline  # `--help` is not to wait for torch

    table, target = _customers(max(10_000, *map(int, options.rows.split(","))))
    wanted = options.pipelines.split(",")
    for name, (model, columns) in _pipelines().items():
        if not any(part in name for part in wanted):
            continue
        model.fit(table[columns].head(4_000), target(model)[:4_000])
        compiled = compile_pipeline(model)
        method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
        sides = [getattr(model, method), getattr(compiled, method)]
        sources = {"DataFrame": sides}
        if columns == _NUMBERS:
            sources["array"] = sides
        for size in map(int, options.rows.split(",")):
            for source in sources:
                rows = table[columns].head(size)
                wall, cpu, seconds = _in_turn(
                    sides, rows if source == "DataFrame" else rows.to_numpy(), options.repeats
                )
                yield _Ratio(name, size, source, wall, cpu, seconds)


def _in_turn(sides: list[Callable[[Any], Any]], rows: Any, repeats: int) -> tuple[float, float, float]:
    """Return the library's seconds over ours, by the clock and of the processor, and our seconds."""
    times = []
    for side in sides:
        side(rows)
        began = time.perf_counter()
        side(rows)
        times.append(max(int(_CALL_S / max(time.perf_counter() - began, 1e-9)), 1))
    spent: list[list[tuple[float, float]]] = [[], []]
    for _ in range(repeats):
        for side, calls, seconds in zip(sides, times, spent, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                side(rows)
            seconds.append(((time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls))
    (library_wall, library_cpu), (wall, cpu) = (tuple(map(median, zip(*seconds, strict=True))) for seconds in spent)
    return library_wall / wall, library_cpu / max(cpu, 1e-9), wall


def _customers(rows: int) -> tuple[Any, Callable[[Any], Any]]:
    """Draw a table, and a function that gives the target of a model."""
    import numpy as np
    import pandas as pd

    drawn = np.random.default_rng(0)
    table = pd.DataFrame(drawn.normal(size=(rows, len(_NUMBERS))), columns=_NUMBERS)
    table["plan"] = drawn.choice(["free", "pro", "team"], rows)
    table["city"] = drawn.choice([f"city {place}" for place in range(40)], rows)
    score = table["x0"] + table["x1"] * table["x2"] + (table["plan"] == "pro")
    table.loc[drawn.random(rows) < 0.05, "x3"] = np.nan
    classes = (score > 0).astype(int).to_numpy()
    return table, lambda model: classes if hasattr(model, "classes_") or _classifies(model) else score.to_numpy()


def _classifies(model: Any) -> bool:
    from sklearn.base import is_classifier

    return is_classifier(model)


def _pipelines() -> dict[str, tuple[Any, list[str]]]:
    """Return the pipelines by name, and the columns that each reads."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn import decomposition, ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree
    from sklearn import preprocessing as pre
    from sklearn.compose import make_column_transformer
    from sklearn.feature_selection import SelectKBest
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from xgboost import XGBClassifier, XGBRegressor

    fill, scale = SimpleImputer(), pre.StandardScaler()
    whole: dict[str, Any] = {
        "logistic regression": (scale, linear_model.LogisticRegression()),
        "L1 logistic regression": (scale, linear_model.LogisticRegression(l1_ratio=1, solver="liblinear", C=0.02)),
        "ridge": (scale, linear_model.Ridge()),
        "lasso": (pre.RobustScaler(), linear_model.Lasso(0.05)),
        "SGD": (scale, linear_model.SGDClassifier(random_state=0)),
        "polynomials, ridge": (pre.PolynomialFeatures(2), scale, linear_model.Ridge()),
        "PCA, logistic regression": (scale, decomposition.PCA(5), linear_model.LogisticRegression()),
        "power transform, ridge": (pre.PowerTransformer(), linear_model.Ridge()),
        "quantiles, ridge": (pre.QuantileTransformer(n_quantiles=100), linear_model.Ridge()),
        "bins, logistic regression": (pre.KBinsDiscretizer(5), linear_model.LogisticRegression()),
        "naive Bayes": (naive_bayes.GaussianNB(),),
        "decision tree": (tree.DecisionTreeClassifier(max_depth=8),),
        "forest": (scale, SelectKBest(k=8), ensemble.RandomForestClassifier(100, max_depth=6, random_state=0)),
        "deep forest": (ensemble.RandomForestClassifier(100, random_state=0),),
        "forest of values": (ensemble.RandomForestRegressor(50, max_depth=10, random_state=0),),
        "extra trees": (ensemble.ExtraTreesClassifier(50, max_depth=10, random_state=0),),
        "gradient boosting": (ensemble.GradientBoostingClassifier(random_state=0),),
        "isolation forest": (ensemble.IsolationForest(random_state=0),),
        "MLP": (scale, neural_network.MLPClassifier((50,), max_iter=30, random_state=0)),
        "SVC": (scale, svm.SVC()),
        "linear SVC": (scale, svm.LinearSVC()),
        "neighbours": (scale, neighbors.KNeighborsClassifier()),
    }
    models = {name: (make_pipeline(fill, *steps), _NUMBERS) for name, steps in whole.items()}
    models |= {
        "histogram boosting": (ensemble.HistGradientBoostingClassifier(), _NUMBERS),
        "LightGBM": (LGBMClassifier(verbose=-1), _NUMBERS),
        "LightGBM of values": (LGBMRegressor(verbose=-1), _NUMBERS),
        "XGBoost": (XGBClassifier(), _NUMBERS),
        "XGBoost of values": (XGBRegressor(), _NUMBERS),
    }
    hot = pre.OneHotEncoder(handle_unknown="ignore")
    coded = pre.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    mixed = make_column_transformer((make_pipeline(fill, scale), _NUMBERS), (hot, _TEXTS))
    ordinal = make_column_transformer((coded, _TEXTS), remainder="passthrough")
    every = [*_NUMBERS, *_TEXTS]
    return models | {
        "one-hot, logistic regression": (make_pipeline(mixed, linear_model.LogisticRegression()), every),
        "one-hot, forest": (make_pipeline(mixed, ensemble.RandomForestClassifier(50, max_depth=8)), every),
        "ordinal, histogram boosting": (make_pipeline(ordinal, ensemble.HistGradientBoostingClassifier()), every),
    }


if __name__ == "__main__":
    main()
