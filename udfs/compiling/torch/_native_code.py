"""Machine code of trees.cpp, built once by each node."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from udfs.compiling.torch._compiler import compiler, user_folder
from udfs.node import NodeCacheError, written_once

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NativeCode", "has_native_code", "native_code"]

_LOGGER = logging.getLogger(__name__)
_SOURCE = "trees.cpp"
_OPTIONS = ("-x", "c++", "-O3", "-march=native", "-ffp-contract=off", "-std=c++17", "-shared", "-fPIC")
_BUILD_S = 120


class NativeCode(NamedTuple):
    """Loaded library of trees.cpp."""

    run: Callable[..., None]  # functions run_trees and walk_trees of trees.cpp
    walk: Callable[..., None]
    most: int  # rows of the largest block


def has_native_code() -> bool:
    """Return whether this node has native code, which the first call builds; log a warning once if it has not."""
    return _loaded() is not None


def native_code() -> NativeCode:
    """Return the native code of this node.

    Raises
    ------
    RuntimeError
        :func:`has_native_code` is false.
    """
    code = _loaded()
    if code is None:
        raise RuntimeError("this node cannot build the code of trees")
    return code


@cache
def _loaded() -> NativeCode | None:
    named = compiler()
    if named is None:
        return None
    try:
        source = files(__package__).joinpath(_SOURCE).read_bytes()  # of a .zip too
        path = user_folder() / f"trees-{_digest(source, named)}.so"
        if not path.exists() or path.stat().st_uid != os.getuid():
            with written_once(path) as partial:
                _build(source, named, partial)
        library: Any = ctypes.CDLL(str(path))
    except (OSError, NodeCacheError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or error
        _LOGGER.warning(
            "native code cannot be built by %s, or loaded, on this node: trees run in torch: %s", named, said
        )
        return None
    places = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_int32, *[ctypes.c_void_p] * 3]
    library.run_trees.argtypes, library.run_trees.restype = places, None
    few = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
    library.walk_trees.argtypes, library.walk_trees.restype = few, None
    library.most_rows.restype = ctypes.c_int64
    return NativeCode(library.run_trees, library.walk_trees, int(library.most_rows()))


def _build(source: bytes, named: str, partial: Path) -> None:
    subprocess.run(  # noqa: S603 - the user's own compiler, on our own file
        [named, *_OPTIONS, "-", "-o", str(partial)], input=source, check=True, capture_output=True, timeout=_BUILD_S
    )


def _digest(source: bytes, named: str) -> str:
    """Return a digest of the source, the compiler and the processor."""
    processor = platform.processor()
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        processor += next((line for line in text.splitlines() if line.startswith("flags")), "")
    what = "\n".join([named, *_OPTIONS, platform.machine(), processor])
    return hashlib.sha256(source + what.encode()).hexdigest()[:32]
