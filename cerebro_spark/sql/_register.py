"""``register_sql``: tuned models as a function of a session's queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import TunedModel
from udfs.driver import register_function
from udfs.sql import PredictionCalls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sql"]

# Batches of the network whose outputs are collected before they are passed to Spark.
_BATCHES = 8


def register_sql(spark: SparkSession, **models: TunedModel) -> tuple[str, ...]:
    """Register tuned models as SQL functions: ``predict_tuned(struct(price, weight), 'churn')``.

    A call returns the same as ``transform`` of the model for the row. The functions belong to the session, and replace
    those of an earlier call:

    ``predict_tuned(struct(columns), 'model')``
        Returns the prediction, a double; null for a row that the network cannot read.
    ``predict_tuned_or_error(struct(columns), 'model')``
        Returns a struct of ``prediction``, ``probability`` and ``raw_prediction`` (arrays of double), ``error`` (the
        reason; null for a good row) and ``detail``. The probability is null for a regression.

    The struct contains the columns that the model was trained on, by name, in any order, and may contain others, as
    ``struct(*)`` does. For a model of a single column, the argument may be the column itself. ``'model'`` is optional
    if a single model is registered.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect session.
    **models : TunedModel
        Models by the names that queries use.

    Returns
    -------
    tuple of str
        Names of the functions.

    Raises
    ------
    InvalidArgumentError
        There is no model, an argument is not a :class:`TunedModel`, or a model predicts a class for each token.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import TunedModel
    >>> model = TunedModel.load("models/churn")  # doctest: +SKIP
    >>> register_sql(SparkSession.active(), churn=model)  # doctest: +SKIP
    ('predict_tuned', 'predict_tuned_or_error')
    """
    if not models:
        raise InvalidArgumentError("register_sql has no model: write register_sql(spark, churn=model)")
    for name, model in models.items():
        if not isinstance(model, TunedModel):
            raise InvalidArgumentError(
                f"{name}={model!r}: register_sql takes TunedModel, as Selection.best_model and TunedModel.load give it"
            )
    known = {name: model.sql_model() for name, model in models.items()}
    rows = _BATCHES * max(model.getBatchSize() for model in models.values())
    functions = ("predict_tuned", "predict_tuned_or_error")
    for function in functions:
        calls = PredictionCalls(function, known, explained=function != "predict_tuned")
        register_function(spark, function, calls, calls.returns, rows=rows)
    return functions
