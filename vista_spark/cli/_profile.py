"""``vista profile``: what a model takes on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from udfs.driver.command import Device, Json, print_json, refused_before_spark
from vista_spark.cli._options import Weights, opened_model, opened_weights

__all__ = ["profile_command"]


def profile_command(
    model: Annotated[str, typer.Argument(help="A name of `vista models`, or package.module:function.")],
    weights: Weights = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per run of the network.")] = 32,
    device: Device = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again, whatever is remembered.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a model's memory and speed on this machine, as the planner takes them."""
    from vista_spark.network import network, profile  # noqa: PLC0415 - `vista --help` is not to wait for it

    with refused_before_spark():
        named = opened_model(model)
        weights = opened_weights(weights, model)
        network(named, weights, 0)
    with Console().status(f"measuring {model}"):
        measured = profile(named, weights=weights, batch_size=batch_size, device=device, fresh=fresh)
    if as_json:
        print_json(asdict(measured))
        return
    typer.echo(measured.explain())
