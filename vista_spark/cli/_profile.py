"""``vista profile``: memory and speed of a model on this machine."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from optimizer.sizes import size
from udfs.cli import Device, Json, print_json, refused_before_spark
from vista_spark.cli._options import Weights, opened_model, opened_weights
from vista_spark.errors import InvalidArgumentError, RandomWeightsWarning
from vista_spark.network import network, profile
from vista_spark.serving import Session, profile_batches

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
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a backend, with --batches; 1 by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a model's memory and speed on this machine, as the planner takes them."""
    with refused_before_spark():
        _check_options(batches, batch_size, threads, fresh=fresh)
        named = opened_model(model)
        weights = opened_weights(weights, model)
        sizes = None if batches is None else _sizes(batches)
        network(named, weights, 0)
    if sizes is not None:
        session = Session("profiled", model=named, weights=weights)
        with Console(stderr=True).status(f"measuring {model}"), warnings.catch_warnings():
            # They cost the same time.
            warnings.simplefilter("ignore", RandomWeightsWarning)
            batching = profile_batches(session, sizes, threads=threads or 1, device=device)
        if as_json:
            print_json(batching.document())
        else:
            Console().print(_table(model, batching, sizes))
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
        raise InvalidArgumentError(
            f"--threads must be given with --batches, got --threads {threads} alone; it is for --batches."
        )
    if batches is not None and batch_size is not None:
        raise InvalidArgumentError(
            f"--batch-size and --batches must not be given together, got {batch_size} and {batches}."
        )
    if batches is not None and fresh:
        raise InvalidArgumentError("--fresh must not be given with --batches, which are measured each time.")


def _sizes(text: str) -> list[int]:
    """Read ``--batches``."""
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal() or int(part) < 1]
    if wrong:
        raise InvalidArgumentError(
            f"--batches must be positive integers, such as 1,4,16, got {text}: {wrong[0]!r} is no size."
        )
    sizes = sorted({int(part) for part in parts})
    if sizes[0] != 1:
        raise InvalidArgumentError(f"--batches must include 1, got {text}: a plan needs the latency of one request.")
    return sizes


def _table(model: str, measured: BatchingProfile, sizes: list[int]) -> Table:
    reading = f"reading a request {measured.preprocess_ms:.1f} ms"
    title = f"{model}: {measured.hardware}, threads: {measured.threads}, {reading}"
    table = Table("batch", "milliseconds", "of each", "requests/s", "memory", title=title, title_justify="left")
    for batch in sizes:
        milliseconds = float(measured.latencies[batch])
        memory = size(int(measured.memory[batch]))
        throughput = f"{measured.throughput(batch):.1f}"
        table.add_row(str(batch), f"{milliseconds:.1f}", f"{milliseconds / batch:.2f}", throughput, memory)
    return table
