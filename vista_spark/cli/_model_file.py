"""Reader of the model files of ``vista compile`` and ``vista score``, by their first bytes."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.compiling import ProgramError, UnsupportedOperatorError
from vista_spark.compiling import CompiledPipeline, compile_pipeline, read_model
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["compiled_of_file"]

KINDS = "a compiled pipeline, a model file of LightGBM, XGBoost or CatBoost, or .onnx"
_CATBOOST = b"CBM1"
# Protocols 2 to 5 of pickle; and gzip, zlib, bzip2, xz, lz4, under which joblib and skops put one, or zip.
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_PACKED = (
    b"\x1f\x8b",
    b"\x78\x01",
    b"\x78\x5e",
    b"\x78\x9c",
    b"\x78\xda",
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",
    b"PK",
)
_SPARK_CLASS = re.compile(r'"class"\s*:\s*"(?:org\.apache\.spark|pyspark)\.([\w.]+)\.(\w+)"')
_ENDINGS = {".pkl", ".pickle", ".joblib", ".skops", ".dill", ".cloudpickle"}


def compiled_of_file(path: Path) -> CompiledPipeline:
    """Open a compiled pipeline, or compile what a library wrote.

    The file is a compiled pipeline, a model text of LightGBM, JSON or UBJ of XGBoost, JSON or cbm of CatBoost, or ONNX.
    The last two need the package catboost or onnx here; nothing in a file is run. Raise InvalidArgumentError for a
    pickle or an unknown kind.
    """
    if path.is_dir():
        raise InvalidArgumentError(_folder(path))
    start = _start(path)
    if start.startswith(_PICKLES) or path.suffix.lower() in _ENDINGS or start.startswith(_PACKED):
        load = "skops.io" if path.suffix.lower() == ".skops" else "joblib"
        before = [f"from {load} import load", "from vista_spark import compile_pipeline"]
        raise InvalidArgumentError(
            f"{path} is a pickle, or packed like one: opening it would run whatever code is in it, so this command "
            f"does not. In Python, where you trust the file:\n{_snippet(before, f'load({str(path)!r})', path)}"
        )
    if _is_safetensors(start):
        try:
            return CompiledPipeline.load(path)
        except ProgramError as error:
            raise InvalidArgumentError(f"{path}: {error}") from error
    try:
        if path.suffix.lower() == ".onnx":
            return compile_pipeline(_onnx(path))
        return compile_pipeline(_catboost(path) if start.startswith(_CATBOOST) else read_model(path))
    except UnsupportedOperatorError as error:
        raise UnsupportedOperatorError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def _snippet(before: Sequence[str], model: str, path: Path) -> str:
    lines = [*before, f"compile_pipeline({model}).save({path.with_suffix('.safetensors').name!r})"]
    return "\n".join(f"  {line}" for line in lines)


def _folder(path: Path) -> str:
    """Describe how to compile a folder: Spark ML saves models as folders."""
    metadata = next(iter(sorted((path / "metadata").glob("part-*"))), None)
    if metadata is None:
        return f"{path} is a folder; name {KINDS}"
    kind = _SPARK_CLASS.search(metadata.read_text(errors="replace"))
    module, name = kind.groups() if kind is not None else ("ml", "PipelineModel")
    load = f"{name}.load({str(path)!r})"
    before = [
        f"from pyspark.{module} import {name}",
        "from vista_spark import compile_pipeline, session",
        "session()",
    ]
    return (
        f"{path} is a folder as Spark ML saves a model, which only a Spark session reads. In Python:\n"
        f"{_snippet(before, load, path)}\n"
        f"or keep it a Spark ML model whose stages are compiled: vista_spark.replace_stages({load})"
    )


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise InvalidArgumentError(f"model must be {KINDS}, got {path}: {error.strerror or error}.") from error
    if not start:
        raise InvalidArgumentError(f"model must be {KINDS}, got the empty file {path}.")
    return start


def _is_safetensors(start: bytes) -> bool:
    """Return whether a file starts with the length of a JSON header, and the header."""
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 2**40


def _onnx(path: Path) -> object:
    try:
        import onnx  # type: ignore[import-not-found,unused-ignore]
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise InvalidArgumentError(f"onnx must be installed to read {path}: pip install onnx") from error
    try:
        return onnx.load(str(path))
    except DecodeError as error:
        raise InvalidArgumentError(f"model must be a complete ONNX file, got {path}: {error}") from error


def _catboost(path: Path) -> object:
    """Read CatBoost's binary format by way of its JSON, which has all that a parser needs."""
    try:
        from catboost import CatBoost, CatBoostError
    except ImportError as error:
        raise InvalidArgumentError(
            f"catboost must be installed to read {path} (pip install catboost), unless the model is saved with "
            "format='json'."
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "model.json"
        try:
            CatBoost().load_model(str(path)).save_model(str(document), format="json")
        except CatBoostError as error:
            raise InvalidArgumentError(f"model must be a file of CatBoost, got {path}: {error}") from error
        return read_model(document)
