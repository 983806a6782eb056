"""Program that imports an uploaded script and describes it: the process that :func:`import_script` can end.

Arguments: the file of the script, the descriptor for the result, the memory in bytes, and the seconds after which the
program prints where it is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from cerebro_spark.scripts._description import describe
from cerebro_spark.scripts._module import script_module, script_name

__all__: list[str] = []

# Libraries of CUDA map several GiB of files, which is no memory that a script allocates.
_ADDRESSES = 16 << 30


def _main(path: str, descriptor: int, memory_bytes: int, seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    addresses = max(_ADDRESSES, memory_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    os.set_inheritable(descriptor, False)
    faulthandler.dump_traceback_later(seconds)
    text = Path(path).read_bytes().decode()
    try:
        result = describe(script_module(text))
    except BaseException as error:  # noqa: BLE001 - SystemExit too
        result = {"error": _message(error, f"<{script_name(text)}>")}
    written = memoryview(json.dumps(result).encode() + b"\n")
    while written:
        written = written[os.write(descriptor, written) :]
    os._exit(0)  # threads of the script, and functions that it registered for the end, are not waited for


def _message(error: BaseException, file: str) -> str:
    """Return the error with the script's line: that of the syntax error, or of the innermost call in the script."""
    kind, line = type(error).__name__, None
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename == file:
        line, text = error.lineno, error.msg
    else:
        with contextlib.suppress(Exception):
            frames = traceback.extract_tb(error.__traceback__)
            line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)
    if isinstance(error, MemoryError):
        text = "the script must be imported within the memory limit"
    shown = f"{kind}: {text}" if text else kind
    return shown if line is None else f"line {line}: {shown}"


def _arguments(path: str, descriptor: str, memory_bytes: str, seconds: str) -> tuple[Any, ...]:
    return path, int(descriptor), int(memory_bytes), float(seconds)


if __name__ == "__main__":
    _main(*_arguments(*sys.argv[1:]))
