"""``vista compile``: a model file as a compiled pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from udfs.cli import Json, out_file, print_json, refused_before_spark
from vista_spark.cli._model_file import compiled_of_file
from vista_spark.errors import InvalidArgumentError

__all__ = ["compile_command"]


def compile_command(
    model: Annotated[
        Path, typer.Argument(help="LightGBM's text, XGBoost's JSON or UBJ, CatBoost's JSON or cbm, or .onnx.")
    ],
    out: Annotated[
        Path, typer.Option(help="The compiled pipeline: a new .safetensors.", parser=out_file, metavar="FILE")
    ],
    as_json: Json = False,
) -> None:
    """Compile a model file into a tensor program, which needs no training library to run."""
    with refused_before_spark():
        if out.exists():
            raise InvalidArgumentError(
                f"--out must name a new file, got {out}, which is there already. Name another file, or delete it."
            )
        compiled = compiled_of_file(model)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            compiled.save(out)
        except OSError as error:
            raise InvalidArgumentError(
                f"--out must name a file that can be written, got {out}: {error.strerror or error}."
            ) from error
    facts = {
        "out": str(out),
        "bytes": out.stat().st_size,
        "digest": compiled.program.digest,
        "outputs": list(compiled.outputs),
        "width": compiled.program.width,
        "columns": None if compiled.columns is None else list(compiled.columns),
    }
    if as_json:
        print_json(facts)
        return
    typer.echo(compiled.explain())
    typer.echo(
        f"{out}: {facts['bytes']:,} bytes, {', '.join(compiled.outputs)}; vista score {out} --table ... --out ..."
    )
