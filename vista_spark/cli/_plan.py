"""``vista plan``: how Spark is to be started for a feature transfer."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from optimizer.memory import SPARK4, ClusterSpec
from optimizer.sizes import number_of_bytes
from udfs.cli import Json, OptionGroup, out_file, picture_file, print_json, refused_before_spark, with_options
from udfs.driver import plugin_conf
from udfs.node import memory_limit
from vista_spark.cli._options import (
    OVERRIDES,
    PLANNED,
    SOURCE,
    Downstream,
    Model,
    Weights,
    downstream_name,
    features_lines,
    is_regression,
    opened_model,
    opened_weights,
)
from vista_spark.files import Source, survey
from vista_spark.network import network
from vista_spark.transfer import FeatureTransfer, memory_figure, named_size, plan_feature_transfer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.transfer import Choice

__all__ = ["plan_command"]


@with_options(source=SOURCE, settings=OptionGroup(FeatureTransfer, PLANNED, overrides=OVERRIDES))
def plan_command(
    model: Model,
    source: dict[str, Any],
    settings: dict[str, Any],
    weights: Weights = None,
    downstream: Downstream = "logistic",
    rows: Annotated[int | None, typer.Option(min=1, help="Plan for so many rows instead of the table's.")] = None,
    nodes: Annotated[
        int, typer.Option(min=0, help="Worker nodes; 0 (default) plans for this machine, in one JVM.")
    ] = 0,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of a node; this machine's by default.")] = None,
    node_memory: Annotated[
        str | None, typer.Option("--memory", help="Memory of a node, as 32g; this machine's by default.")
    ] = None,
    os_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory of a node left to the operating system, as 2g; by default a tenth, at most 3g, and nothing of "
            "a container's limit."
        ),
    ] = None,
    gpu_memory: Annotated[str, typer.Option(help="Memory of the GPU of a node, as 16g.")] = "0",
    driver_memory: Annotated[
        str | None, typer.Option(help="Memory of the driver's machine; that of a node by default.")
    ] = None,
    defaults: Annotated[
        Path | None, typer.Option(help="Write a spark-defaults file here.", parser=out_file, metavar="FILE")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw a node's memory here, as .png, .svg or .pdf.", parser=picture_file, metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a transfer: which passes, how many tasks at a time, and the memory that Spark is to be started with."""
    here, contained = memory_limit()
    with refused_before_spark():
        cluster = ClusterSpec(
            nodes=max(1, nodes),
            cores=cores or os.cpu_count() or 1,
            memory_bytes=number_of_bytes(node_memory) if node_memory else here,
            gpu_memory_bytes=number_of_bytes(gpu_memory),
            driver_memory_bytes=number_of_bytes(driver_memory) if driver_memory else None,
            local=nodes == 0,
        )
        # A container's limit is Spark's alone.
        reserved = number_of_bytes(os_memory) if os_memory else 0 if contained and not node_memory else None
        constants = (
            SPARK4 if reserved is None else replace(SPARK4, os_reserved_bytes=reserved, os_reserved_fraction=1.0)
        )
        estimator = downstream_name(downstream)
        data_source = Source(**source)
        sizes = survey(data_source, classification=not is_regression(downstream))
        opened = opened_model(model)
        weights = opened_weights(weights, model)
        net = network(opened, weights, 0).arranged(settings.get("layout"))
        net.targets(settings["layers"], settings.get("pooling"))
    with Console(stderr=as_json).status(f"measuring {model}, once on this machine"):
        chosen = plan_feature_transfer(
            opened,
            cluster,
            rows=rows or sizes.rows,
            structured_features=sizes.structured_features,
            image_bytes=sizes.image_bytes,
            weights=weights,
            downstream=named_size(estimator, sizes.classes),
            constants=constants,
            **settings,
        )
    typer.echo(features_lines(data_source, sizes.features, sizes.notes), err=as_json)
    conf = chosen.physical.to_spark_conf() | plugin_conf()
    if defaults is not None:
        defaults.parent.mkdir(parents=True, exist_ok=True)
        defaults.write_text(_defaults(conf))
    if as_json:
        facts = {"plan": chosen.logical.logical, "seconds": chosen.seconds, "conf": dict(conf)}
        print_json({**facts, "explain": chosen.explain()})
    else:
        _show(chosen, conf, defaults)
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        memory_figure(chosen.physical).savefig(picture, dpi=120)
        typer.echo(f"\ndrawn: {picture}", err=as_json)


def _show(chosen: Choice, conf: Mapping[str, str], defaults: Path | None) -> None:
    typer.echo(chosen.explain())
    typer.echo("\nto start Spark so:")
    settings = [f"    --conf {shlex.quote(f'{name}={conf[name]}')}" for name in conf]
    typer.echo(" \\\n".join(["  spark-submit", *settings]))
    if defaults is None:
        typer.echo(f"\nas a spark-defaults file (--defaults FILE writes it):\n{_defaults(conf)}")
    else:
        typer.echo(f"\nwritten: {defaults}")


def _defaults(conf: Mapping[str, str]) -> str:
    width = max(map(len, conf))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in conf.items())
