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

from udfs.driver.command import Device, Json, Master, choice, picture_file, print_json, refused_before_spark
from udfs.handlers import framework
from udfs.occlusion import MODES, OUTPUTS, PERTURBATIONS, PRECISIONS
from vista_spark import roster
from vista_spark.cli._options import Model, RandomWeights, Weights, known_weights, opened_model, opened_weights
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from vista_spark.occlusion import Progress

__all__ = ["explain_command"]

_CONSOLE = Console()


def explain_command(
    image: Annotated[str, typer.Argument(help="Path or URI of an image.")],
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            help="Where to draw the heat map, .png, .svg or .pdf; its numbers go beside it, as .json.",
            parser=picture_file,
            metavar="FILE",
        ),
    ],
    weights: Weights = None,
    random_weights: RandomWeights = False,
    target: Annotated[
        int | None, typer.Option(min=0, help="Element of the score, such as a class; the largest one by default.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="The score: probability, logit, log_odds or value; by default decided from the network's last layer.",
            parser=choice(*OUTPUTS),
            metavar="SCORE",
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(help="Which output of a network that returns several: a name, a path as boxes.0, or an index."),
    ] = None,
    patch_size: Annotated[
        int, typer.Option(min=1, help="Of the occluding patch, in pixels of the network's input.")
    ] = 16,
    stride: Annotated[int, typer.Option(min=1, help="Pixels between two places of the patch.")] = 4,
    perturbation: Annotated[
        str,
        typer.Option(
            help="Of the patch: color (grey), mean or blur.", parser=choice(*PERTURBATIONS), metavar="PERTURBATION"
        ),
    ] = "color",
    mode: Annotated[
        str,
        typer.Option(
            help="exact: compute what a patch changes; approximate: at some places, until the rest is known well "
            "enough; naive: everything.",
            parser=choice(*MODES),
            metavar="MODE",
        ),
    ] = "exact",
    target_ssim: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Approximate alone: likeness (SSIM) to reach, as it is estimated; 0.9, unless one of the next three "
            "is given.",
        ),
    ] = None,
    tau: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Instead of --target-ssim: how much of each change is followed; 0.8 beside the next two."
        ),
    ] = None,
    target_speedup: Annotated[
        float | None,
        typer.Option(
            min=1, help="Instead of --target-ssim: by drill-down; 3 beside --tau or the next one, and 1 is without."
        ),
    ] = None,
    drill_down_fraction: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Instead of --target-ssim: share computed at the full stride; 0.25 beside these two."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Approximate alone: float32, or bfloat16, which is faster where there is hardware for it.",
            parser=choice(*PRECISIONS),
            metavar="PRECISION",
        ),
    ] = None,
    region: Annotated[
        tuple[int, int, int, int] | None, typer.Option(help="Top, bottom, left and right that the patch stays in.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Of the network's input; the model's own by default.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Places of the patch at a time.")] = 32,
    verify: Annotated[
        int | None,
        typer.Option(min=0, help="Places that the whole network computes again; 1 in 50, at most 4, by default."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of random weights, and of the verified places.")] = 0,
    class_names: Annotated[
        str | None,
        typer.Option(help="File of the classes' names, one per line or JSON; by default ImageNet's where installed."),
    ] = None,
    device: Device = "auto",
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Show which parts of an image a prediction depends on; with --master, Spark's tasks share the places."""
    from udfs.images import decode  # `vista --help` is not to wait for it
    from vista_spark.network import network, warn_of_random_weights
    from vista_spark.occlusion import OcclusionOptions, check_explainable, explain_image
    from vista_spark.sessions import session

    places = None if region is None else ((region[0], region[1]), (region[2], region[3]))
    options: dict[str, Any] = {
        "perturbation": perturbation,
        "region": places,
        "mode": mode,
        "target_ssim": target_ssim,
        "tau": tau,
        "target_speedup": target_speedup,
        "drill_down_fraction": drill_down_fraction,
        "precision": precision,
        "batch_size": batch_size,
        "output": output,
        "head": int(head) if head is not None and head.isdecimal() else head,
        "verify": verify,
        "seed": seed,
    }
    with refused_before_spark():
        for written in (out, out.with_suffix(".json")):
            _check_writable(written)
        card = roster.of(opened_model(model), image_size=image_size)
        check_explainable(card, {mode})
        if master is None:
            framework(card.framework).device(device)
        weights = opened_weights(weights, model)
        net = network(card, weights, seed, image_size)
        OcclusionOptions(patch=(patch_size,) * 2, stride=(stride,) * 2, **options).occlusion(
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
    spark = None
    if master is not None:
        with _CONSOLE.status("starting Spark"):
            spark = session(master, conf={"spark.log.level": "ERROR"})
    words = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}")
    with Bar(*words, console=_CONSOLE, transient=True) as bar:
        task = bar.add_task(model, total=None, left="places")

        def show(progress: Progress) -> None:
            left = f"places, about {progress.seconds_left:.0f} s left"
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
            on_estimate=lambda seconds: _CONSOLE.print(f"about {seconds:.0f} s", highlight=False),
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
        raise InvalidArgumentError(f"--out {out}: {error.strerror or error}; name a file that can be written") from None
    if out.exists() and not os.access(out, os.W_OK):
        raise InvalidArgumentError(f"--out {out}: the file is read-only; name another one")
