"""``vista serve``: models over HTTP, from a Spark session's tasks."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from udfs.cli import Device, Master, refused_before_spark
from vista_spark import roster
from vista_spark.cli._options import RandomWeights, known_weights, start_spark
from vista_spark.cli._sessions_file import load_sessions
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import App, Server

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["serve_command"]

_CONSOLE = Console(stderr=True)


def serve_command(
    file: Annotated[Path, typer.Argument(help="Python file that defines sessions = [Session(...), ..., App(...)].")],
    backends: Annotated[
        str,
        typer.Option(
            help="Spark tasks that run models, or LEAST:MOST to follow the traffic, as 0:8; one slot stays free."
        ),
    ] = "2",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of HTTP; 0 takes a free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for other machines.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VISTA_TOKEN", help="Token that clients send as Authorization: Bearer; drawn at random by default."
        ),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let everybody ask who reaches the port.")] = False,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Requests at a time; further ones are answered with 503.")
    ] = 512,
    keep_alive: Annotated[
        float, typer.Option(min=1, help="Seconds that a connection stays open between two requests.")
    ] = 75.0,
    front_ends: Annotated[
        int, typer.Option(min=0, help="Processes that read and write HTTP; 0: a thread beside Spark's driver.")
    ] = 0,
    epoch: Annotated[float, typer.Option(min=1, help="Seconds after which the plan follows the traffic.")] = 30.0,
    store: Annotated[
        str | None, typer.Option(help="Folder or URI of the models that sessions name as store:/NAME@ALIAS.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Experiment of MLflow: a run there gets each plan and why it was made.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of a batch.")] = None,
    device: Device = "cpu",
    random_weights: RandomWeights = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when models answer.")] = False,
    master: Master = None,
) -> None:
    """Serve models over HTTP within their deadlines, until interrupted."""
    from udfs.serving.http import HttpLimits, check_address

    with refused_before_spark():
        if token is not None and no_token:
            raise InvalidArgumentError("--token and --no-token must not be given together; leave one out.")
        check_address(host, port, token)
        bounds = _bounds(backends)
        sessions = load_sessions(file)
        for each in sessions:
            if isinstance(each, App):
                continue
            if store is None and isinstance(each.model, str) and each.model.startswith("store:/"):
                raise InvalidArgumentError(
                    f"--store must name the store of session {each.name!r}, whose model is {each.model!r}."
                )
            if not random_weights and isinstance(each.model, str) and each.model in roster.names():
                card = roster.card(each.model)
                known_weights(card, card.weights if each.weights is None else each.weights)

    over = threading.Event()
    spark = start_spark(master, _CONSOLE)
    try:
        server = Server(spark, backends=bounds, epoch_s=epoch, threads=threads, device=device, store=store)
        for each in sessions:
            with _CONSOLE.status(f"measuring {each.name}"):
                server.deploy(each)
        plan = server.plan()
        with _CONSOLE.status("starting backends"):
            api = server.start(
                port=port,
                host=host,
                token=False if no_token else token,
                limits=HttpLimits(in_flight=in_flight, keep_alive_s=keep_alive),
                front_ends=front_ends,
                experiment=experiment,
            )
        with api:
            _end_on_signals(over)
            if as_json:
                names = [{"name": model.name, "version": model.version} for model in api.models]
                typer.echo(json.dumps({"url": api.url, "token": api.token, "models": names}))
            else:
                typer.echo(plan.explain())
                typer.echo(f"{api.url}/v2; a live page: {api.url}/{f'#token={api.token}' if api.token else ''}")
                typer.echo(f"Authorization: Bearer {api.token}" if api.token else "no token is asked for")
            while not over.wait(1.0):
                pass
    finally:
        spark.stop()


def _bounds(text: str) -> int | tuple[int, int]:
    """Read ``8``, or ``0:8``."""
    numbers = [int(part) if part.isascii() and part.isdigit() else -1 for part in text.split(":")]
    if len(numbers) > len(("least", "most")) or min(numbers) < 0 or numbers[-1] < max(1, numbers[0]):
        raise InvalidArgumentError(f"--backends must be a positive integer, or LEAST:MOST such as 0:8, got {text}.")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[-1])


def _end_on_signals(over: threading.Event) -> None:
    """An interrupt is how a server ends, and no fault: requests in flight are answered, and tasks given back."""

    def end(_number: int, _frame: FrameType | None) -> None:
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
