"""A hash of the computation of each layer of a Keras graph."""

from __future__ import annotations

import hashlib
import types
import warnings
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from udfs.handlers.keras._capture import Ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from udfs.handlers.keras._capture import Capture, Step

__all__ = ["fingerprint", "structure"]

# Of no influence on the value in inference mode, or told by the values of the weights.
_NOT_CONFIGURATION = frozenset({"name", "trainable", "seed", "build_config", "shared_object_id"})
_NOT_CONFIGURATION_ENDINGS = ("_initializer", "_regularizer", "_constraint")


def fingerprint(steps: Sequence[Step], place: int, known: Mapping[int, str], weights: Sequence[Any]) -> str:
    """Hash operations, configuration, wiring and weights of one layer; names do not enter.

    The layer's step comes after the steps folded into it, and ``place`` is its index among the values of the last step.
    ``known`` names each value that the steps read; ``weights`` are in a fixed order.
    """
    digest = hashlib.blake2b(digest_size=16)
    places = {id(variable): i for i, variable in enumerate(weights)}
    for step in steps:
        for line in _description(step, known, places):
            digest.update(f"{line}\n".encode())
    digest.update(f"value {place}\n".encode())
    for variable in weights:
        array = np.ascontiguousarray(_array(variable))
        digest.update(f"{array.dtype}|{array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def structure(captured: Capture, model: Any) -> str:
    """Hash all of a captured model but the values of its weights: what is frozen, too."""
    digest = hashlib.blake2b(digest_size=16)
    known = {index: f"value {index}" for index in range(len(captured.symbols))}
    places = {id(variable): place for place, variable in enumerate(model.variables)}
    for step in captured.steps:
        for line in _description(step, known, places):
            digest.update(f"{line}\n".encode())
    shapes = [(variable.shape, variable.dtype, variable.trainable) for variable in model.variables]
    symbols = [(symbol.shape, symbol.dtype) for symbol in captured.symbols]
    trainable = [layer.trainable for layer in model._flatten_layers()]
    frozen = [step.frozen for step in captured.steps]
    digest.update(repr((frozen, trainable, shapes, symbols)).encode())
    return digest.hexdigest()


def _description(step: Step, known: Mapping[int, str], places: Mapping[int, int]) -> Iterator[str]:
    operation = step.operation
    yield f"{type(operation).__module__}.{type(operation).__qualname__}"
    yield _plain((step.args, step.kwargs), known, places)
    if isinstance(operation, keras.Layer):
        weights = [places.get(id(variable), -1) for variable in operation.weights]
        yield f"weights {weights}"
        yield f"computes in {operation.compute_dtype}"
    yield from _configuration(operation, known, places)


def _configuration(operation: Any, known: Mapping[int, str], places: Mapping[int, int]) -> Iterator[str]:
    try:
        with warnings.catch_warnings():  # that a lambda is not safe to load again, and we do not load it
            warnings.simplefilter("ignore")
            config = operation.get_config()
    except (NotImplementedError, OSError, TypeError, ValueError):  # a class of the user's that cannot be saved
        config = {}
    yield _plain(_without_names(config), known, places)
    attributes = {name: value for name, value in vars(operation).items() if name not in _NOT_CONFIGURATION}
    for name, value in sorted(attributes.items()):
        # What a configuration says of a function is its name; two lambdas have the same.
        if isinstance(value, types.FunctionType):
            yield f"{name}={_code(value)}"
        elif not name.startswith("_") and (not config or not isinstance(operation, keras.Layer)):
            yield f"{name}={_plain(value, known, places)}"


def _without_names(config: Any) -> Any:
    if isinstance(config, dict):
        return {
            key: _without_names(value)
            for key, value in config.items()
            if key not in _NOT_CONFIGURATION and not str(key).endswith(_NOT_CONFIGURATION_ENDINGS)
        }
    if isinstance(config, (list, tuple)):
        return [_without_names(value) for value in config]
    return config


def _plain(value: Any, known: Mapping[int, str], places: Mapping[int, int]) -> str:
    """Write a value the same in every process, by what it is and never by where it lies."""

    def inner(value: Any) -> str:
        return _plain(value, known, places)

    if isinstance(value, Ref):
        return f"<{known[value.index]}>"
    if id(value) in places:
        return f"<weight {places[id(value)]}>"
    if isinstance(value, slice):
        return f"slice{inner([value.start, value.stop, value.step])}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {inner(entry)}' for key, entry in sorted(value.items(), key=str))}}}"
    return _leaf(value) or f"{type(value).__qualname__}{inner(_without_names(_own_configuration(value)))}"


def _leaf(value: Any) -> str:
    """Write what holds no other value, or nothing where it may."""
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, (np.ndarray, keras.Variable)) or keras.ops.is_tensor(value):
        array = value if isinstance(value, np.ndarray) else _array(value)
        content = hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
        return f"array({array.dtype}, {array.shape}, {content})"
    if isinstance(value, types.FunctionType):
        return _code(value)
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else ""


def _array(value: Any) -> Any:
    return tf.convert_to_tensor(value.value if isinstance(value, keras.Variable) else value).numpy()


def _own_configuration(value: Any) -> Any:
    return value.get_config() if hasattr(value, "get_config") else {}


def _code(function: types.FunctionType) -> str:
    """Describe a function by its name, its code and what it closes over."""
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__module__.startswith("keras."):
        return name

    def constants(code: types.CodeType) -> list[Any]:
        return [constants(entry) if isinstance(entry, types.CodeType) else entry for entry in code.co_consts]

    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    kept = [value for value in cells if isinstance(value, (bool, int, float, str, tuple, list))]
    shown = (code.co_code.hex(), code.co_names, repr(constants(code)), function.__defaults__, kept)
    return f"{name}|{shown!r}"
