"""Resolution of a session's model: from its name in a registry to the model itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._mlflow import mlflow_session, mlflow_version
from vista_spark.serving._model_reference import Reference, is_reference
from vista_spark.serving._model_store import ModelStore
from vista_spark.serving._pipelines import pipeline_session

if TYPE_CHECKING:
    from udfs.store import Store
    from vista_spark.serving._session import Session

__all__ = ["fetched", "newest"]


def newest(session: Session, store: Store | None) -> str | None:
    """Return the version that a session's model names now; ``None`` if it names no version that can change.

    Raises
    ------
    InvalidArgumentError, udfs.store.StoreError, mlflow.exceptions.MlflowException
        The registry does not have the model, or cannot be reached.
    """
    if not is_reference(session.model):
        return None
    reference = Reference.read(session.model)
    return _version(reference, store) if reference.moves else None


def fetched(session: Session, store: Store | None) -> Session:
    """Return a session with its model and version, loaded from the registry if the session names one.

    ``store`` has models named ``"store:/..."``.

    Raises
    ------
    InvalidArgumentError
        The model, the version or the store does not exist.
    """
    if not is_reference(session.model):
        return pipeline_session(session)
    reference = Reference.read(session.model)
    version = reference.version or _version(reference, store)
    if reference.scheme == "models":
        return pipeline_session(mlflow_session(session, reference.name, version))
    fields = _models(reference, store).load(reference.name, version)
    overrides = {name: value for name in fields if _is_set(value := getattr(session, name))}
    return pipeline_session(replace(session, **{**fields, **overrides, "model": fields["model"], "version": version}))


def _is_set(value: Any) -> bool:
    return value is not None and not (isinstance(value, list | tuple) and not value)


def _version(reference: Reference, store: Store | None) -> str:
    if reference.scheme == "models":
        return mlflow_version(reference)
    return _models(reference, store).version(reference.name, reference.alias or None)


def _models(reference: Reference, store: Store | None) -> ModelStore:
    if store is None:
        raise InvalidArgumentError(
            f"store must be set for the model {str(reference)!r}, got None. Set Server(store=...)."
        )
    return ModelStore(store)
