"""The one door through which a ``.keras`` archive is opened: nothing in it is run, no other file is read."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import h5py
import keras

from udfs.handlers._archives import UnsafeArchiveError, members, parsed, read_archive, zipped
from udfs.weights import WeightsError, check_hdf5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["checked_archive", "load_archive"]

_CLASS = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")
_MODULE = re.compile(
    r"keras"
    r"|keras\.(layers|models|initializers|regularizers|constraints|dtype_policies|quantizers|random)"
    r"|keras\.src\.(layers|models|ops|initializers|regularizers|constraints|dtype_policies|quantizers|random|backend)"
    r"(\.[a-z0-9_]+){0,4}"
)
# Layers of Keras that run a pickle, a saved program of another kind, or code; and those that read files.
_CODE = frozenset(("Lambda", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer"))
_FILES = frozenset(("StringLookup", "IntegerLookup", "TextVectorization", "FeatureSpace"))
_VALUES = frozenset(("__keras_tensor__", "__tensor__", "__numpy__", "__slice__", "__ellipsis__", "__bytes__"))
_FUNCTIONS = ("activations", "initializers", "regularizers", "constraints")
_NO_FUNCTIONS = frozenset(("get", "serialize", "deserialize"))
# Belongs to the training.
_LEFT_OUT = "compile_config"


def load_archive(path: Path, archive: bytes) -> Any:
    """Open a ``.keras`` archive in Keras's safe mode, once every part of it has been checked.

    The file at ``path``, which ends in ``.keras``, is written: Keras opens files alone. Raise UnsafeArchiveError as
    :func:`checked_archive` does, and if Keras cannot open it.
    """
    path.write_bytes(checked_archive(archive))
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        # Classes fail in whichever way they happen to fail.
        raise UnsafeArchiveError(f"Keras does not open the network: {type(error).__name__}: {error}") from error


def checked_archive(archive: bytes) -> bytes:
    """Check a ``.keras`` archive, and write it anew from what was checked.

    Classes and functions are Keras's own, by a list of its modules, or those that this process has registered with
    ``keras.saving.register_keras_serializable``; nothing is imported by a name in the archive. Raise
    UnsafeArchiveError, which says where, if it is no such archive, is damaged, or holds what could run code or read
    another file.
    """
    content = members(read_archive(archive), _MEMBERS)
    missing = [name for name in ("config.json", "model.weights.h5") if name not in content]
    if missing:
        raise UnsafeArchiveError(f"it is not a .keras archive: it has no {missing[0]}")
    return zipped(content).getvalue()


def _config(data: bytes) -> bytes:
    return json.dumps(_checked(parsed(data))).encode()


def _checked(value: Any) -> Any:
    if isinstance(value, list):
        return [_checked(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "class_name" in value:
        _check_object(value)
    return {key: _checked(inner) for key, inner in value.items() if key != _LEFT_OUT}


def _check_object(value: dict[str, Any]) -> None:
    name, module, registered = value["class_name"], value.get("module"), value.get("registered_name")
    if not isinstance(name, str) or not isinstance(module, (str, type(None))):
        raise UnsafeArchiveError(f"the class {str(name)[:120]!r} of {str(module)[:120]!r}")
    if name == "function":
        _check_function(value.get("config"), module)
        return
    if name in _VALUES:
        return
    if isinstance(registered, str) and keras.saving.get_registered_object(registered) is not None:
        return
    if name in _CODE:
        raise UnsafeArchiveError(f"the layer {name} runs code that the archive holds or names")
    if name in _FILES:
        raise UnsafeArchiveError(f"the layer {name} reads files that the archive names")
    if module is None or not _MODULE.fullmatch(module) or not _CLASS.fullmatch(name):
        raise UnsafeArchiveError(
            f"{str(module)[:120]}.{name[:120]} is no class of Keras, and none that this process has registered with "
            "keras.saving.register_keras_serializable"
        )


def _check_function(name: Any, module: str | None) -> None:
    if isinstance(name, str) and keras.saving.get_registered_object(name) is not None:
        return
    known = isinstance(name, str) and name not in _NO_FUNCTIONS and not name.startswith("_")
    if module in ("builtins", *(f"keras.{part}" for part in _FUNCTIONS)) and known:
        for part in _FUNCTIONS:
            function = getattr(getattr(keras, part), name, None)
            if callable(function) and getattr(function, "__module__", "").startswith("keras."):
                return
    raise UnsafeArchiveError(f"the function {str(name)[:120]!r} of {module} is none of Keras's activations")


def _weights(data: bytes) -> bytes:
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            check_hdf5(file, "the archive's weights")
    except WeightsError as error:
        raise UnsafeArchiveError(str(error)) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UnsafeArchiveError(f"not an HDF5 file: {error}") from error
    return data


def _metadata(data: bytes) -> bytes:
    return json.dumps(parsed(data)).encode()


_MEMBERS: dict[re.Pattern[str], Callable[[bytes], bytes]] = {
    re.compile(r"metadata\.json"): _metadata,
    re.compile(r"config\.json"): _config,
    re.compile(r"model\.weights\.h5"): _weights,
}
