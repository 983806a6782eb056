"""Models of the MLflow registry: networks of torch and Keras as networks, other models by their ``predict``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.serving import TensorSpec
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._pyfunc import PyFunc, zipped

if TYPE_CHECKING:
    from vista_spark.serving._model_reference import Reference
    from vista_spark.serving._session import Session

__all__ = ["mlflow_session", "mlflow_version"]

_TEXT = {"string": "str", "binary": "bytes"}


def mlflow_version(reference: Reference) -> str:
    """Return the version that an alias names now, or the newest one.

    Raises
    ------
    InvalidArgumentError
        The registry has no such model or alias.
    """
    from mlflow import MlflowClient  # an optional extra
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    try:
        if reference.alias:
            return str(client.get_model_version_by_alias(reference.name, reference.alias).version)
        versions = [
            int(registered.version) for registered in client.search_model_versions(f"name = '{reference.name}'")
        ]
    except MlflowException as error:
        raise InvalidArgumentError(
            f"model must name a model of the MLflow registry, got {str(reference)!r}: {error.message}"
        ) from error
    if not versions:
        raise InvalidArgumentError(
            f"model must have a version in the MLflow registry, got {str(reference)!r}, which has none."
        )
    return str(max(versions))


def mlflow_session(session: Session, name: str, version: str) -> Session:
    """Return a session with a version of a registered model, loaded on the driver.

    The session's inputs, if any, replace those of the model's signature. Raise InvalidArgumentError if the registry has
    no such version, or a model that is not a network has neither.
    """
    from mlflow import artifacts  # an optional extra
    from mlflow.exceptions import MlflowException
    from mlflow.models import Model

    uri = f"models:/{name}/{version}"
    try:
        folder = artifacts.download_artifacts(uri)
        described = Model.load(folder)
    except MlflowException as error:
        raise InvalidArgumentError(
            f"model must name a model of the MLflow registry, got {uri!r}: {error.message}"
        ) from error
    if not session.inputs:
        model = _network(described.flavors, folder)
        if model is not None:
            return replace(session, model=model, version=version)
    signature = described.signature
    inputs = tuple(session.inputs) or _specs(None if signature is None else signature.inputs)
    if not inputs:
        raise InvalidArgumentError(
            f"model must have a signature with inputs, got {uri!r} without one. Log the model with a signature, or set "
            "inputs=[TensorSpec(...)]."
        )
    tensors = signature is not None and signature.inputs is not None and signature.inputs.is_tensor_spec()
    columns = not tensors and all(len(spec.shape) == 1 for spec in inputs)
    return replace(session, model=PyFunc(zipped(Path(folder)), columns), inputs=inputs, version=version)


def _network(flavors: Any, folder: str) -> Any:
    """Load a network of torch or Keras; return ``None`` for other models."""
    if "pytorch" in flavors:
        import mlflow.pytorch  # imports torch

        module = mlflow.pytorch.load_model(folder, map_location="cpu")
        try:
            return module.eval()
        except NotImplementedError as error:
            raise InvalidArgumentError(
                "An exported network (pt2) cannot be sent to other processes. Log it with "
                'serialization_format="pickle".'
            ) from error
    keras = flavors.get("tensorflow", {}).get("model_type") == "keras"
    if "keras" in flavors:
        import mlflow.keras  # imports Keras

        return mlflow.keras.load_model(folder)
    if keras:
        import mlflow.tensorflow  # imports TensorFlow

        return mlflow.tensorflow.load_model(folder)
    return None


def _specs(schema: Any) -> tuple[TensorSpec, ...]:
    """Convert a signature's inputs to specs."""
    if schema is None:
        return ()
    # The model's own library refuses missing numbers that it does not read.
    if schema.is_tensor_spec():
        return tuple(
            TensorSpec(spec.name or "x", np.dtype(spec.type).name, (-1, *tuple(spec.shape)[1:]), missing=True)
            for spec in schema.inputs
        )
    specs = []
    for spec in schema.inputs:
        dtype = _TEXT.get(spec.type.name) or np.dtype(spec.type.to_numpy()).name
        missing = not spec.required if dtype in _TEXT.values() else True
        specs.append(TensorSpec(spec.name or "x", dtype, (-1,), missing))
    return tuple(specs)
