"""Response to an inference request, as JSON or with binary data after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import Response

from udfs.serving import BadRequestError, ModelFailedError
from udfs.serving.http._binary_data import to_binary
from udfs.serving.http._datatypes import datatype_of_array
from udfs.serving.http._infer_request import Wanted
from udfs.serving.http._json_data import to_json
from udfs.serving.http._responses import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.serving import ServedModel
    from udfs.serving.http._infer_request import InferRequest

__all__ = ["answer_of"]


def _all(outputs: Mapping[str, np.ndarray], model: ServedModel) -> list[str]:
    return [spec.name for spec in model.outputs] or list(outputs)


def answer_of(outputs: Mapping[str, np.ndarray], request: InferRequest, model: ServedModel) -> Response:
    """Return the response with the outputs that a request asks for, in its order.

    Raises
    ------
    ModelFailedError
        The model did not return one of its declared outputs.
    BadRequestError
        The model returned no output of a requested name.
    NotInJsonError
        JSON cannot represent an output.
    """
    entries: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for wanted in request.outputs or [Wanted(name, request.binary) for name in _all(outputs, model)]:
        if wanted.name not in outputs:
            # With declared outputs, the request was validated against them.
            kind = ModelFailedError if model.outputs else BadRequestError
            raise kind(f"Outputs must be among {', '.join(outputs)}, got {wanted.name[:100]!r}.")
        array = np.asarray(outputs[wanted.name])
        datatype = datatype_of_array(array, wanted.name)
        entry: dict[str, Any] = {"name": wanted.name, "datatype": datatype, "shape": list(array.shape)}
        if wanted.binary:
            binary.append(to_binary(array, datatype))
            entry["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            entry["data"] = to_json(array, datatype, wanted.name)
        entries.append(entry)
    document: dict[str, Any] = {"model_name": model.name, "model_version": model.version, "outputs": entries}
    if request.id is not None:
        document["id"] = request.id
    header = as_json(document)
    if not binary:
        return Response(header, media_type="application/json")
    return Response(
        b"".join((header, *binary)),
        headers={"Inference-Header-Content-Length": str(len(header))},
        media_type="application/octet-stream",
    )
