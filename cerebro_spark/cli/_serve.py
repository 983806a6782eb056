"""``cerebro serve``: server that shows running searches and passes commands to them."""

from __future__ import annotations

import getpass
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cerebro_spark.cli._runner_process import RunnerProcess
from cerebro_spark.cli._server_options import AllowScripts, Database
from optimizer.errors import InvalidArgumentError
from udfs.cli import refused_before_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.web import WebSettings

__all__ = ["serve_command"]


def serve_command(
    store: Annotated[
        list[str] | None, typer.Option(help="URI of a store whose runs are shown too; may be repeated.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8765,
    user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:ROLE]",
            help="Create a user of the role editor (default) or viewer, or change the password; may be repeated. The "
            "password is asked for, or read from standard input, a line per user.",
        ),
    ] = None,
    database: Database = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark master, such as local[2]: starts cerebro runner beside the server, for launches."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Workers that train, with --master.")] = 2,
    allow_scripts: AllowScripts = False,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST[:PORT]", help="Further name of the server; may be repeated.")
    ] = None,
    root_path: Annotated[str, typer.Option(help="Path prefix under which a proxy serves it, such as /cerebro.")] = "",
    certificate: Annotated[str, typer.Option(help="TLS certificate (PEM).")] = "",
    key: Annotated[str, typer.Option(help="Private key of the certificate (PEM).")] = "",
    behind_proxy: Annotated[
        bool, typer.Option(help="Every client comes through a proxy that encrypts; its headers are trusted.")
    ] = False,
) -> None:
    """Show running searches in a browser, and pass commands to them.

    Prints an address that signs you in once. Searches connect with `cerebro tune --server URL`; with --master, users
    launch searches in the browser.
    """
    from cerebro_spark.steering.server import create_server, database_path, open_database
    from udfs.web import Principal, WebSettings, serve

    with refused_before_spark():
        settings = WebSettings(
            host=host,
            port=port,
            allowed_hosts=tuple(allowed_host or ()),
            root_path=root_path,
            certificate=certificate,
            key=key,
            behind_proxy=behind_proxy,
        )
        path = database or database_path()
        engine = open_database(path)
        runner = None
        if master is not None:
            pool = ["--master", master, "--workers", str(workers), *(["--allow-scripts"] if allow_scripts else [])]
            runner = _runner(settings, _pool_store(store), pool)
        elif allow_scripts:
            raise InvalidArgumentError("--allow-scripts must come with --master, or be an option of cerebro runner.")
        for uri in store or ():
            _index(uri, path)
        app = create_server(settings, engine)
        for each in user or ():
            _set_user(app.state.accounts, each)

        def announce(address: str) -> None:
            typer.echo(f"Open {address}")
            if runner is not None:
                app.state.accounts.trust(runner.token, Principal("runner", "runner"))
                runner.start()

        try:
            serve(app, settings, announce)
        finally:
            if runner is not None:
                runner.stop()


def _pool_store(stores: Sequence[str] | None) -> str:
    if not stores:
        raise InvalidArgumentError("--store must name the store of the runner with --master, got none.")
    return stores[0]


def _runner(settings: WebSettings, store: str, options: Sequence[str]) -> RunnerProcess:
    # A certificate is that of a name; without one, this machine reaches the server without its proxy.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - only compared with
    address = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    url = settings.url if settings.certificate else address
    return RunnerProcess(["--server", url, "--store", store, *options])


def _index(uri: str, path: Path) -> None:
    # A process of its own: reading a store imports Arrow, which the server does without.
    command = [sys.executable, "-m", "cerebro_spark", "index", "--store", uri, "--database", str(path)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - arguments of our own
        typer.echo(f"Not all runs of {uri} are shown: see the lines above.", err=True)


def _set_user(accounts: object, text: str) -> None:
    name, _, role = text.rpartition(":") if ":" in text else (text, "", "editor")
    if role not in {"editor", "viewer"}:
        raise InvalidArgumentError(f"user must be NAME, NAME:editor or NAME:viewer, got {text!r}.")
    password = getpass.getpass(f"Password of {name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    accounts.set_user(name, role, password)  # type: ignore[attr-defined]
