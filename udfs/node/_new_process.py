"""Questions to a new Python process, for measurements that no earlier work may disturb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from optimizer.errors import CerebroError

__all__ = ["NewProcessError", "ask_new_process"]

_KILLED = -9


class NewProcessError(CerebroError, RuntimeError):
    """The process ended without an answer; the message says how, and has its last line."""


def ask_new_process(module: str, request: Any, threads: int) -> Any:
    """Run a module as a program, which reads a request from its standard input and prints its answer.

    Parameters
    ----------
    module : str
        Module that runs as ``python -m module`` and prints JSON in its last line.
    request : object
        Anything that Spark could send to a worker.
    threads : int
        Number of threads of the program's libraries, ``OMP_NUM_THREADS``.

    Returns
    -------
    object
        The answer, read from JSON.

    Raises
    ------
    NewProcessError
        The program failed, or was ended.
    """
    from pyspark.serializers import CloudPickleSerializer  # as Spark sends its functions to workers

    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: S603 - a module of this project
        [sys.executable, "-m", module],
        input=CloudPickleSerializer().dumps(request),  # type: ignore[no-untyped-call]
        capture_output=True,
        env=environment,
        check=False,
    )
    if not done.returncode:
        return json.loads(done.stdout.splitlines()[-1])
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    how = f"was ended by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
    memory = ", which is what being out of memory looks like" if done.returncode == _KILLED else ""
    raise NewProcessError(f"{how}{memory}{': ' + lines[-1] if lines else ''}")
