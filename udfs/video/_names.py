"""Names of video files."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from optimizer.errors import InvalidArgumentError

__all__ = ["ENDINGS", "check_name"]

ENDINGS = (
    *("3gp", "avi", "flv", "h264", "h265", "hevc", "m2ts", "m4v", "mjpeg", "mkv", "mov", "mp4", "mpeg", "mpg", "mts"),
    *("mxf", "ogv", "ts", "webm", "wmv"),
)
"""Endings of files in a folder that are read as videos."""

_LOCAL = re.compile(r"^(?:file:(?://(?:localhost)?)?)?(?=/)")


def check_name(path: str) -> None:
    """Check that no other video of a local folder has the same name with another ending, and so the same camera.

    Raises
    ------
    InvalidArgumentError
        There is such a file; the message names both.
    """
    local, count = _LOCAL.subn("", path)
    if not count:
        return
    folder, name = os.path.split(local)
    same = _names(folder, _modified(folder)).get(Path(name).stem, [])
    if len(same) > 1:
        raise InvalidArgumentError(
            f"video files of a folder must differ in more than their endings, got {' and '.join(same)} in {folder}. "
            "They would be the same camera: rename them."
        )


def _modified(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _names(folder: str, modified: int) -> dict[str, list[str]]:
    """List the videos of a folder by their names without endings."""
    names: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder) if modified else ()):  # noqa: PTH208 - a folder may have many
        path = Path(name)
        if path.suffix[1:].lower() in ENDINGS:
            names.setdefault(path.stem, []).append(name)
    return names
