"""``vista profile`` and ``vista plan``: what a model takes, and how Spark is to be started for a transfer of it."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from optimizer.memory import SPARK4, ClusterSpec
from vista_spark.sessions import memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.transfer import Choice

__all__ = ["plan_command", "profile_command"]

_CONSOLE = Console()


def profile_command(
    model: Annotated[str, typer.Argument(help="The network; `vista models` lists them.")],
    weights: Annotated[str | None, typer.Option(help="Path or URI of a state dict; random weights without it.")] = None,
    batch_size: Annotated[int, typer.Option(help="Images a run of the network.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again, whatever is remembered.")] = False,
) -> None:
    """Measure a model's memory and speed on this machine, as the planner takes them."""
    from vista_spark.network import profile  # noqa: PLC0415 - `vista --help` is not to wait for it

    with _CONSOLE.status(f"measuring {model}"):
        found = profile(model, weights=weights, batch_size=batch_size, device=device, fresh=fresh)
    _CONSOLE.print(found.explain(), highlight=False, markup=False, soft_wrap=True)


def plan_command(
    images: Annotated[str, typer.Option(help="Folder of image files, or a .parquet of images or texts.")],
    table: Annotated[str, typer.Option(help="Structured data: a .csv with a header, or a .parquet.")],
    label: Annotated[str, typer.Option(help="The label's column.")],
    model: Annotated[str, typer.Option(help="The network; `vista models` lists them.")],
    on: Annotated[str, typer.Option(help="The id's column.")] = "id",
    weights: Annotated[str | None, typer.Option(help="Path or URI of a state dict; random weights without it.")] = None,
    layers: Annotated[
        str, typer.Option(help="Names or numbers from the top, with commas; a bare number k: the top k.")
    ] = "4",
    features: Annotated[str | None, typer.Option(help="Structured columns; every numeric one by default.")] = None,
    image: Annotated[str, typer.Option(help="The column of images or texts, where --images is a .parquet.")] = "image",
    downstream: Annotated[str, typer.Option(help="As for `vista transfer`.")] = "logistic",
    pooling: Annotated[str | None, typer.Option(help="As for `vista transfer`.")] = None,
    plan: Annotated[str, typer.Option(help="auto, or a logical plan by name.")] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(help="Images a run of the network; 32 by default, fewer where memory is short.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Plan for so many rows instead of the table's.")] = None,
    nodes: Annotated[int, typer.Option(help="Worker nodes; 0 (default) plans for this machine, in one JVM.")] = 0,
    cores: Annotated[int | None, typer.Option(help="Of a node; this machine's by default.")] = None,
    memory_a_node: Annotated[
        str | None, typer.Option("--memory", help="Of a node, as 32g; this machine's by default.")
    ] = None,
    gpu_memory: Annotated[str, typer.Option(help="Of the GPU of a node, as 16g.")] = "0",
    driver_memory: Annotated[str | None, typer.Option(help="Of the driver's machine; like a node by default.")] = None,
    defaults: Annotated[Path | None, typer.Option(help="Write a spark-defaults file here.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw a node's memory here, as .png, .svg or .pdf.")] = None,
) -> None:
    """Plan a transfer: which passes, how many tasks at a time, and the memory that Spark is to be started with."""
    from udfs.node import memory_limit  # noqa: PLC0415
    from vista_spark.cli._app import downstream_name, layers_of  # noqa: PLC0415 - which imports this module
    from vista_spark.cli._survey import survey  # noqa: PLC0415
    from vista_spark.transfer import memory_figure  # noqa: PLC0415
    from vista_spark.transfer._planning import named_size, plan_feature_transfer  # noqa: PLC0415

    found = survey(table, images, on=on, label=label, image=image, features=features.split(",") if features else None)
    here, contained = memory_limit()
    cluster = ClusterSpec(
        nodes=max(1, nodes),
        cores=cores or os.cpu_count() or 1,
        memory_bytes=memory(memory_a_node) if memory_a_node else here,
        gpu_memory_bytes=memory(gpu_memory),
        driver_memory_bytes=memory(driver_memory) if driver_memory else None,
        local=nodes == 0,
    )
    # A container's limit is Spark's alone.
    constants = replace(SPARK4, os_reserved_bytes=0) if contained and not memory_a_node else SPARK4
    with _CONSOLE.status(f"measuring {model}, once on this machine"):
        choice = plan_feature_transfer(
            model,
            cluster,
            rows=rows or found.rows,
            structured_features=found.structured_features,
            image_bytes=found.image_bytes,
            weights=weights,
            layers=layers_of(layers),
            pooling=pooling,
            plan=plan,
            batch_size=batch_size,
            downstream=named_size(downstream_name(downstream), found.classes),
            constants=constants,
        )
    _show(choice, defaults)
    if picture is not None:
        memory_figure(choice.physical).savefig(picture, dpi=120)
        _say(f"\ndrawn: {picture}")


def _show(choice: Choice, defaults: Path | None) -> None:
    conf = choice.physical.to_spark_conf()
    _say(choice.explain())
    _say("\nto start Spark so:")
    _say(" \\\n".join(["  spark-submit", *(f"    --conf {shlex.quote(f'{name}={conf[name]}')}" for name in conf)]))
    text = _defaults(conf)
    if defaults is None:
        _say(f"\nas a spark-defaults file (--defaults FILE writes it):\n{text}")
    else:
        defaults.write_text(text)
        _say(f"\nwritten: {defaults}")


def _defaults(conf: Mapping[str, str]) -> str:
    width = max(map(len, conf))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in conf.items())


def _say(text: str) -> None:
    _CONSOLE.print(text, highlight=False, markup=False, soft_wrap=True)
