"""``log_model`` and ``save_model``: a tuned model in MLflow's Python-function flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.tune import pyfunc_of
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from pathlib import Path

    from cerebro_spark.tune import Selection, TunedModel

__all__ = ["log_model", "save_model"]


@validate_arguments
def save_model(
    model: TunedModel | Selection, path: str | Path, *, signature: Any = None, input_example: Any = None
) -> None:
    """Save a tuned model as a folder that ``mlflow.pyfunc.load_model`` loads, without Spark.

    The model reads a pandas DataFrame with the columns that the network was trained on, and gives one with the columns
    that :class:`cerebro_spark.TunedModel` adds, and ``error``: the reason where they are null, ``""`` for a good row.
    As ``mlflow.pyfunc.spark_udf(spark, uri, env_manager="local")`` it runs in Spark's workers.

    Parameters
    ----------
    model : TunedModel or Selection
        Model to log; of a selection its best model.
    path : str or Path
        A folder that does not exist yet, or is empty.
    signature : mlflow.models.ModelSignature, optional
        By default that of the network's columns: numbers are ``double``, vectors and tensors arrays, images ``binary``.
    input_example : pandas.DataFrame, optional
        Stored with the model, and tried. By default a row made of the signature, where the shapes of all arrays
        are known and small.

    Raises
    ------
    InvalidArgumentError
        It is something else, or has a class for each token of a row.

    Examples
    --------
    >>> from cerebro_spark import TunedModel
    >>> save_model(TunedModel.load("models/churn"), "models/churn-mlflow")  # doctest: +SKIP
    """
    pyfunc_of(model).save(path, signature=signature, input_example=input_example)


def log_model(
    model: TunedModel | Selection,
    name: str,
    *,
    registered_model_name: str | None = None,
    signature: Any = None,
    input_example: Any = None,
    **options: Any,
) -> Any:
    """Log a tuned model to MLflow's active run, as :func:`save_model` saves it.

    Parameters
    ----------
    model : TunedModel or Selection
        Model to log; of a selection its best model.
    name : str
        Name of the model in the run.
    registered_model_name : str, optional
        Register a new version under this name; ``MlflowClient().set_registered_model_alias`` gives it an alias, by
        which ``models:/name@alias`` is loaded.
    signature, input_example
        See :func:`save_model`.
    **options
        More of ``mlflow.pyfunc.log_model``: ``tags``, ``metadata``, ``run_id``, ...

    Returns
    -------
    mlflow.models.model.ModelInfo
        Description of the logged model.

    Examples
    --------
    >>> import mlflow
    >>> from cerebro_spark import TunedModel
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = log_model(TunedModel.load("models/churn"), "churn", registered_model_name="churn")
    """
    return pyfunc_of(model).log(
        name,
        registered_model_name=registered_model_name,
        signature=signature,
        input_example=input_example,
        **options,
    )
