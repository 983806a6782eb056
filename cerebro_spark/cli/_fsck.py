"""``cerebro fsck``: verification of a store by its digests."""

from __future__ import annotations

from typing import Annotated

import typer

from cerebro_spark.hopper import inspect_store
from udfs.cli import Json, print_json, refused_before_spark
from udfs.store import Store

__all__ = ["fsck_command"]


def fsck_command(
    store: Annotated[str, typer.Argument(help="URI of the store, or a folder.")],
    verbose: Annotated[bool, typer.Option(help="Name what is intact, too.")] = False,
    as_json: Json = False,
) -> None:
    """Read all shards and runs of a store, compare them with their digests, and name what is damaged."""
    intact = damaged = 0
    defects = {}
    with refused_before_spark():
        for finding in inspect_store(Store.from_uri(store)):
            intact, damaged = intact + (not finding.defect), damaged + bool(finding.defect)
            if finding.defect:
                defects[str(finding.what)] = finding.defect
                typer.echo(f"DAMAGED {finding.what}: {finding.defect}")
            elif verbose:
                typer.echo(f"intact  {finding.what}")
    typer.echo(f"{intact} intact, {damaged} damaged in {store}")
    if as_json:
        print_json({"store": store, "intact": intact, "damaged": damaged, "defects": defects})
    if damaged:
        raise typer.Exit(1)
