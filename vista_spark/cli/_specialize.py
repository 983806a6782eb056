"""``vista specialize``: labels of streams of frames, by cheap models for the classes of the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from udfs.cli import Json, Master, choice, out_folder, print_json, refused_before_spark, with_options
from udfs.driver import check_present, read_table
from vista_spark.cli._labelled import labelled_images
from vista_spark.cli._options import (
    SOURCE,
    RandomWeights,
    check_new_folder,
    known_weights,
    opened_model,
    opened_weights,
    start_spark,
)
from vista_spark.errors import InvalidArgumentError
from vista_spark.files import Source, check_source
from vista_spark.network import network
from vista_spark.specialization import METHODS, SpecializedClassifier

__all__ = ["specialize_command"]

_LABEL = "specialize_label"


@with_options(source=SOURCE)
def specialize_command(
    oracle: Annotated[str, typer.Option(help="Network that knows all classes: a name of `vista models`, or a file.")],
    compact: Annotated[str, typer.Option(help="Cheaper network: a name of `vista models`, or a file.")],
    frames: Annotated[
        str, typer.Option(help="Frames to label, with --image and --order: .csv, .tsv, .json, .orc or Parquet.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="The frames with their labels: a new folder of Parquet.", parser=out_folder, metavar="FOLDER"
        ),
    ],
    source: dict[str, Any],
    oracle_weights: Annotated[
        str | None, typer.Option(help="Path or URI of the oracle's state dict, or imagenet.")
    ] = None,
    compact_weights: Annotated[
        str | None, typer.Option(help="Path or URI of the compact network's state dict, or imagenet.")
    ] = None,
    random_weights: RandomWeights = False,
    oracle_size: Annotated[
        int | None, typer.Option(min=1, help="Height and width of the oracle's images, in pixels.")
    ] = None,
    compact_size: Annotated[
        int | None, typer.Option(min=1, help="Height and width of the compact network's images, in pixels.")
    ] = None,
    order: Annotated[str, typer.Option(help="Column of the frames' order: a number or a timestamp.")] = "t",
    group: Annotated[
        str | None, typer.Option(help="Column of the stream, such as the camera; one stream by default.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="Way in which experts are made.", parser=choice(*METHODS), metavar="METHOD")
    ] = METHODS[0],
    margin: Annotated[float, typer.Option(help="Least difference of the accuracy to the oracle's.")] = -0.01,
    seed: Annotated[int, typer.Option(help="Seed of the checks and of the measurements.")] = 0,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Label streams of frames by cheap models that are specialised for the classes that they show."""
    with refused_before_spark():
        check_new_folder(out)
        data_source = Source(**source)
        check_source(data_source, master, classification=True)
        try:
            classifier = SpecializedClassifier(
                oracle=opened_model(oracle),
                compact=opened_model(compact),
                inputCol=data_source.image,
                labelCol=_LABEL,
                orderCol=order,
                groupCol=group,
                method=method,
                margin=margin,
                seed=seed,
            )
        except TypeError as error:
            # Spark puts a sentence before the Param's.
            raise InvalidArgumentError(f"--{str(error).partition('. ')[2] or error}") from error
        for name, weights, size, stage in (
            (oracle, oracle_weights, oracle_size, classifier.getOracle()),
            (compact, compact_weights, compact_size, classifier.getCompact()[0]),
        ):
            file = opened_weights(weights, name)
            net = network(stage.getModel(), file, seed, size)
            known_weights(net.card, net.weights, random_weights=random_weights)
            if file is not None:
                stage.setWeights(file)
            if size is not None:
                stage.setImageSize(size)
    spark = start_spark(master, Console(stderr=True))
    stream = read_table(spark, frames, None, "--frames")
    check_present(stream, [data_source.image, order, *([group] if group else [])], "--frames")
    data = data_source.load(spark, classification=True)
    model = classifier.fit(labelled_images(data_source, data, _LABEL))
    model.transform(stream).write.parquet(str(out))
    counted = spark.read.parquet(str(out)).groupBy(model.getPhaseCol(), model.getModelCol()).count().collect()
    spark.stop()
    phases: dict[str, int] = {}
    by_oracle = 0
    for phase, answered_by, count in counted:
        phases[phase or "bad"] = phases.get(phase or "bad", 0) + count
        by_oracle += count if answered_by == "oracle" else 0
    total = sum(phases.values())
    if as_json:
        print_json({"out": str(out), "frames": total, "phases": phases, "oracle": by_oracle, "fit": model.explain()})
        return
    typer.echo(model.explain())
    shown = ", ".join(f"{name} {count / total:.0%}" for name, count in sorted(phases.items()))
    share = f"; the oracle answered {by_oracle / total:.0%}" if total else ""
    typer.echo(f"{out}: {total:,} frames{f': {shown}' if total else ''}{share}")
