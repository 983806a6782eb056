"""C++ compiler of the node, and the folder of its output, which no other user can write to."""

from __future__ import annotations

import logging
import os
import shutil
from functools import cache
from typing import TYPE_CHECKING

from udfs.node import node_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["compiler", "user_folder"]

_LOGGER = logging.getLogger(__name__)
_COMPILERS = ("g++", "clang++", "c++")


@cache
def compiler() -> str | None:
    """Return the compiler's command, ``CXX`` or the first known one; log a warning once if there is none."""
    named = os.environ.get("CXX")
    command = next((name for name in ([named] if named else _COMPILERS) if shutil.which(name)), None)
    if command is None:
        _LOGGER.warning("no C++ compiler on this node (CXX, %s): programs run in torch alone", ", ".join(_COMPILERS))
    return command


def user_folder() -> Path:
    """Return the node's folder for machine code of this user alone."""
    folder = node_folder(f"compiled-{os.getuid()}")
    folder.chmod(0o700)
    return folder
