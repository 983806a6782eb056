"""``vista explain``: the heat map of one image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from udfs.driver.command import Master, choice, picture_file, refused_before_spark
from udfs.occlusion import MODES, PERTURBATIONS, PRECISIONS
from vista_spark import roster
from vista_spark.cli._options import Model, Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["explain_command"]

_CONSOLE = Console()


def explain_command(
    image: Annotated[str, typer.Argument(help="Path or URI of an image.")],
    model: Model,
    out: Annotated[
        Path, typer.Option(help="Where to draw the heat map: .png, .svg or .pdf.", parser=picture_file, metavar="FILE")
    ],
    weights: Weights = None,
    target: Annotated[int | None, typer.Option(min=0, help="The class; the predicted one by default.")] = None,
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
            help="exact: compute what a patch changes; approximate: most of it; naive: everything.",
            parser=choice(*MODES),
            metavar="MODE",
        ),
    ] = "exact",
    tau: Annotated[float, typer.Option(min=0, max=1, help="Approximate: how much of each change is followed.")] = 0.8,
    target_speed_up: Annotated[float, typer.Option(min=1, help="Approximate: by drill-down; 1 is without.")] = 3.0,
    drill_down_fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Approximate: share computed at the full stride.")
    ] = 0.25,
    precision: Annotated[
        str,
        typer.Option(
            help="Approximate: bfloat16 is faster where there is hardware for it.",
            parser=choice(*PRECISIONS),
            metavar="PRECISION",
        ),
    ] = "float32",
    region: Annotated[
        tuple[int, int, int, int] | None, typer.Option(help="Top, bottom, left and right that the patch stays in.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Of the network's input; the model's own by default.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Places of the patch at a time.")] = 32,
    seed: Annotated[int, typer.Option(help="Of random weights.")] = 0,
    master: Master = None,
) -> None:
    """Show which parts of an image a prediction depends on; with --master, Spark's tasks share the places."""
    from udfs.images import decode  # noqa: PLC0415 - `vista --help` is not to wait for it
    from vista_spark.network import network, warn_of_random_weights  # noqa: PLC0415
    from vista_spark.occlusion import OcclusionOptions, check_explainable, explain_image  # noqa: PLC0415
    from vista_spark.sessions import session  # noqa: PLC0415

    places = None if region is None else ((region[0], region[1]), (region[2], region[3]))
    with refused_before_spark():
        card = roster.card(model)
        check_explainable(card, {mode})
        net = network(card, weights, seed, image_size)
        OcclusionOptions(patch=(patch_size,) * 2, stride=(stride,) * 2, region=places).grid(
            (net.preprocessing.crop,) * 2
        )
        decode(image, net.preprocessing)
    warn_of_random_weights(net.card, net.weights, net.seed)
    spark = None
    if master is not None:
        with _CONSOLE.status("starting Spark"):
            spark = session(master, conf={"spark.log.level": "ERROR"})
    with Progress(console=_CONSOLE, transient=True) as progress:
        task = progress.add_task(model)

        def show(heat_map: NDArray[np.float32]) -> None:
            done = int((heat_map == heat_map).sum())  # noqa: PLR0124 - NaN is not there yet
            progress.update(task, completed=done, total=heat_map.size)

        explanation = explain_image(
            image,
            model,
            weights,
            target=target,
            patch_size=patch_size,
            stride=stride,
            perturbation=perturbation,
            region=places,
            mode=mode,
            tau=tau,
            target_speed_up=target_speed_up,
            drill_down_fraction=drill_down_fraction,
            precision=precision,
            image_size=image_size,
            batch_size=batch_size,
            on_update=show,
            on_estimate=lambda seconds: _CONSOLE.print(f"about {seconds:.0f} s", highlight=False),
            seed=seed,
            spark=spark,
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    explanation.plot().savefig(out, dpi=120)
    typer.echo(explanation.explain())
    typer.echo(f"drawn: {out}")
