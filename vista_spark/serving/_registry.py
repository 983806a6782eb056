"""From a name in a registry to a session with the model itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vista_spark.errors import InvalidArgumentError
from vista_spark.serving._mlflow import mlflow_session, mlflow_version
from vista_spark.serving._model_store import ModelStore
from vista_spark.serving._pipelines import pipeline_session
from vista_spark.serving._reference import Reference, is_reference

if TYPE_CHECKING:
    from udfs.store import Store
    from vista_spark.serving._session import Session

__all__ = ["fetched", "newest"]


def newest(session: Session, store: Store | None) -> str | None:
    """Give the version that a session's model names now; ``None`` where no registry does, or always the same one.

    Raises
    ------
    InvalidArgumentError, udfs.store.StoreError, mlflow.exceptions.MlflowException
        The registry does not know it, or cannot be reached.
    """
    if not is_reference(session.model):
        return None
    reference = Reference.read(session.model)
    return _version(reference, store) if reference.moves else None


def fetched(session: Session, store: Store | None) -> Session:
    """Give a session with its model, where a registry has it, and with that one's version.

    Parameters
    ----------
    session : Session
    store : Store, optional
        Of ``"store:/..."``.

    Raises
    ------
    InvalidArgumentError
        There is no such model or version, or no store.
    """
    if not is_reference(session.model):
        return pipeline_session(session)
    reference = Reference.read(session.model)
    version = reference.version or _version(reference, store)
    if reference.scheme == "models":
        return pipeline_session(mlflow_session(session, reference.name, version))
    fields = _models(reference, store).load(reference.name, version)
    given = {name: getattr(session, name) for name in fields if getattr(session, name)}
    return pipeline_session(replace(session, **{**fields, **given, "model": fields["model"], "version": version}))


def _version(reference: Reference, store: Store | None) -> str:
    if reference.scheme == "models":
        return mlflow_version(reference)
    return _models(reference, store).version(reference.name, reference.alias or None)


def _models(reference: Reference, store: Store | None) -> ModelStore:
    if store is None:
        raise InvalidArgumentError(f"model={str(reference)!r}: the server has no store; Server(store=...) names it")
    return ModelStore(store)
