"""The experiments of Vista's section 5, small: plans, scales, joins, cores and partitions, scaling, accuracy, sizes.

``python -m benchmarks.transfer.figures`` makes most figures on two quiet cores in less than five minutes, with few
images of few pixels: so small that Spark's own costs are most of it; ``--figure all`` takes seven. What is to be
quoted needs more, for example ``--figure 6,11,12 --images 1024 --image-size 224 --repeats 3``. Each number of cores
is a Spark of its own in a process of its own; the photographs are in its memory. Everything is warmed up, runs in
turns, and medians count. Training is the same whatever the plan: figure 6 shows it, figures 9 to 12 leave it out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.photographs import jpegs
from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from benchmarks.transfer._accuracy import accuracy
from benchmarks.transfer._job import Setup
from benchmarks.transfer._plans import SCALES, joins, plans, scales
from benchmarks.transfer._scaling import cores_and_partitions, scale_up
from benchmarks.transfer._sizes import sizes
from benchmarks.transfer._study import Study
from vista_spark import roster
from vista_spark.files import parse_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FIGURES = ("6", "8", "9", "10", "11", "12", "c3")

# Under five minutes.
_USUAL = "6,8,9,12,c3"

# Of the timings, by default: the network's own would take an hour for all figures.
_SMALL = 128


@dataclass(frozen=True)
class Options:
    """Parse the command line."""

    figure: tuple[str, ...]
    images: int
    model: str
    weights: str | None
    layers: tuple[str, ...]
    image_size: int | None
    batch_size: int
    cores: int
    repeats: int
    train: bool
    data: Path | None
    out: Path
    json: bool


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", default=_USUAL, help=f"all, or some of {', '.join(_FIGURES)}, with commas")
    parser.add_argument("--images", type=int, default=64, help="of the scale 1x, at least 16")
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument(
        "--weights", default="auto", help='a path, "random", or "auto": the ImageNet ones of mobilenet_v2 if installed'
    )
    parser.add_argument("--layers", default="4", help="names or numbers from the top, or how many from the top")
    parser.add_argument("--image-size", type=int, help=f"{_SMALL} by default, and the model's own for figure 8")
    parser.add_argument("--batch-size", type=int, default=32, help="the same for every plan")
    parser.add_argument("--cores", type=int, default=2, help="the most; some figures go up to it from 1")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="in figures 9 to 12 as well, which time inference alone")
    parser.add_argument("--data", type=Path, help="of figure 8: what examples/stamps.py or examples/punks.py made")
    parser.add_argument("--out", type=Path, default=Path("artifacts/figures"), help="folder of the pictures")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    given = vars(parser.parse_args(arguments))
    figures = _FIGURES if given["figure"] == "all" else tuple(given["figure"].lower().split(","))
    if unknown := set(figures) - set(_FIGURES):
        parser.error(f"--figure {', '.join(sorted(unknown))}: all, or some of {', '.join(_FIGURES)}")
    if given["images"] < 16:
        parser.error(f"--images {given['images']}: at least 16, to train and to test on")
    names = tuple(layer.name for layer in roster.card(given["model"]).resolve(parse_layers(given["layers"])))
    weights = found_weights(given["weights"], given["model"])
    return Options(**{**given, "figure": figures, "layers": names, "weights": weights})


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the chosen figures."""
    options = _options(arguments)
    started, load = time.perf_counter(), load_average()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        setup = Setup(
            images=_photographs(Path(scratch) / "images.parquet", options),
            model=options.model,
            weights=options.weights,
            image_size=options.image_size or _SMALL,
            batch_size=options.batch_size,
        )
        weights = "random weights" if options.weights is None else "ImageNet weights"
        report = Report(
            f"Vista's figures: {options.model}, {weights}, layers {', '.join(options.layers)}; {options.images} JPEG "
            f"of 500x375 in memory, input {setup.image_size} px; batch {options.batch_size}; "
            f"medians of {options.repeats}"
        )
        with Study(
            setup=setup,
            images=options.images,
            layers=options.layers,
            cores=options.cores,
            repeats=options.repeats,
            train=options.train,
            report=report,
            out=options.out,
        ) as study:
            makers: dict[str, Callable[[Study], None]] = {
                "6": plans,
                "8": partial(accuracy, data=options.data, image_size=options.image_size, scratch=Path(scratch)),
                "9": scales,
                "10": joins,
                "11": cores_and_partitions,
                "12": scale_up,
                "c3": sizes,
            }
            for figure in options.figure:
                begun = time.perf_counter()
                makers[figure](study)
                report.note(f"Figure {figure} took {time.perf_counter() - begun:.0f} s.")
    if options.repeats < 3:
        report.note(
            "Too few repeats to quote: the JVM gets faster for minutes, so later runs look better. --repeats 3 "
            "or more take turns from both ends."
        )
    report.note(
        f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}: "
        f"above {options.cores} the cores were not ours alone."
    )
    report.show(as_json=options.json)


def _photographs(path: Path, options: Options) -> str:
    most = {"9": SCALES[-1], "10": SCALES[-1], "12": options.cores}
    files = jpegs(options.images * max(most.get(figure, 1) for figure in options.figure))
    table = {"id": pa.array(range(len(files)), pa.int64()), "image": pa.array(files, pa.binary())}
    pq.write_table(pa.table(table), path)
    return str(path)


if __name__ == "__main__":
    main()
