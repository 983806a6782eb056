"""Options of the commands that steer searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Database"]

Database = Annotated[
    Path | None, typer.Option(help="SQLite file of the server; ~/.local/share/cerebro/server.sqlite by default.")
]
