"""Selections pushed down and injected: Figures 5.10 and 5.11 of Hummingbird's thesis chapter, section 5.6.2.

``python -m benchmarks.compiling.rewrites --json`` fits the thesis's pipeline on a drawn table of the shape of Nomao (89
numbers with missing ones, 30 columns of three categories): imputer, scaler and one-hot encoder, a selection by
percentile, logistic regression; and the same without a selection, with L1 weights. It times scikit-learn, the compiled
program as it was parsed, and as it was rewritten: processor time on one thread, medians of warm runs, side by side.
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_NUMBERS, _CATEGORIES = 89, 30
_PERCENTILES = (5, 10, 20, 50, 100)
_STRENGTHS = (0.001, 0.003, 0.01, 0.1, 1.0)
_TARGET = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Time both experiments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="of the table that is scored")
    parser.add_argument("--repeats", type=int, default=5, help="warm runs, of which the median counts")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    import torch  # `--help` is not to wait for it

    torch.set_num_threads(1)
    table, labels = _drawn(options.rows)
    found = Report(f"{options.rows:,} rows of {table.shape[1]} columns, one thread; load {load_average()}")
    arms: list[tuple[str, str, Any]] = [
        ("push-down", f"{share} % of the features", _pipeline(percentile=share)) for share in _PERCENTILES
    ]
    arms += [("injection", f"L1, C={strength}", _pipeline(strength=strength)) for strength in _STRENGTHS]
    rows = []
    for kind, name, model in arms:
        model.fit(table[:2000], labels[:2000])
        seconds, kept, differs = _timed(model, table, options.repeats)
        gain = seconds["compiled"] / seconds["rewritten"]
        if name in {f"{_PERCENTILES[0]} % of the features", f"L1, C={_STRENGTHS[0]}"}:
            found.ratio(f"{kind} at the small end", gain, "compiled over rewritten seconds", _TARGET)
        found.ratio(f"{kind}, {name}", gain, "compiled over rewritten seconds")
        times = [f"{1e3 * seconds[arm]:.1f}" for arm in ("scikit-learn", "compiled", "rewritten")]
        rows.append((f"{kind}, {name}", f"{kept}", *times, f"{gain:.2f}", f"differs by {differs:.1e} at most"))
    columns = ("pipeline", "weights", "scikit-learn ms", "compiled ms", "rewritten ms", "gain", "")
    found.table("Figures 5.10 and 5.11", columns, rows)
    found.note("weights: those of the model that are not zero. differs: probabilities, from those of scikit-learn.")
    found.show(as_json=options.json)


def _drawn(rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw a table whose label depends on a few columns."""
    import numpy as np

    drawn = np.random.default_rng(0)
    labels = drawn.integers(0, 2, rows)
    numbers = drawn.normal(size=(rows, _NUMBERS)) + labels[:, None] * drawn.uniform(0, 1, _NUMBERS) ** 4
    numbers[drawn.random(numbers.shape) < 0.05] = np.nan
    categories = drawn.integers(0, 3, (rows, _CATEGORIES)).astype(float)
    swayed = drawn.random(categories.shape) < drawn.uniform(0, 1, _CATEGORIES) ** 4
    return np.hstack([numbers, np.where(swayed, labels[:, None], categories)]), labels


def _pipeline(*, percentile: int | None = None, strength: float = 1.0) -> Any:
    """The featurizers of section 5.6.2, a selection or none, and logistic regression."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import SelectPercentile
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    features = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), slice(0, _NUMBERS)),
            ("hot", OneHotEncoder(handle_unknown="ignore", sparse_output=False), slice(_NUMBERS, None)),
        ]
    )
    if percentile is None:
        return make_pipeline(features, LogisticRegression(C=strength, l1_ratio=1, solver="liblinear"))
    return make_pipeline(features, SelectPercentile(percentile=percentile), LogisticRegression(max_iter=500))


def _timed(model: Any, table: NDArray[Any], repeats: int) -> tuple[dict[str, float], int, float]:
    """Median seconds of each arm, weights of the model, and how far the probabilities lie apart."""
    import numpy as np

    from vista_spark import compile_pipeline

    arms: dict[str, Callable[[NDArray[Any]], Any]] = {
        "scikit-learn": model.predict_proba,
        "compiled": compile_pipeline(model, rewrites=False).predict_proba,
        "rewritten": compile_pipeline(model).predict_proba,
    }
    answers = {name: run(table) for name, run in arms.items()}
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, run in arms.items():
            began = time.process_time()
            run(table)
            seconds[name].append(time.process_time() - began)
    differs = float(np.abs(answers["rewritten"] - answers["scikit-learn"]).max())
    return {name: median(own) for name, own in seconds.items()}, int(np.count_nonzero(model[-1].coef_)), differs


if __name__ == "__main__":
    main()
