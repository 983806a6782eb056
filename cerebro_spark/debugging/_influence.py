"""Influential training rows: TracIn over the states that a search keeps of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.debugging._checks import check_ids, check_result_names
from cerebro_spark.errors import EmptyInputError, InvalidArgumentError, LabelError
from optimizer.arguments import whole
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import check_present, map_rows, quoted, validate_arguments
from udfs.inference import NetworkInputs
from udfs.influence import CheckpointInfluence, Checkpoints, gradients_of
from udfs.training import initial_seed, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import Selection
    from udfs.shards import TensorGroup

__all__ = ["find_influential_rows"]

_MOST_TARGETS = 1000
_INFLUENCE, _OWN, _TARGET, _RANK = "__influence", "self_influence", "__target", "rank"


@validate_arguments
def find_influential_rows(
    selection: Selection,
    train_df: DataFrame,
    target_df: DataFrame,
    *,
    id_column: str,
    trial_id: str | None = None,
    layers: Sequence[str] | None = None,
    k: int = 10,
) -> pd.DataFrame:
    """Find the training rows that changed the losses of some rows most, with TracIn.

    The influence of a training row on a target row is the sum, over the states that the run keeps, of the learning rate
    times the dot product of the gradients of both losses (TracInCP). It is positive where training on the row lowered
    the loss of the target, and negative where it raised it. One pass over ``train_df`` computes it for all states and
    all targets.

    By default only the parameters of the last layer count, as in the paper, whose authors compute it for the last
    layers of large networks: their gradients are short, and linear layers need no gradient for each row. Name others
    in ``layers``.

    Parameters
    ----------
    selection : Selection
        Result of a search with ``keep="epochs"``, whose network is one of torch, or one of Keras on TensorFlow whose
        last layer with weights is Dense.
    train_df : DataFrame
        Rows that the search trained on, with the id, feature and label columns.
    target_df : DataFrame
        Rows to explain, such as wrong predictions on validation rows: at most 1000, with the same columns.
    id_column : str
        Column of numbers or strings with a different value in each row.
    trial_id : str, optional
        Configuration. By default the best one.
    layers : sequence of str, optional
        Modules of the network whose parameters count, as ``model.named_modules()`` names them. By default the last one
        with parameters. Linear layers are fast; other layers take a backward pass for each row. Of Keras only the last
        layer counts.
    k : int
        Number of training rows with the most positive influence, and of those with the most negative one, for each
        target. Default 10.

    Returns
    -------
    pandas.DataFrame
        For each target (``target_id``), up to ``k`` training rows (``id_column``) with positive ``influence`` and up to
        ``k`` with negative influence; ``kind`` is ``"proponent"`` or ``"opponent"``, and ``rank`` counts from 1 within
        the kind. ``self_influence`` is the influence of the training row on itself: wrong labels often have a large
        one.

    Raises
    ------
    InvalidArgumentError
        The run keeps no states of epochs, the network has no gradients of rows, a layer is unknown, or there are more
        than 1000 targets.
    ColumnError
        A column is missing or of another type, or ids are null or repeated.
    LabelError
        The network has several label columns.
    EmptyInputError
        A table has no rows that the network can read.
    NoModelError
        There is no such configuration.

    Notes
    -----
    TracIn assumes plain SGD. Momentum and adaptive optimizers such as Adam scale gradients, and the ranking is then an
    approximation. Gradients are taken in inference mode, without dropout and augmentation. Weights of rows do not
    count.

    References
    ----------
    Pruthi, Liu, Kale, Sundararajan: Estimating Training Data Influence by Tracing Gradient Descent, NeurIPS 2020.

    Examples
    --------
    Explain the wrong predictions of a search with ``keep="epochs"``::

        mistakes = selection.best_model.transform(held_out).where("prediction != label").select(*held_out.columns)
        find_influential_rows(selection, train, mistakes, id_column="id", k=5)
    """
    whole("k", k)
    check_result_names(id_column, ("target_id", "kind", _RANK, "influence", _OWN))
    checkpoints = _checkpoints(selection, trial_id)
    labels = selection.prepared.labels
    if len(labels) != 1:
        raise LabelError(f"the network must have one label column, got {len(labels)}. Train it on one label")
    session = checkpoints.open()
    groups = (*selection.prepared.viewed(view_of(session)).inputs, *labels)
    targets = check_ids(target_df, id_column, "target_df")
    if targets > _MOST_TARGETS:
        raise InvalidArgumentError(
            f"target_df must have at most {_MOST_TARGETS} rows, got {targets}. Choose the rows to explain"
        )
    check_ids(train_df, id_column, "train_df")
    ids, arrays = _read(target_df, groups, id_column)
    gradients = gradients_of(session)
    chosen = (gradients.last_layer(session, arrays[:-1]),) if layers is None else tuple(layers)
    gradients.row_gradients(
        session, [array[:1] for array in arrays[:-1]], arrays[-1][:1], chosen
    )  # refuses unknown layers
    inputs, sources = _inputs(train_df, groups)
    function = CheckpointInfluence(checkpoints, chosen, inputs, tuple(arrays), _INFLUENCE, _OWN)
    reads = {source.name: source.encoded for source in sources}
    scored = map_rows(train_df, RowMap(function, (id_column,), RowPolicy("null")), reads=reads)
    return _strongest(scored, ids, id_column, k)


def _checkpoints(selection: Selection, trial_id: str | None) -> Checkpoints:
    trial = selection.best.trial_id if trial_id is None else trial_id
    states = selection.epoch_states(trial)
    if selection.spec.keep != "epochs" or not states:
        raise InvalidArgumentError(
            f"selection must have the states of all epochs of {trial}, got those of a search with "
            f'keep={selection.spec.keep!r}. Search with keep="epochs"'
        )
    params = next(result.params for result in selection.trials if result.trial_id == trial)
    return Checkpoints(
        trainer_fn=selection.trainer_fn,
        params=params,
        seed=initial_seed(selection.spec.seed, trial),
        prepared=selection.prepared,
        states=tuple(states.values()),
    )


def _inputs(df: DataFrame, groups: Sequence[TensorGroup]) -> tuple[NetworkInputs, Sequence[Any]]:
    check_present(df, [column.name for group in groups for column in group.columns], "df")
    sources = choose_features(df, groups)
    images = tuple(source.name for source in sources if source.kind == "image")
    return NetworkInputs(tuple(groups), images), sources


def _read(df: DataFrame, groups: Sequence[TensorGroup], id_column: str) -> tuple[list[Any], list[NDArray[Any]]]:
    """Read the targets to the driver, as the network reads them."""
    inputs, sources = _inputs(df, groups)
    columns = [F.col(quoted(id_column)).alias("__id"), *(_column(s.encoded).alias(s.name) for s in sources)]
    table = df.select(*columns).toArrow().combine_chunks()
    batch = pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], table.column_names)
    arrays, reasons = inputs.read(batch)
    ids = [name for name, reason in zip(batch.column("__id").to_pylist(), reasons, strict=True) if reason is None]
    if not ids:
        raise EmptyInputError("target_df must have rows that the network can read, got only rows with nulls.")
    return ids, arrays


def _column(encoded: Any) -> Any:
    return F.col(quoted(encoded)) if isinstance(encoded, str) else encoded


def _strongest(scored: DataFrame, ids: Sequence[Any], id_column: str, k: int) -> pd.DataFrame:
    """Return the training rows with the most positive and most negative influences, by target."""
    import pandas as pd

    each = scored.where(F.col(_INFLUENCE).isNotNull()).select(
        F.col(quoted(id_column)), F.col(_OWN), F.posexplode(_INFLUENCE).alias(_TARGET, "influence")
    )
    kind = F.when(F.col("influence") > 0, "proponent").otherwise("opponent")
    strength = F.abs("influence")
    order = Window.partitionBy(_TARGET, "kind").orderBy(F.desc("strength"), F.col(quoted(id_column)))
    ranked = (
        each.where("influence != 0")
        .withColumns({"kind": kind, "strength": strength})
        .withColumn(_RANK, F.row_number().over(order))
        .where(F.col(_RANK) <= k)
    )
    table = ranked.toPandas().sort_values([_TARGET, "kind", _RANK], ascending=[True, False, True])
    rows = table.assign(target_id=[ids[place] for place in table[_TARGET]])
    columns = ["target_id", "kind", _RANK, id_column, "influence", _OWN]
    return pd.DataFrame(rows[columns]).reset_index(drop=True)
