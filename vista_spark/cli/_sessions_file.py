"""Python file that defines the sessions and applications of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import nearest
from udfs.cli import user_module
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import App, Session

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_sessions"]

_NAME = "sessions"


def load_sessions(path: Path) -> list[Session | App]:
    """Run a file that defines ``sessions``.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, it fails, or it defines no list of sessions.
    """
    module = user_module(path, "sessions = [Session(...), ...]")
    if not hasattr(module, _NAME):
        raise InvalidArgumentError(f"{path} must define sessions{nearest(_NAME, dir(module)) or '.'}")
    sessions = getattr(module, _NAME)
    if (
        not isinstance(sessions, list | tuple)
        or not sessions
        or not all(isinstance(s, Session | App) for s in sessions)
    ):
        raise InvalidArgumentError(f"sessions of {path} must be a list of vista_spark.serving.Session or App.")
    return list(sessions)
