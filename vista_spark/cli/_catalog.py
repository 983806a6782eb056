"""``vista catalog``: measured variants of a network, from files to a folder and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import functions as F
from rich.console import Console

from optimizer.variants import Coarsen, Compile, Factorize, Narrow, Quantize, Resize, Shorten, Transformation, Tuning
from udfs.cli import Json, Master, out_folder, print_json, refused_before_spark, with_options
from udfs.driver import quoted
from vista_spark.cli._labelled import labelled_images
from vista_spark.cli._options import (
    SOURCE,
    Model,
    RandomWeights,
    Weights,
    check_new_folder,
    known_weights,
    opened_model,
    opened_weights,
    start_spark,
)
from vista_spark.errors import InvalidArgumentError
from vista_spark.files import Source, check_source
from vista_spark.network import network, warn_of_random_weights
from vista_spark.variants import build_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from vista_spark.files import Loaded

__all__ = ["catalog_command"]

_TRANSFORMATIONS: dict[str, Callable[..., Transformation]] = {
    kind.kind: kind for kind in (Factorize, Quantize, Narrow, Resize, Shorten, Coarsen, Compile)
}
_WHOLE = {Quantize.kind, Resize.kind, Shorten.kind, Coarsen.kind, Compile.kind}
_PICTURE = "catalog.png"
_LABEL = "catalog_label"


def _transformation(text: str) -> Transformation:
    """Parse ``narrow=0.5,0.75``."""
    kind, _, values = text.partition("=")
    if kind not in _TRANSFORMATIONS:
        raise typer.BadParameter(f"a transformation must be one of {', '.join(_TRANSFORMATIONS)}, got {kind!r}.")
    try:
        numbers = [int(value) if kind in _WHOLE else float(value) for value in values.split(",") if value]
        return _TRANSFORMATIONS[kind](*numbers)
    except ValueError as error:
        raise typer.BadParameter(f"{error} (in {text!r})") from error


@with_options(source=SOURCE)
def catalog_command(
    model: Model,
    out: Annotated[
        Path, typer.Option(help="The catalog and its picture: a new folder.", parser=out_folder, metavar="FOLDER")
    ],
    source: dict[str, Any],
    apply: Annotated[
        list[Transformation],
        typer.Option(
            parser=_transformation,
            metavar="KIND=STRENGTHS",
            help="Transformation with its strengths, as factorize=0.5,0.25 or quantize=8; once per transformation.",
        ),
    ],
    weights: Weights = None,
    random_weights: RandomWeights = False,
    image_size: Annotated[int | None, typer.Option(min=1, help="Height and width of the images, in pixels.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Transformations that need training in a variant, at most.")] = 2,
    epochs: Annotated[int, typer.Option(min=0, help="Passes over the training images for each variant.")] = 3,
    valid_fraction: Annotated[float, typer.Option(help="Share of the images that the accuracies come from.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the training.")] = 0,
    as_json: Json = False,
    master: Master = None,
) -> None:
    """Build smaller and faster variants of a network, and measure their accuracy, memory and time."""
    console = Console(stderr=True)
    with refused_before_spark():
        check_new_folder(out)
        if not 0 < valid_fraction < 1:
            raise InvalidArgumentError(f"--valid-fraction must be above 0 and below 1, got {valid_fraction}.")
        opened, data_source = opened_model(model), Source(**source)
        check_source(data_source, master, classification=True)
        weights = opened_weights(weights, model)
        net = network(opened, weights, seed, image_size)
        known_weights(net.card, net.weights, random_weights=random_weights)
    warn_of_random_weights(net.card, net.weights, seed)
    spark = start_spark(master, console)
    rows, part = _labelled(data_source, data_source.load(spark, classification=True), seed)
    catalog = build_catalog(
        opened,
        weights=weights,
        train=rows.where(part >= valid_fraction),
        valid=rows.where(part < valid_fraction),
        labelCol=_LABEL,
        imageCol=data_source.image,
        apply=apply,
        path=out,
        image_size=image_size,
        tuning=Tuning(epochs=epochs, seed=seed),
        depth=depth,
    )
    spark.stop()
    catalog.plot().savefig(out / _PICTURE, dpi=100)
    if as_json:
        front = [variant.name for variant in catalog.pareto()]
        print_json({"out": str(out), "front": front, "variants": catalog.to_pandas().to_dict("records")})
        return
    typer.echo(catalog.explain())
    typer.echo(f"{out}: {len(catalog)} variants; {_PICTURE} shows accuracy over memory and latency")


def _labelled(source: Source, data: Loaded, seed: int) -> tuple[DataFrame, Any]:
    """Return the images with the words of their labels, and a number from 0 to 1 for each that splits them."""
    rows = labelled_images(source, data, _LABEL)
    buckets = 1 << 20
    return rows, F.pmod(F.xxhash64(F.col(quoted(source.on)).cast("string"), F.lit(seed)), F.lit(buckets)) / buckets
