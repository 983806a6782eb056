"""Models on their way to workers and into saved stages: archives of Keras's own layers, and the paths that they had."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from udfs.handlers._archives import UnsafeArchiveError, parsed, read_archive, zipped
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.keras._archive import load_archive
from udfs.handlers.keras._flat_model import flattened, own_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.tensors import TensorSpec

__all__ = ["fingerprint", "known_paths", "open_network", "without_own_classes", "write_network"]

_SUFFIX = ".keras"

# A member of the archive that Keras reads as plain data, and the key for the paths in it.
_METADATA = "metadata.json"
_PATHS = "layer_paths"

# Rows of the comparison, and how far other kernels may be from the model's own.
_ROWS = 2
_CLOSE = 1e-4


def fingerprint(model: Any) -> str:
    """Hash a model's configuration, the code of the user's classes in it, and the values of its weights."""
    digest = hashlib.blake2b(digest_size=16)
    for name, made in own_classes(model).items():
        digest.update(f"{name}|{made.__module__}|{_code(made)}\n".encode())
    digest.update(_configuration(model).encode())
    for variable in model.variables:
        value = np.ascontiguousarray(variable)
        digest.update(f"{variable.path}|{value.dtype}|{value.shape}\n".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def write_network(model: Any, inputs: Sequence[TensorSpec], path: Path) -> None:
    """Write a ``.keras`` archive that opens without the user's classes, under the paths that its layers have.

    A model with classes of the user's is written as a functional model of the layers that it calls, and compared with
    it. Raise UntraceableModelError if the model is not built, needs its author's code, or gives other numbers without
    it.
    """
    if not model.built:
        raise UntraceableModelError(
            f"{model.name} is not built, it has no weights yet: call it once on data, or give it a keras.Input"
        )
    paths: dict[str, str] = {}
    written = model
    if own_classes(model):
        written, paths = without_own_classes(model, inputs)
    try:
        with tempfile.TemporaryDirectory() as folder:
            # Keras decides the format by the name.
            named = Path(folder) / f"network{_SUFFIX}"
            written.save(named)
            path.write_bytes(_with_paths(named.read_bytes(), paths))
        open_network(path)
    except Exception as error:
        raise UntraceableModelError(
            f"{model.name} cannot be written without its code: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error


def without_own_classes(model: Any, inputs: Sequence[TensorSpec]) -> tuple[Any, dict[str, str]]:
    """Convert a model to a functional model of the layers of Keras that it calls, with the paths of its layers.

    Raises
    ------
    UntraceableModelError
        The model's code calls other operations too, or the functional model returns other numbers.
    """
    try:
        written, paths = flattened(model, inputs)
        _check_same(model, written, inputs)
    except UntraceableModelError as error:
        names = ", ".join(own_classes(model))
        raise UntraceableModelError(
            f"{model.name} has classes that other processes do not know ({names}), and is not a graph of Keras's "
            f"layers without them: {error}"
        ) from error
    return written, paths


def open_network(path: Path) -> Any:
    """Open what :func:`write_network` wrote; UnsafeArchiveError for anything that could run code."""
    data = path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        model = load_archive(Path(folder) / f"network{_SUFFIX}", data)
    paths = parsed(read_archive(data).get(_METADATA, b"{}")).get(_PATHS, {})
    if not isinstance(paths, dict) or not all(isinstance(name, str) for name in paths.values()):
        raise UnsafeArchiveError(f"{_METADATA} does not name the network's layers")
    _known[id(model)] = (model, paths)
    while len(_known) > _KEPT:
        _known.pop(next(iter(_known)))
    return model


def known_paths(model: Any) -> dict[str, str]:
    """Map the paths that an opened model's layers had to names of its values; empty where they are its own."""
    cached, paths = _known.get(id(model), (None, {}))
    return paths if cached is model else {}


# Paths of models that were opened: an attribute of the model would become part of it, as Keras tracks them.
_KEPT = 8
_known: dict[int, tuple[Any, dict[str, str]]] = {}


def _check_same(model: Any, written: Any, inputs: Sequence[TensorSpec]) -> None:
    draw = np.random.default_rng(0)
    rows = [
        draw.normal(size=(_ROWS, *spec.shape)).astype(spec.dtype)
        if spec.dtype.startswith("float")
        else np.ones((_ROWS, *spec.shape), spec.dtype)
        for spec in inputs
    ]
    batch: Any = rows if len(rows) > 1 else rows[0]
    pairs = zip(
        keras.tree.flatten(model(batch, training=False)),
        keras.tree.flatten(written(batch, training=False)),
        strict=True,
    )
    if not all(np.allclose(first, other, rtol=_CLOSE, atol=_CLOSE, equal_nan=True) for first, other in pairs):
        raise UntraceableModelError(
            f"{model.name} gives other numbers as layers of Keras than as its author wrote it: its call is not a "
            "function of its inputs alone"
        )


def _with_paths(archive: bytes, paths: dict[str, str]) -> bytes:
    content = read_archive(archive)
    content[_METADATA] = json.dumps({**parsed(content[_METADATA]), _PATHS: paths}).encode()
    return zipped(content).getvalue()


def _code(made: type) -> str:
    """Write the code of a class's functions, the same however often it is asked for."""
    functions = {name: getattr(value, "__code__", None) for name, value in vars(made).items()}
    return "|".join(
        f"{name}:{code.co_code.hex()}:{[value for value in code.co_consts if not hasattr(value, 'co_code')]}"
        for name, code in sorted(functions.items())
        if code is not None
    )


def _configuration(model: Any) -> str:
    try:
        return str(model.to_json())
    except Exception:  # noqa: BLE001 - the user's own get_config may raise anything; weights and classes tell it apart
        return str(type(model).__qualname__)
