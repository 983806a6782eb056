"""``vista package``: archive and script for spark-submit."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Annotated

import typer

from udfs.cli import out_folder
from vista_spark.sessions import write_packages

__all__ = ["package_command"]


def package_command(
    out: Annotated[
        Path, typer.Option(help="Folder for the .zip and the script.", parser=out_folder, metavar="FOLDER")
    ] = Path("dist"),
) -> None:
    """Write these packages as a .zip, and vista.py, which runs this command from them, for spark-submit."""
    archive = write_packages(out)
    script = out / "vista.py"
    script.write_bytes(pkgutil.get_data("vista_spark", "__main__.py") or b"")
    typer.echo(f"spark-submit --py-files {archive} {script} transfer ...")
