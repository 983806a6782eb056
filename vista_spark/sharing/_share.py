"""``share``: train an upper part per attribute on the outputs of one trunk."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from optimizer.arguments import real, whole
from udfs.driver import quoted, task_slots, validate_arguments
from udfs.mlp import HeadTraining
from udfs.serving import Head
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer
from vista_spark.network import warn_of_random_weights
from vista_spark.sharing._attributes import accuracies, check_labels, class_places, learned_attributes
from vista_spark.sharing._model import SharedModel

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from vista_spark.sharing._attributes import SharedAttribute

__all__ = ["share"]

_FEATURES, _PLACES, _KEY = "features", "places", "key"
_BATCH = 128


@validate_arguments
def share(  # noqa: PLR0913 - options by name
    model: Any,
    *,
    weights: str | os.PathLike[str] | None = None,
    train: DataFrame,
    valid: DataFrame,
    labelCols: Sequence[str],
    layer: str = "pool",
    inputCol: str = "image",
    imageSize: int | None = None,
    maxIter: int = 20,
    stepSize: float = 1e-3,
    regParam: float = 1e-3,
    numWorkers: int | None = None,
    device: str = "auto",
    seed: int = 0,
) -> SharedModel:
    """Train an upper part per attribute on the outputs of one trunk (MCDNN, section 4.3.2.2 of Shen's thesis).

    The trunk is a network up to a layer, with its weights as they are. It runs once over the training rows, and all
    upper parts, linear heads over the layer, are trained in one pass of barrier tasks over its outputs, which stay on
    the executors. A head does not depend on the other heads.

    Parameters
    ----------
    model : str, ModelCard or model
        Network, as for :class:`vista_spark.CNNFeaturizer`.
    weights : str or path, optional
        Weights of the network. Default: random ones, with a warning.
    train, valid : DataFrame
        Rows to train on, and others to measure the accuracy on. Rows whose image cannot be read are left out.
    labelCols : sequence of str
        Attributes: columns of booleans, integers or strings. A row with a null counts for the other attributes.
    layer : str
        Topmost layer of the trunk. Default ``"pool"``.
    inputCol : str
        Column of images, as for :class:`vista_spark.CNNFeaturizer`. Default ``"image"``.
    imageSize : int, optional
        Height and width of the network's images, in pixels. Default: the model's size.
    maxIter : int
        Epochs. Default 20.
    stepSize : float
        Learning rate of Adam. Default 0.001.
    regParam : float
        L2 penalty: ``regParam / 2`` times the sum of the squared weights of standardised outputs. Default 0.001.
    numWorkers : int, optional
        Tasks that train together. Default: all task slots.
    device : str
        Device of the trunk. Default ``"auto"``.
    seed : int
        Seed of the order of the rows, and of random weights. Default 0.

    Returns
    -------
    SharedModel
        The trunk and its upper parts, with the accuracy of each attribute on `valid`.

    Raises
    ------
    ColumnError, LabelError
        A column is missing or of the wrong type; raised before Spark starts a job. Or an attribute has fewer than two
        classes, or more than 1,000.
    EmptyInputError
        No row has a readable image, or no row of `valid` has a label of an attribute.
    InvalidArgumentError
        An option is not valid, there are fewer task slots than workers, or the training diverged.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        See :class:`vista_spark.CNNFeaturizer`.

    Examples
    --------
    >>> shared = share("mobilenet_v2", weights=w, train=df, valid=df2, labelCols=["hat", "glasses"])  # doctest: +SKIP
    >>> shared.transform(photos).select("hat_prediction", "glasses_prediction")  # doctest: +SKIP
    """
    trunk = CNNFeaturizer(
        model=model,
        weights=weights,
        layers=layer,
        pooling="none",
        inputCol=inputCol,
        outputCols=[_FEATURES],
        imageSize=imageSize,
        device=device,
        seed=seed,
        errors="null",
    )
    whole("maxIter", maxIter)
    real("stepSize", stepSize, 0, above=True)
    real("regParam", regParam, 0)
    kinds = check_labels(train, labelCols, "train")
    others = check_labels(valid, labelCols, "valid")
    if kinds != others:
        name = next(name for name in kinds if kinds[name] != others[name])
        raise ColumnError(
            f"labelCols must have the same types in train and valid, got {kinds[name]} and {others[name]} for {name!r}."
        )
    net = trunk.open_network()
    for df, what in ((train, "train"), (valid, "valid")):
        net.reads.check(df, inputCol, what)
    if inputCol in kinds:
        raise ColumnError(f"labelCols must not contain the column of images, got {inputCol!r}.")
    net.layers(layer)
    warn_of_random_weights(net.card, net.weights, net.seed)
    slots = task_slots(train.sparkSession, wanted=numWorkers or 1)
    if numWorkers is not None and not 1 <= numWorkers <= slots:
        raise InvalidArgumentError(f"numWorkers must be from 1 to {slots}, the number of task slots, got {numWorkers}.")
    attributes = learned_attributes(train, kinds)
    training = HeadTraining(
        tuple(len(attribute.classes) for attribute in attributes), maxIter, stepSize, _BATCH, regParam, seed
    )
    head = _trained(trunk, train, attributes, training, numWorkers or slots)
    shared = SharedModel(trunk, head, attributes)
    wanted = [F.col(quoted(name)) for name in (inputCol, *kinds)]
    counts = accuracies(shared.transform(valid.select(*wanted)), attributes, shared.outputCols)
    measured = [
        replace(attribute, valid_rows=rows, accuracy=hits / rows, baseline=usual / rows)
        for attribute, (rows, hits, usual) in zip(attributes, counts, strict=True)
    ]
    return SharedModel(trunk, head, measured)


def _trained(
    trunk: CNNFeaturizer,
    train: DataFrame,
    attributes: Sequence[SharedAttribute],
    training: HeadTraining,
    workers: int,
) -> Head:
    """Run the trunk over the training rows, and train all heads on its outputs."""
    labels = class_places(attributes).alias(_PLACES)
    known = [F.col(quoted(attribute.name)).isNotNull() for attribute in attributes]
    rows = train.where(F.array_contains(F.array(*known), F.lit(True)))
    image = F.col(quoted(trunk.getInputCol()))
    rows = rows.select(image, labels, F.xxhash64(image).alias(_KEY))
    outputs = trunk.copy().setOutputFormat("array").transform(rows)
    outputs = outputs.select(_FEATURES, _PLACES, _KEY).where(F.col(_FEATURES).isNotNull())
    # The order, and so the batches, depend on the images alone: not on a shuffle, and not on the other attributes.
    outputs = outputs.repartition(workers, _KEY).sortWithinPartitions(_KEY, _PLACES)
    result = outputs.mapInArrow(training, HeadTraining.schema, barrier=True).collect()
    report: dict[str, Any] = json.loads(result[0]["report"]) if result else {"rows": 0}
    if not report["rows"]:
        raise EmptyInputError("train must have rows with a readable image, got none.")
    if not np.isfinite(report["losses"][-1]).all():
        raise InvalidArgumentError(f"stepSize must be small enough to converge, got {training.step_size:g}. Lower it.")
    weight = np.frombuffer(result[0]["weight"], np.float32).reshape(-1, report["features"])
    return Head(weight, np.frombuffer(result[0]["bias"], np.float32))
