"""Accuracy and time of oracles and compact models on held-out pictures.

``python -m benchmarks.specialization.models`` fits a linear head on each network's features of emoji that three vendors
drew, and classifies those that a fourth drew; with ``--stamps`` photographs, other views of which are held out. Seconds
are those of one thread in batches of 32. Features are stored in the cache, so that a second run takes seconds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._models import BODIES, extract_features, fit_head
from benchmarks.specialization._pictures import cache_folder, emoji_pictures, stamp_pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODELS = "mobilenet_v2:64,mobilenet_v2:96,mobilenet_v2:224"


def main(arguments: Sequence[str] | None = None) -> None:
    """Extract features, fit heads, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", default=_MODELS, help=f"NETWORK:PIXELS, separated by commas; networks: {', '.join(BODIES)}"
    )
    parser.add_argument("--classes", type=int, default=300, help="number of emoji")
    parser.add_argument("--train", type=int, default=6, help="pictures per class to train on")
    parser.add_argument("--test", type=int, default=3, help="pictures per class held out")
    parser.add_argument("--stamps", type=Path, help="folder of examples/stamps.py: a class per photograph instead")
    parser.add_argument("--seed", type=int, default=0, help="seed of classes and views")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    if options.stamps is None:
        pictures = emoji_pictures(options.classes, options.train, options.test, seed=options.seed)
    else:
        pictures = stamp_pictures(options.stamps, options.train, options.test, seed=options.seed)
    report = Report(f"Heads on networks: {len(pictures.names)} classes, {len(pictures):,} pictures")
    rows, seconds = [], {}
    for model in options.models.split(","):
        body, _, size = model.partition(":")
        features = extract_features(pictures, body, int(size), cache_folder())
        predicted = fit_head(features, pictures).predict(features.values[pictures.is_test])
        accuracy = float((predicted == pictures.labels[pictures.is_test]).mean())
        seconds[model] = features.seconds
        rows.append([model, f"{features.values.shape[1]:,}", f"{accuracy:.3f}", f"{1000 * features.seconds:.1f}"])
        report.fact(model, {"accuracy": accuracy, "seconds": features.seconds})
    report.table("Held-out pictures", ["model and pixels", "features", "top-1 accuracy", "ms a picture"], rows)
    slowest = max(seconds, key=seconds.__getitem__)
    for model, value in seconds.items():
        report.ratio(f"cost_{model}", value / seconds[slowest], f"seconds of {model} / seconds of {slowest}")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
