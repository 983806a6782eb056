"""``vista explain``: the heat map of one image."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["explain_command"]

_CONSOLE = Console()


def explain_command(
    image: Annotated[str, typer.Argument(help="Path or URI of an image.")],
    model: Annotated[str, typer.Option(help="The network; `vista models` lists them.")],
    out: Annotated[Path, typer.Option(help="Where to draw the heat map: .png, .svg or .pdf.")],
    weights: Annotated[str | None, typer.Option(help="Path or URI of a state dict; random weights without it.")] = None,
    target: Annotated[int | None, typer.Option(help="The class; the predicted one by default.")] = None,
    patch_size: Annotated[int, typer.Option(help="Of the occluding patch, in pixels of the network's input.")] = 16,
    stride: Annotated[int, typer.Option(help="Between two places of it.")] = 4,
    perturbation: Annotated[str, typer.Option(help="What the patch has: color (grey), mean or blur.")] = "color",
    mode: Annotated[str, typer.Option(help="exact: what a patch changes; approximate: nearly; naive: everything.")] = (
        "exact"
    ),
    tau: Annotated[float, typer.Option(help="Approximate: how much of each change is followed.")] = 0.8,
    target_speed_up: Annotated[float, typer.Option(help="Approximate: by drill-down; 1 is without.")] = 3.0,
    drill_down_fraction: Annotated[float, typer.Option(help="Approximate: computed at the full stride.")] = 0.25,
    precision: Annotated[str, typer.Option(help="Approximate: bfloat16 is faster where there is hardware for it.")] = (
        "float32"
    ),
    region: Annotated[
        tuple[int, int, int, int] | None, typer.Option(help="Top, bottom, left and right that the patch stays in.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Of the network's input; the model's own by default.")] = None,
    batch_size: Annotated[int, typer.Option(help="Places of the patch at a time.")] = 32,
    master: Annotated[
        str | None, typer.Option(help="local[*], spark://..., sc://...: its tasks share the places; else this process.")
    ] = None,
) -> None:
    """Show which parts of an image a prediction depends on."""
    from vista_spark.occlusion import explain  # noqa: PLC0415
    from vista_spark.sessions import session  # noqa: PLC0415 - `vista --help` is not to wait for it

    spark = None
    if master is not None:
        with _CONSOLE.status("starting Spark"):
            spark = session(master, conf={"spark.log.level": "ERROR"})
    with Progress(console=_CONSOLE, transient=True) as progress:
        task = progress.add_task(model)

        def seen(heat_map: NDArray[np.float32]) -> None:
            done = int((heat_map == heat_map).sum())  # noqa: PLR0124 - NaN is not there yet
            progress.update(task, completed=done, total=heat_map.size)

        found = explain(
            image,
            model,
            weights,
            target=target,
            patch_size=patch_size,
            stride=stride,
            perturbation=perturbation,
            region=None if region is None else ((region[0], region[1]), (region[2], region[3])),
            mode=mode,
            tau=tau,
            target_speed_up=target_speed_up,
            drill_down_fraction=drill_down_fraction,
            precision=precision,
            image_size=image_size,
            batch_size=batch_size,
            on_update=seen,
            on_estimate=lambda seconds: _CONSOLE.print(f"about {seconds:.0f} s", highlight=False),
            spark=spark,
        )
    found.plot().savefig(out, dpi=120)
    _CONSOLE.print(found.explain(), highlight=False, markup=False, soft_wrap=True)
    _CONSOLE.print(f"drawn: {out}", highlight=False, markup=False, soft_wrap=True)
