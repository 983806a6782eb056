"""``vista explain``: the heat map of one image."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from udfs.cli import Device, Json, Master, OptionGroup, picture_file, print_json, refused_before_spark, with_options
from udfs.handlers import framework
from udfs.images import decode
from vista_spark import roster
from vista_spark.cli._options import (
    Model,
    RandomWeights,
    Weights,
    known_weights,
    opened_model,
    opened_weights,
    start_spark,
)
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network, warn_of_random_weights
from vista_spark.occlusion import OcclusionOptions, check_explainable, explain_image, occlusion_settings

if TYPE_CHECKING:
    from vista_spark.occlusion import Progress

__all__ = ["explain_command"]

_CONSOLE = Console()


@with_options(
    options=OptionGroup(
        OcclusionOptions,
        [
            *("output", "head", "perturbation", "mode", "target_ssim", "tau", "target_speedup"),
            *("drill_down_fraction", "precision", "batch_size", "verify", "seed"),
        ],
    )
)
def explain_command(
    image: Annotated[str, typer.Argument(help="Path or URI of an image.")],
    model: Model,
    options: dict[str, Any],
    out: Annotated[
        Path,
        typer.Option(
            help="File of the heat map, .png, .svg or .pdf; its numbers go beside it, as .json.",
            parser=picture_file,
            metavar="FILE",
        ),
    ],
    weights: Weights = None,
    random_weights: RandomWeights = False,
    target: Annotated[
        int | None, typer.Option(min=0, help="Element of the score, such as a class; the largest one by default.")
    ] = None,
    patch_size: Annotated[
        int, typer.Option(min=1, help="Side of the occluding patch, in pixels of the network's input.")
    ] = 16,
    stride: Annotated[int, typer.Option(min=1, help="Pixels between two places of the patch.")] = 4,
    region: Annotated[
        tuple[int, int, int, int] | None, typer.Option(help="Top, bottom, left and right that the patch stays in.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Side of the network's input, in pixels; the model's own by default.")
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(help="File of the classes' names, one per line or JSON; by default ImageNet's where installed."),
    ] = None,
    device: Device = "auto",
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Show which parts of an image a prediction depends on; with --master, Spark's tasks share the places."""
    if region is not None:
        options["region"] = ((region[0], region[1]), (region[2], region[3]))
    if options.get("head", "").isdecimal():
        options["head"] = int(options["head"])
    with refused_before_spark():
        for written in (out, out.with_suffix(".json")):
            _check_writable(written)
        card = roster.of(opened_model(model), image_size=image_size)
        check_explainable(card, {options["mode"]})
        if master is None:
            framework(card.framework).device(device)
        weights = opened_weights(weights, model)
        net = network(card, weights, options["seed"], image_size)
        occlusion_settings(
            OcclusionOptions(patch_size=patch_size, stride=stride, **options),
            net.traced,
            (net.preprocessing.crop,) * 2,
            (0.0,) * 3,
            incremental=framework(card.framework).incremental,
        )
        decode(image, net.preprocessing)
        if class_names is not None:
            roster.read_class_names(class_names)
        known_weights(net.card, net.weights, random_weights=random_weights)
    warn_of_random_weights(net.card, net.weights, net.seed)
    spark = None if master is None else start_spark(master, _CONSOLE)
    words = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}")
    with Bar(*words, console=_CONSOLE, transient=True) as bar:
        task = bar.add_task(model, total=None, left="places")

        # The time that is left is shown once two estimates agree, and goes away with the bar.
        estimates: list[float] = []

        def show(progress: Progress) -> None:
            left = f"places, about {progress.seconds_left:.0f} s left" if estimates else "places"
            bar.update(task, completed=progress.done, total=progress.total, left=left)

        explanation = explain_image(
            image,
            card,
            weights,
            target=target,
            patch_size=patch_size,
            stride=stride,
            image_size=image_size,
            on_progress=show,
            on_estimate=estimates.append,
            class_names=class_names,
            spark=spark,
            device=device,
            **options,
        )
    picture, numbers = explanation.save(out)
    if as_json:
        print_json(
            {
                "picture": str(picture),
                "numbers": str(numbers),
                "target": explanation.target,
                "predicted": explanation.predicted,
                "seconds": round(explanation.seconds, 2),
            }
        )
        return
    typer.echo(explanation.explain())
    typer.echo(f"drawn: {picture}; numbers: {numbers}")


def _check_writable(out: Path) -> None:
    """Create the folder of a picture, and raise ``InvalidArgumentError`` where the picture cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise InvalidArgumentError(
            f"--out must name a file that can be written, got {out}: {error.strerror or error}."
        ) from None
    if out.exists() and not os.access(out, os.W_OK):
        raise InvalidArgumentError(f"--out must name a file that can be written, got {out}, which is read-only.")
