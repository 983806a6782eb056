"""Accuracy and time of oracles and compact models on held-out pictures.

``python -m benchmarks.specialization.models`` fits a linear head on each network's features of emoji that three vendors
drew, and classifies those that a fourth drew; with ``--stamps`` photographs, other views of which are held out. Times
are CPU seconds of one thread in a batch of 32, of all networks in turn. Features are stored in the cache, so that a
second run takes seconds. ``--labels`` writes streams with dominant classes (Table 5.2 of the thesis) as the first model
labels them, for ``vista skew``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._models import BODIES, extract_features, fit_head, time_bodies
from benchmarks.specialization._pictures import emoji_pictures, stamp_pictures
from benchmarks.specialization._streams import stream
from optimizer.specialization import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures

_STREAMS = (
    ((5, 0.8),),
    ((5, 0.9),),
    ((10, 0.8),),
    ((10, 0.9),),
    ((15, 0.9),),
    ((15, 0.9), (5, 0.8)),
)
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
    parser.add_argument("--labels", type=Path, help="Parquet file for streams that the first model labels")
    parser.add_argument("--seed", type=int, default=0, help="seed of classes and views")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    if options.stamps is None:
        pictures = emoji_pictures(options.classes, options.train, options.test, seed=options.seed)
    else:
        pictures = stamp_pictures(options.stamps, options.train, options.test, seed=options.seed)
    report = Report(f"Heads on networks: {len(pictures.names)} classes, {len(pictures):,} pictures")
    names = options.models.split(",")
    models = [(body, int(size)) for body, _, size in (name.partition(":") for name in names)]
    seconds = dict(zip(names, time_bodies(pictures, models), strict=True))
    rows = []
    for name, (body, size) in zip(names, models, strict=True):
        features = extract_features(pictures, body, size)
        answers = fit_head(features, pictures).predict(features)
        accuracy = float((answers == pictures.labels)[pictures.is_test].mean())
        if options.labels is not None and name == names[0]:
            _labelled_streams(pictures, answers, options.seed).to_parquet(options.labels, index=False)
        rows.append([name, f"{features.shape[1]:,}", f"{accuracy:.3f}", f"{1000 * seconds[name]:.1f}"])
        report.fact(name, {"accuracy": accuracy, "seconds": seconds[name]})
    report.table("Held-out pictures", ["model and pixels", "features", "top-1 accuracy", "ms a picture"], rows)
    slowest = max(seconds, key=seconds.__getitem__)
    for model, value in seconds.items():
        report.ratio(f"cost_{model}", value / seconds[slowest], f"seconds of {model} / seconds of {slowest}")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _labelled_streams(pictures: Pictures, answers: NDArray[np.int64], seed: int) -> pd.DataFrame:
    """Return the streams of Table 5.2 that have dominant classes, with the answers of a model."""
    tables = []
    for number, segments in enumerate(_STREAMS):
        frames = stream([Segment(*each) for each in segments], pictures, seed=seed + number)
        name = " + ".join(f"(n={classes}, p={share})" for classes, share in segments)
        columns = {"t": frames.times, "label": np.array(pictures.names)[answers[frames.pictures]]}
        tables.append(pd.DataFrame({"stream": name, **columns}))
    return pd.concat(tables)


if __name__ == "__main__":
    main()
