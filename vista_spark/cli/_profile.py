"""``vista profile``: what a model takes on this machine."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from optimizer.sizes import size
from udfs.driver.command import Device, Json, print_json, refused_before_spark
from vista_spark.cli._options import Weights, opened_model, opened_weights
from vista_spark.errors import InvalidArgumentError, RandomWeightsWarning

if TYPE_CHECKING:
    from optimizer.serving import BatchingProfile

__all__ = ["profile_command"]

_BATCH_SIZE = 32
_BATCHES = (
    "Sizes of batches, with commas and 1 among them: measures what serving plans by, a batch's latency; with --json as "
    "BatchingProfile.from_document reads it."
)


def profile_command(
    model: Annotated[str, typer.Argument(help="A name of `vista models`, or package.module:function.")],
    weights: Weights = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help=f"Images per run of the network; {_BATCH_SIZE} by default.")
    ] = None,
    device: Device = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again, whatever is remembered.")] = False,
    batches: Annotated[str | None, typer.Option(help=_BATCHES)] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of a backend, with --batches; 1 by default.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a model's memory and speed on this machine, as the planner takes them."""
    from vista_spark.network import network, profile  # `vista --help` is not to wait for it

    with refused_before_spark():
        _check_options(batches, batch_size, threads, fresh=fresh)
        named = opened_model(model)
        weights = opened_weights(weights, model)
        sizes = None if batches is None else _sizes(batches)
        network(named, weights, 0)
    if sizes is not None:
        from vista_spark.serving import Session, profile_batches

        session = Session("profiled", model=named, weights=weights)
        with Console(stderr=True).status(f"measuring {model}"), warnings.catch_warnings():
            # They cost the same time.
            warnings.simplefilter("ignore", RandomWeightsWarning)
            found = profile_batches(session, sizes, threads=threads or 1, device=device)
        if as_json:
            print_json(found.document())
        else:
            Console().print(_table(model, found, sizes))
        return
    with Console().status(f"measuring {model}"):
        measured = profile(named, weights=weights, batch_size=batch_size or _BATCH_SIZE, device=device, fresh=fresh)
    if as_json:
        print_json(asdict(measured))
        return
    typer.echo(measured.explain())


def _check_options(batches: str | None, batch_size: int | None, threads: int | None, *, fresh: bool) -> None:
    """Refuse options that the other one of the two measurements has."""
    if batches is None and threads is not None:
        raise InvalidArgumentError(f"--threads {threads} is for --batches: give that too")
    if batches is not None and batch_size is not None:
        raise InvalidArgumentError(f"--batch-size {batch_size} and --batches {batches}: give one of them")
    if batches is not None and fresh:
        raise InvalidArgumentError("--fresh and --batches: those are measured each time, and not remembered")


def _sizes(text: str) -> list[int]:
    """Read ``--batches``."""
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal() or int(part) < 1]
    if wrong:
        raise InvalidArgumentError(f"--batches {text}: {wrong[0]!r} is no size; whole numbers from 1, such as 1,4,16")
    sizes = sorted({int(part) for part in parts})
    if sizes[0] != 1:
        raise InvalidArgumentError(f"--batches {text}: add 1, no plan can do without the latency of one request")
    return sizes


def _table(model: str, found: BatchingProfile, sizes: list[int]) -> Table:
    title = f"{model}: {found.hardware}, threads: {found.threads}, reading a request {found.preprocess_ms:.1f} ms"
    table = Table("batch", "milliseconds", "of each", "requests/s", "memory", title=title, title_justify="left")
    for batch in sizes:
        taken = float(found.latencies[batch])
        memory = size(int(found.memory[batch]))
        table.add_row(str(batch), f"{taken:.1f}", f"{taken / batch:.2f}", f"{found.throughput(batch):.1f}", memory)
    return table
