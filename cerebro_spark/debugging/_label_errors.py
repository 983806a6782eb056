"""Label errors: rows whose labels out-of-sample probabilities contradict."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.debugging._checks import (
    check_classes,
    check_ids,
    check_result_names,
    class_numbers,
    label_counts,
    label_of,
)
from cerebro_spark.debugging._cleanlab import check_installed
from cerebro_spark.debugging._cross_fit import configuration_of, fold_models
from cerebro_spark.errors import EmptyInputError, LabelError
from cerebro_spark.tune import Search, TunedModel
from optimizer.arguments import one_of, whole
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import check_present, map_rows, quoted, validate_arguments
from udfs.influence import ClassProbabilities
from udfs.training import Folds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from pyspark.sql import DataFrame

__all__ = ["find_label_errors"]

_LOG = logging.getLogger(__name__)

_SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
_COLUMNS = ("given_label", "suggested_label", "score", "is_error", "rank")
_ID, _LABEL, _PROBABILITIES = "id", "label", "probabilities"


@validate_arguments
def find_label_errors(
    source: Search | TunedModel,
    df: DataFrame,
    *,
    id_column: str,
    params: Mapping[str, Any] | None = None,
    num_epochs: int | None = None,
    folds: int = 5,
    score: str = "self_confidence",
) -> pd.DataFrame:
    """Rank the rows of a table by how likely their labels are wrong, with cleanlab (confident learning).

    A network that trained on a wrong label has learned it, so each row is scored by a network that did not train on it:

    * With a search, one run of the hopper trains ``folds`` networks of one configuration over one copy of the shards.
      Each network leaves the rows of its fold out of every unit. Then one pass over ``df`` scores each row with the
      network of its fold. A hash of the features decides the fold, so rows with equal features are in the same fold.
    * With a :class:`TunedModel`, one pass scores ``df``. The table must be held out: it must not have rows that the
      model was trained on.

    Parameters
    ----------
    source : Search or TunedModel
        Search with the trainer, the backend, the store and the columns; or a model for a held-out table.
    df : DataFrame
        Rows with the id, feature and label columns.
    id_column : str
        Column of numbers or strings with a different value in each row.
    params : mapping of str to object, optional
        Configuration to train, such as ``selection.best_params``. By default that of a search which has only one. Not
        for a model.
    num_epochs : int, optional
        Number of epochs of each network. By default that of a :class:`GridSearch`. Not for a model.
    folds : int
        Number of folds, at least 2. More folds train on more rows, and take longer. Default 5. Not for a model.
    score : {"self_confidence", "normalized_margin", "confidence_weighted_entropy"}
        Label quality score of cleanlab: the probability of the given label (default), its margin over the others, or
        its share of the entropy.

    Returns
    -------
    pandas.DataFrame
        A row for each row of ``df``, the most suspicious first: the id, ``given_label``, ``suggested_label`` (the most
        probable class), ``score`` (from 0 to 1; low is suspicious), ``is_error`` (confident learning counts the label
        as wrong), and ``rank`` from 1. Rows that cannot be scored, because a value is null or an image cannot be read,
        come last with a null ``score``, ``suggested_label`` and ``rank``.

    Raises
    ------
    ColumnError
        A column is missing or of another type, or ids are null or repeated.
    LabelError
        The labels are not classes (a regression, several labels, tokens), the model does not know a label, or a class
        has fewer rows than there are folds.
    InvalidArgumentError
        A value is not allowed.
    MissingPackageError
        cleanlab is not installed.
    NoModelError
        The network of a fold did not finish its training.

    Notes
    -----
    The driver holds a probability for each row and class: 8 MB for 100,000 rows of 10 classes.

    References
    ----------
    Northcutt, Jiang, Chuang: Confident Learning, JAIR 70, 2021.

    Examples
    --------
    Look at the twenty most suspicious rows::

        find_label_errors(search, df, id_column="id").head(20)
    """
    check_installed("find_label_errors")
    one_of("score", score, _SCORES)
    check_result_names(id_column, _COLUMNS)
    check_ids(df, id_column, "df")
    if isinstance(source, TunedModel):
        label_column, rule = source.label_column, None
        models: tuple[TunedModel, ...] = (source,)
        check_classes(source.task, label_column)
    else:
        configuration, epochs = configuration_of(source, params, num_epochs)
        label_column = source.label_columns[0]
        rule = Folds(whole("folds", folds, 2), source.seed)
        _check_folds(label_counts(df, label_column, "df"), label_column, folds)
        models = fold_models(source, df, rule, configuration, epochs)
        check_classes(models[0].task, label_column)
    scored = _scored(models, df, id_column, label_column, rule).toPandas()
    return _ranked(scored, models[0], id_column, score)


def _check_folds(counts: Mapping[Any, int], label_column: str, folds: int) -> None:
    """Refuse labels that are no classes, and classes with too few rows to be in the training rows of every fold."""
    labels = {label: count for label, count in counts.items() if label is not None}
    for label, count in labels.items():
        if isinstance(label, (list, tuple)) or not _is_whole(label):
            raise LabelError(
                f"label column {label_column!r} must have class numbers, got {label!r}. find_label_errors takes "
                "classes alone: a regression has no wrong class"
            )
        if count < folds:
            raise LabelError(
                f"each class of label column {label_column!r} must have at least {folds} rows for folds={folds}, got "
                f"{count} of class {label}. Use fewer folds, or leave this class out"
            )
    if len(labels) < 2:
        raise LabelError(f"label column {label_column!r} must have at least 2 classes, got {len(labels)}.")


def _is_whole(label: Any) -> bool:
    return isinstance(label, (bool, int)) or (isinstance(label, float) and label.is_integer())


def _scored(
    models: Sequence[TunedModel], df: DataFrame, id_column: str, label_column: str, folds: Folds | None
) -> DataFrame:
    """Add the out-of-sample probabilities in one pass, and keep ids and labels beside them."""
    first = models[0]
    check_present(df, [label_column], "df")
    sources = choose_features(df, first.inputs)
    function = ClassProbabilities(
        networks=tuple(model.network for model in models),
        inputs=first.inputs,
        images=tuple(source.name for source in sources if source.kind == "image"),
        task=first.task,
        output=_PROBABILITIES,
        batch_size=first.getBatchSize(),
        folds=folds,
    )
    rows = RowMap(function, tuple(dict.fromkeys([id_column, label_column])), RowPolicy("null"))
    scored = map_rows(
        df.select(*(F.col(quoted(name)) for name in df.columns if name != _PROBABILITIES or name in function.reads)),
        rows,
        reads={source.name: source.encoded for source in sources},
    )
    return scored.select(
        F.col(quoted(id_column)).alias(_ID), F.col(quoted(label_column)).alias(_LABEL), F.col(_PROBABILITIES)
    )


def _ranked(scored: pd.DataFrame, model: TunedModel, id_column: str, score: str) -> pd.DataFrame:
    import pandas as pd
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    task = model.task
    good = scored[_LABEL].notna() & scored[_PROBABILITIES].notna()
    if not good.any():
        raise EmptyInputError("df must have rows that the network can read, got only rows with nulls.")
    if not good.all():
        _LOG.warning("%d rows have a null or cannot be read: they have no score, and come last", int((~good).sum()))
    probabilities = np.stack(scored.loc[good, _PROBABILITIES].to_list())
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = class_numbers(scored.loc[good, _LABEL].to_numpy(), task, probabilities.shape[1], model.label_column)
    # cleanlab starts processes otherwise.
    is_error = find_label_issues(labels, probabilities, n_jobs=1)
    quality = get_label_quality_scores(labels, probabilities, method=score)
    ranked = pd.DataFrame(
        {
            id_column: scored.loc[good, _ID].to_numpy(),
            "given_label": [label_of(number, task) for number in labels],
            "suggested_label": [label_of(number, task) for number in probabilities.argmax(axis=1)],
            "score": quality,
            "is_error": np.asarray(is_error, np.bool_),
        }
    ).sort_values(["score", id_column], ignore_index=True)
    ranked["rank"] = np.arange(1, len(ranked) + 1)
    rest = pd.DataFrame({id_column: scored.loc[~good, _ID], "given_label": scored.loc[~good, _LABEL]})
    rest = rest.assign(suggested_label=None, score=np.nan, is_error=False, rank=None).sort_values(id_column)
    whole_numbers = {"given_label": "Int64", "suggested_label": "Int64", "rank": "Int64"}
    parts = [part for part in (ranked, rest) if len(part)]
    return pd.concat([part.astype(whole_numbers) for part in parts], ignore_index=True)
