"""Inference requests: parsing of a body, and its validation against the model."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import nearest
from udfs.serving import BadRequestError
from udfs.serving.http._binary_data import elements_as_bytes, from_binary, objects
from udfs.serving.http._datatypes import BYTES, datatype_of_spec
from udfs.serving.http._json_data import from_json
from udfs.serving.http._json_parsing import integer, json_object, member, parameters_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udfs.serving import ServedModel, TensorSpec

__all__ = ["InferRequest", "Wanted", "of_image", "parse_request"]

# Parameters of features that this server does not have; ignoring them would give wrong answers.
_REFUSED = ("sequence_id", "sequence_start", "sequence_end")
_SHARED_MEMORY = "shared_memory_region"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A requested output, and whether it is returned as binary data."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request with inputs of the model's names, types and shapes."""

    inputs: Mapping[str, np.ndarray]
    outputs: tuple[Wanted, ...] = ()  # requested outputs; empty for all
    binary: bool = False  # True to return all of them as binary data
    id: str | None = None  # identifier, returned with the answer
    timeout_ms: float | None = None  # milliseconds; None for the model's SLO


def parse_request(body: bytes, header_length: int | None, model: ServedModel) -> InferRequest:
    """Parse the body of an inference request.

    Parameters
    ----------
    body : bytes
        JSON, followed by the binary data of inputs with ``binary_data_size``, in their order.
    header_length : int or None
        Bytes of the JSON; ``None`` for the whole body.

    Raises
    ------
    BadRequestError
        The body is not valid for the model.
    """
    if header_length is not None and header_length > len(body):
        raise BadRequestError(
            f"Inference-Header-Content-Length must be at most {len(body)}, the length of the body, got {header_length}."
        )
    view = memoryview(body)
    document = json_object(view[:header_length])
    parameters = parameters_of(document, "the request")
    for key in _REFUSED:
        if parameters.get(key):
            raise BadRequestError(f"Parameter {key!r} must be absent: models keep no state between requests.")
    binary = b"" if header_length is None else view[header_length:]
    timeout_us = integer(parameters, "timeout", "the request's parameters")
    as_binary = bool(parameters.get("binary_data_output"))
    return InferRequest(
        inputs=_inputs(document, memoryview(binary), model),
        outputs=_outputs(document, as_binary, model),
        binary=as_binary,
        id=member(document, "id", str, "the request"),
        timeout_ms=timeout_us / 1000 if timeout_us else None,
    )


def of_image(body: bytes, model: ServedModel, timeout_ms: float | None) -> InferRequest:
    """Return a request of one encoded image, for a model with one such input.

    Raises
    ------
    BadRequestError
        The model has other inputs.
    """
    spec = model.inputs[0] if len(model.inputs) == 1 else None
    if spec is None or spec.dtype != "bytes" or any(size not in {-1, 1} for size in spec.shape):
        raise BadRequestError(
            f"Model {model.name!r} must have one encoded image as input for an image body, got "
            f"{_described(model.inputs)}."
        )
    shape = (1,) * len(spec.shape)
    return InferRequest({spec.name: objects([body], shape)}, timeout_ms=timeout_ms)


def _inputs(document: dict[str, Any], binary: memoryview, model: ServedModel) -> dict[str, np.ndarray]:
    entries: list[Any] | None = member(document, "inputs", list, "the request")
    if not entries:
        raise BadRequestError(f"The request must have the inputs of model {model.name!r}: {_described(model.inputs)}.")
    specs = {spec.name: spec for spec in model.inputs}
    inputs: dict[str, np.ndarray] = {}
    for entry in entries:
        name = _name_of(entry, specs, "input", model)
        if name in inputs:
            raise BadRequestError(f"Input {name!r} must be unique, got it twice.")
        size = integer(parameters_of(entry, f"input {name!r}"), "binary_data_size", f"input {name!r}")
        if size is not None and size > len(binary):
            raise BadRequestError(
                f"binary_data_size of input {name!r} must be at most {len(binary)}, the rest of the body, got {size}."
            )
        inputs[name] = _tensor(entry, None if size is None else binary[:size], specs[name])
        binary = binary[size or 0 :]
    if len(binary):
        raise BadRequestError(f"The body must end after the inputs' binary data, got {len(binary)} more bytes.")
    missing = [name for name in specs if name not in inputs]
    if missing:
        raise BadRequestError(f"Inputs {', '.join(map(repr, missing))} of model {model.name!r} must be set.")
    if len({len(array) for array in inputs.values()}) > 1:
        sizes = ", ".join(f"{name!r} has {len(array)}" for name, array in inputs.items())
        raise BadRequestError(f"Inputs must have the same length: {sizes}.")
    return inputs


def _tensor(entry: dict[str, Any], binary: memoryview | None, spec: TensorSpec) -> np.ndarray:
    where = f"input {spec.name!r}"
    datatype = datatype_of_spec(spec)
    said = member(entry, "datatype", str, where)
    if said != datatype:
        raise BadRequestError(f"datatype of {where} must be {datatype}, got {said}.")
    shape = _shape(entry, spec)
    parameters = parameters_of(entry, where)
    if _SHARED_MEMORY in parameters:
        raise BadRequestError(f"Parameter {_SHARED_MEMORY!r} of {where} must be absent. Send the data in the body.")
    if binary is not None:
        if "data" in entry:
            raise BadRequestError(f"{where} must have either data or binary_data_size, got both.")
        array = from_binary(binary, datatype, shape, spec.name)
    elif "data" in entry:
        array = from_json(entry["data"], datatype, shape, spec.name, missing=spec.missing)
    else:
        raise BadRequestError(f"{where} must have either data or binary_data_size, got neither.")
    if datatype != BYTES:
        return array
    present = np.array([element is not None for element in array.flat], np.bool_).reshape(array.shape)
    try:
        elements = elements_as_bytes(array[present])
    except UnicodeEncodeError:
        raise BadRequestError(f"{where} must be valid Unicode, got a lone surrogate.") from None
    if parameters.get("content_type") == "base64":
        elements = [_unpacked(element, where) for element in elements]
    values = [_text(element, where) for element in elements] if spec.dtype == "str" else elements
    array[present] = objects(values, [len(values)])
    return array


def _shape(entry: dict[str, Any], spec: TensorSpec) -> list[int]:
    shape: list[int] | None = member(entry, "shape", list, f"input {spec.name!r}")
    if shape is None or any(type(size) is not int or size < 0 for size in shape):
        raise BadRequestError(f"shape of input {spec.name!r} must be a list of sizes.")
    fits = len(shape) == len(spec.shape) and all(
        size in {-1, said} for size, said in zip(spec.shape, shape, strict=True)
    )
    if not fits:
        raise BadRequestError(f"shape of input {spec.name!r} must be {list(spec.shape)} (-1: any size), got {shape}.")
    if not all(shape):
        raise BadRequestError(f"shape of input {spec.name!r} must have values, got {shape}.")
    return shape


def _outputs(document: dict[str, Any], binary: bool, model: ServedModel) -> tuple[Wanted, ...]:
    specs = {spec.name: spec for spec in model.outputs}
    entries: list[Any] | None = member(document, "outputs", list, "the request")
    if not entries:
        return ()
    wanted: list[Wanted] = []
    for entry in entries:
        # The outputs of a function may be unknown before it runs.
        name = _name_of(entry, specs or None, "output", model)
        parameters = parameters_of(entry, f"output {name!r}")
        if parameters.get("classification"):
            raise BadRequestError(
                f"Parameter 'classification' of output {name!r} must be absent. Sort the values in the client."
            )
        if _SHARED_MEMORY in parameters:
            raise BadRequestError(f"Parameter {_SHARED_MEMORY!r} of output {name!r} must be absent.")
        if name in {other.name for other in wanted}:
            raise BadRequestError(f"Output {name!r} must be unique, got it twice.")
        as_binary = member(parameters, "binary_data", bool, f"output {name!r}")
        wanted.append(Wanted(name, binary if as_binary is None else as_binary))
    return tuple(wanted)


def _name_of(entry: Any, specs: Mapping[str, TensorSpec] | None, kind: str, model: ServedModel) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadRequestError(f"Each {kind} must be an object with a name.")
    name: str = entry["name"]
    if specs is not None and name not in specs:
        raise BadRequestError(
            f"{kind} of model {model.name!r} must be one of {_described(tuple(specs.values()))}, got "
            f"{name[:100]!r}{nearest(name[:100], specs) or '.'}"
        )
    return name


def _described(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.name!r} {datatype_of_spec(spec)} {list(spec.shape)}" for spec in specs)


def _unpacked(element: bytes, where: str) -> bytes:
    try:
        return base64.b64decode(element, validate=True)
    except binascii.Error as error:
        raise BadRequestError(f"{where} must be base64: {error}.") from None


def _text(element: bytes, where: str) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{where} must be UTF-8: {error.reason} at byte {error.start}.") from None
