"""Models on their way to the workers: Keras's own archive, and the user's classes in a pickle of Spark's."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers._travel import dumped

__all__ = ["fingerprint", "open_network", "pack", "unpack", "write_network"]

_SUFFIX = ".keras"


def fingerprint(model: Any) -> str:
    """Hash a model's configuration, the names of its classes, and the values of its weights."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(dumped(_own_classes(model)))
    digest.update(_configuration(model).encode())
    for variable in model.variables:
        value = np.ascontiguousarray(variable)
        digest.update(f"{variable.path}|{value.dtype}|{value.shape}\n".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def pack(model: Any, path: Path) -> bytes:
    """Write a ``.keras`` archive, and return the classes in it that are not Keras's own.

    Raises
    ------
    UntraceableModelError
        A class of the user's cannot be made anew from its configuration.
    """
    if not model.built:
        raise UntraceableModelError(
            f"{model.name} is not built, it has no weights yet: call it once on data, or give it a keras.Input"
        )
    own = _own_classes(model)
    code = dumped(own, own.values())
    try:
        _save(model, path)
        unpack(code, path)
    except Exception as error:
        raise UntraceableModelError(
            f"{model.name} cannot be made anew in another process: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}. Give each class of your own a get_config"
        ) from error
    return code


def unpack(code: bytes, path: Path) -> Any:
    """Open what :func:`pack` wrote."""
    classes: dict[str, type] = pickle.loads(code)  # noqa: S301 - in one of Spark's closures, never in a file
    # The user's own lambdas too: in a closure they are code that the user sends.
    return _read(path, safe_mode=False, custom_objects=classes)


def write_network(model: Any, path: Path) -> None:
    """Write a ``.keras`` archive that opens without the user's classes.

    Raises
    ------
    UntraceableModelError
        A layer is of the user's own class, or a lambda.
    """
    own = sorted({made.__name__ for made in _own_classes(model).values()})
    if own:
        raise UntraceableModelError(
            f"{model.name} cannot be saved without its code: {', '.join(own)} {'is' if len(own) == 1 else 'are'} no "
            "class of Keras. Build the network of keras.layers, or call it on a keras.Input and give keras.Model(...)"
        )
    try:
        _save(model, path)
        open_network(path)
    except Exception as error:
        raise UntraceableModelError(
            f"{model.name} cannot be saved without its code: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error


def open_network(path: Path) -> Any:
    """Open what :func:`write_network` wrote, in Keras's safe mode."""
    return _read(path, safe_mode=True)


def _save(model: Any, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Keras decides the format by the name.
        named = Path(folder) / f"network{_SUFFIX}"
        model.save(named)
        path.write_bytes(named.read_bytes())


def _read(path: Path, *, safe_mode: bool, custom_objects: dict[str, type] | None = None) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / f"network{_SUFFIX}"
        link.symlink_to(path.resolve())
        return keras.saving.load_model(link, compile=False, safe_mode=safe_mode, custom_objects=custom_objects)


def _own_classes(model: Any) -> dict[str, type]:
    """Classes of a model's layers that are not Keras's, by the names under which an archive may look for them."""
    layers = [model, *model._flatten_layers(include_self=False)]  # noqa: SLF001 - has no public reader
    own = {type(layer) for layer in layers if not type(layer).__module__.startswith("keras.")}
    return {name: made for made in own for name in (made.__name__, keras.saving.get_registered_name(made))}


def _configuration(model: Any) -> str:
    try:
        return str(model.to_json())
    except Exception:  # noqa: BLE001 - the user's own get_config may raise anything; weights and classes tell it apart
        return str(type(model).__qualname__)
