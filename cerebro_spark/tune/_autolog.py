"""Automatic logging to MLflow's active experiment, for searches without an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from cerebro_spark.errors import InvalidArgumentError
from udfs.driver import validate_arguments

__all__ = ["Autologging", "autolog", "autologging"]


@dataclass(frozen=True, slots=True)
class Autologging:
    """Settings of automatic logging.

    Each best model becomes a version of ``registered_model_name``.
    """

    log_models: bool = True
    registered_model_name: str | None = None


_held: list[Autologging] = []


@validate_arguments
def autolog(*, disable: bool = False, log_models: bool = True, registered_model_name: str | None = None) -> None:
    """Log each search that follows to MLflow, without ``experiment=`` of its own.

    A search, an estimator or a cycle of an adaptation gets a run in the active experiment, below the active run where
    there is one, with a child for each configuration; metrics come epoch by epoch while it trains.

    Parameters
    ----------
    disable : bool
        Stop. Default ``False``.
    log_models : bool
        Log the best model as ``model``, which ``mlflow.pyfunc.load_model`` loads. Default ``True``.
    registered_model_name : str, optional
        Register each best model under this name.

    Raises
    ------
    InvalidArgumentError
        A name is given for models that are not logged.

    Examples
    --------
    >>> import cerebro_spark
    >>> cerebro_spark.autolog(registered_model_name="churn")
    >>> cerebro_spark.autolog(disable=True)
    """
    if registered_model_name is not None and not log_models:
        raise InvalidArgumentError(
            f"registered_model_name={registered_model_name!r} with log_models=False: a model has to be logged for that"
        )
    _held.clear()
    if not disable:
        import mlflow  # noqa: F401 - a missing package is said now, not after the first search

        _held.append(Autologging(log_models, registered_model_name))


def autologging() -> Autologging | None:
    """Return what is logged; ``None`` where :func:`autolog` is not on."""
    return _held[0] if _held else None
