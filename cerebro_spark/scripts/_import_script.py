"""Import of an uploaded script in a process that can be ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cerebro_spark.scripts._limits import ScriptLimits
from cerebro_spark.scripts._module import script_name
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["import_script"]

_PROGRAM = "cerebro_spark.scripts._program"
_CHUNK = 1 << 16
_WAIT_S = 0.2

# Share of the time after which the program prints its line.
_SHOWN = 0.9


def import_script(text: str, limits: ScriptLimits | None = None) -> dict[str, Any]:
    r"""Import a script in a process of its own, and describe it.

    The process has limits of time, memory and output, and is ended with all processes of its group. It protects the
    runner from mistakes; it is no sandbox, for a script may do what the runner's user may.

    Parameters
    ----------
    text : str
        Script.
    limits : ScriptLimits, optional
        Limits of the process.

    Returns
    -------
    dict
        ``trainer``, ``converts``, ``search_space`` in the form of the launch document, ``space`` as the document of
        :class:`optimizer.space.Space`, and ``settings``.

    Raises
    ------
    InvalidArgumentError
        The script fails or exceeds a limit. The message begins with ``line N:`` where the line is known.

    Examples
    --------
    >>> import_script("search_space = {'lr': [0.1, 0.01]}")["search_space"]
    {'lr': {'kind': 'choice', 'values': [0.1, 0.01]}}
    >>> import_script("import math\nmath.nothing")
    Traceback (most recent call last):
    ...
    optimizer.errors.InvalidArgumentError: line 2: AttributeError: module 'math' has no attribute 'nothing'
    """
    limits = ScriptLimits() if limits is None else limits
    with tempfile.TemporaryDirectory(prefix="cerebro-script-") as folder:
        with _started(text, folder, limits) as (process, results):
            watch = _Watch(process, results, limits)
            watch.run()
        reason = watch.reason or _end_reason(process.returncode)
    described = _described(watch.result)
    if watch.reason or described is None:
        lines = re.findall(rb'File "<' + script_name(text).encode() + rb'>", line (\d+)', watch.output)
        place = f"line {int(lines[0])}: " if lines else ""
        raise InvalidArgumentError(f"{place}{reason}")
    if "error" in described:
        raise InvalidArgumentError(str(described["error"]))
    return described


@contextlib.contextmanager
def _started(text: str, folder: str, limits: ScriptLimits) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the program in a session of its own, and end the session."""
    path = Path(folder, f"{script_name(text)}.py")
    path.write_text(text, encoding="utf-8")
    results, written = os.pipe()
    arguments = (path, written, limits.memory_bytes, _SHOWN * limits.seconds)
    try:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
            [sys.executable, "-P", "-m", _PROGRAM, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_environment(),
            start_new_session=True,
            pass_fds=(written,),
        )
    finally:
        os.close(written)
    try:
        yield process, results
    finally:
        # Before the process is waited for, since its id is its own until then.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        os.close(results)


def _environment() -> dict[str, str]:
    """Return this process's environment without secrets of the platform, and with fewer threads and pools of memory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CEREBRO_")}
    few = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**kept, **few, "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONPATH": path}


class _Watch:
    """Reader of a program's output and result, until the result is complete or a limit is reached."""

    def __init__(self, process: subprocess.Popen[bytes], results: int, limits: ScriptLimits) -> None:
        self.output, self.result, self.reason = b"", b"", ""
        self._process, self._results, self._limits = process, results, limits

    def run(self) -> None:
        """Read until the end."""
        limits = self._limits
        deadline = time.monotonic() + limits.seconds
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            stdout: IO[bytes] = self._process.stdout
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(self._results, selectors.EVENT_READ)
            while not self.reason and not self.result.endswith(b"\n"):
                left = deadline - time.monotonic()
                ready = [key for key, _ in selector.select(max(0.0, min(left, _WAIT_S)))]
                for key in ready:
                    self._read(selector, key)
                if not ready and self._has_ended():
                    break
                if left <= 0:
                    self.reason = (
                        f"the script must be imported within {limits.seconds:g} seconds, got no end. Move what takes "
                        "long into trainer_fn"
                    )

    def _read(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        chunk = os.read(key.fd, _CHUNK)
        if not chunk:
            selector.unregister(key.fileobj)
        elif key.fileobj == self._results:
            self.result += chunk
        else:
            self.output += chunk
        most = self._limits.output_bytes
        if max(len(self.output), len(self.result)) > most:
            self.reason = (
                f"the script must print at most {most:,} bytes while it is imported, got more. Remove what prints"
            )

    def _has_ended(self) -> bool:
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT  # it is waited for later
        return os.waitid(os.P_PID, self._process.pid, flags) is not None


def _described(result: bytes) -> dict[str, Any] | None:
    """Return the program's result; None for something else, which the script may have written in its place."""
    try:
        described = json.loads(result)
    except (ValueError, RecursionError):
        return None
    if not isinstance(described, dict):
        return None
    kinds = {"trainer": bool, "converts": bool, "search_space": dict, "settings": dict}
    complete = all(isinstance(described.get(name), kind) for name, kind in kinds.items())
    return described if "error" in described or complete else None


def _end_reason(status: int) -> str:
    how = f"the signal {signal.Signals(-status).name}" if status < 0 else f"the exit status {status}"
    return f"the script must leave its process running while it is imported, got {how}."
