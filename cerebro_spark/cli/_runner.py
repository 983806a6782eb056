"""``cerebro runner``: Spark application with a pool of workers, which trains the searches that users launch."""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from cerebro_spark import SparkBackend, Store
from cerebro_spark.cli._server_options import AllowScripts
from cerebro_spark.launching import LAUNCH_HANDLERS, resume_launches
from cerebro_spark.steering.runner import Pool, connect
from udfs.cli import Device, Master, refused_before_spark
from udfs.driver import launch
from udfs.names import check_name
from udfs.requests import installed_handlers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["runner_command"]


def runner_command(
    server: Annotated[str, typer.Option(envvar="CEREBRO_SERVER", help="Address of the server of cerebro serve.")],
    store: Annotated[str, typer.Option(help="URI of the store that this process and the workers reach.")],
    workers: Annotated[int, typer.Option(min=1, help="Workers that train: task slots of Spark.")] = 2,
    device: Device = "auto",
    name: Annotated[str, typer.Option(help="Name of the pool on the server.")] = "pool",
    master: Master = None,
    allow_scripts: AllowScripts = False,
    stop_with_input: Annotated[
        bool, typer.Option(hidden=True, help="Stop once standard input is closed, as by the end of the parent.")
    ] = False,
) -> None:
    """Train searches that users of a server launch, and answer their other requests.

    Runs until it is interrupted. A runner that starts again continues its unfinished searches.
    """
    with refused_before_spark():
        connect(server)
        check_name(name, "a pool")
        run_store = Store.from_uri(store)
    spark = launch(_with_spare_slot(master, workers), {"spark.log.level": "ERROR"}, name="cerebro")
    handlers = {handler.kind: handler for handler in LAUNCH_HANDLERS} | installed_handlers()
    backend = SparkBackend(spark, num_workers=workers, device=device)
    pool = Pool(backend, run_store, name=name, allow_scripts=allow_scripts, handlers=handlers.values())
    if stop_with_input:
        threading.Thread(target=_close_at_end_of_input, args=(pool.close,), daemon=True).start()
    try:
        pool.serve(server)
        resume_launches(pool)
        typer.echo(f"Pool {name} answers requests of {pool.server}")
        pool.wait()
    except KeyboardInterrupt:
        pool.close()
    _end_process()


def _with_spare_slot(master: str | None, workers: int) -> str | None:
    """Return a local master with one slot more than workers, for the jobs that prepare further tables.

    Examples
    --------
    >>> _with_spare_slot("local[2]", 2), _with_spare_slot("local[4]", 2), _with_spare_slot("yarn", 2)
    ('local[3]', 'local[4]', 'yarn')
    """
    local = re.fullmatch(r"local\[(\d+)\]", master or "")
    return f"local[{workers + 1}]" if local and int(local[1]) == workers else master


def _close_at_end_of_input(close: Callable[[], object]) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    close()


def _end_process() -> None:
    # Searches go on in threads: their runs are in the store, and the next runner continues them. The JVM ends with this
    # process, and with it the workers.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
