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

# Of a network's own, whose outputs are held before Spark gets them.
_BATCHES = 8


def register_sql(spark: SparkSession, **models: TunedModel) -> tuple[str, ...]:
    """Register tuned models as SQL functions: ``predict_tuned(struct(price, weight), 'churn')``.

    A call gives what the model's ``transform`` gives for the row. The functions are of the session, and an earlier
    call's are replaced:

    ``predict_tuned(struct(columns), 'model')``
        The prediction, a double, null for a row that the network cannot read.
    ``predict_tuned_or_error(struct(columns), 'model')``
        A struct of ``prediction``, ``probability`` and ``raw_prediction`` (arrays of double), ``error`` (the reason;
        null for a good row) and ``detail``. There is no probability where the label is a value.

    The struct has the columns that the model was trained on, by their names, in any order and with others beside them:
    ``struct(*)`` does. Of a model that reads one column the argument may be that column itself. ``'model'`` may be left
    out where one is registered.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    **models : TunedModel
        By the names that queries call them by.

    Returns
    -------
    tuple of str
        The functions.

    Raises
    ------
    InvalidArgumentError
        There is no model, something else is given, or a model has a class for each token of a row.

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
