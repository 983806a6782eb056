"""``register_sql``: featurizers and cascades as functions of a session's queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from udfs.arrow import RowPolicy
from udfs.driver import register_function
from udfs.sql import CascadeCalls, NetworkCalls, SQLNetwork
from vista_spark.cascades import CascadeModel, sql_cascade
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.network import Layers, warn_of_random_weights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.arrow import ErrorPolicy
    from udfs.inference import Feature
    from vista_spark.network import Network
    from vista_spark.roster import FeatureLayer

    Featurizer = CNNFeaturizer | TextFeaturizer
    Registered = Featurizer | CascadeModel

__all__ = ["register_sql"]

_KINDS = {"image": "cnn_features", "text": "text_features"}
_VALUE, _FEATURES = "value", "features"

# Of a network's own, whose features are held before Spark gets them.
_BATCHES = 8


def register_sql(spark: SparkSession, *stages: Featurizer, **named: Registered) -> tuple[str, ...]:
    """Register featurizers and cascades as SQL functions: ``cnn_features(image, 'mobilenet_v2', 'pool')``.

    A call gives what the stage gives for the row: the decoder, the pooling, the size of images, the batch, the device
    and the weights are the stage's, and its weights are shipped as the stage ships them. The functions are of the
    session, and an earlier call's are replaced. For each kind of network there are two:

    ``cnn_features(image, 'model', 'layer')``, ``text_features(text, 'model', 'layer')``
        An ``array<float>``, null for a bad row.
    ``cnn_features_or_error(...)``, ``text_features_or_error(...)``
        A struct of ``features``, ``error`` (the reason; null for a good row) and ``detail``.

    ``cascade(struct(columns), 'name')``
        A struct of ``prediction``, ``probability``, ``answered_by``, ``error`` and ``detail``.

    ``'layer'`` is a layer's name, or its number from the top, 1 the topmost; without it, the call gives the stage's own
    layers, which are one or have a ``combine``. ``'model'`` may be left out where one network is registered. Stages'
    columns, and ``outputFormat``, do not matter.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    *stages : CNNFeaturizer or TextFeaturizer
        Called by their models' names.
    **named : CNNFeaturizer, TextFeaturizer or CascadeModel
        Called by these names.

    Returns
    -------
    tuple of str
        The functions that there are now.

    Raises
    ------
    InvalidArgumentError
        Two stages have one name, a stage has ``errors="drop"`` (a function gives a value for each row) or several
        input columns, or there is no stage.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        As the stages raise them.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from vista_spark import CNNFeaturizer
    >>> register_sql(SparkSession.active(), CNNFeaturizer(model="squeezenet1_1", layers="pool10"))
    ('cnn_features', 'cnn_features_or_error')
    """
    cascades = {name: stage for name, stage in named.items() if isinstance(stage, CascadeModel)}
    functions = []
    if cascades:
        called = {name: sql_cascade(spark, name, stage) for name, stage in cascades.items()}
        calls_of_cascades = CascadeCalls("cascade", called)
        most = max(stage.getBatchSize() for stage in cascades.values())
        register_function(spark, "cascade", calls_of_cascades, calls_of_cascades.returns, rows=most)
        functions.append("cascade")
        if len(named) == len(cascades) and not stages:
            return tuple(functions)
    by_name = _named(stages, {name: stage for name, stage in named.items() if not isinstance(stage, CascadeModel)})
    networks: dict[str, dict[str, SQLNetwork]] = {}
    for name, stage in by_name.items():
        kind = "text" if isinstance(stage, TextFeaturizer) else "image"
        networks.setdefault(kind, {})[name] = _sql_network(spark, name, stage)
    rows = _BATCHES * max(stage.getBatchSize() for stage in by_name.values())
    for kind, of_kind in networks.items():
        for explained in (False, True):
            function = _KINDS[kind] + ("_or_error" if explained else "")
            calls = NetworkCalls(function, kind, of_kind, explained)
            register_function(spark, function, calls, calls.returns, rows=rows)
            functions.append(function)
    return tuple(functions)


def _named(stages: tuple[Featurizer, ...], named: dict[str, Featurizer]) -> dict[str, Featurizer]:
    if not stages and not named:
        raise InvalidArgumentError("register_sql has no stage: give it a CNNFeaturizer or a TextFeaturizer")
    for stage in (*stages, *named.values()):
        if not isinstance(stage, CNNFeaturizer | TextFeaturizer):
            raise InvalidArgumentError(
                f"register_sql takes CNNFeaturizer and TextFeaturizer, not {type(stage).__name__}: "
                'write CNNFeaturizer(model="mobilenet_v2", weights="mobilenet_v2.pth")'
            )
    by_name: dict[str, Featurizer] = {}
    for name, stage in [*((stage.open_network().card.name, stage) for stage in stages), *named.items()]:
        if name in by_name:
            raise InvalidArgumentError(
                f"two stages are called {name!r}: name one, as in register_sql(spark, other=stage)"
            )
        by_name[name] = stage
    return by_name


def _sql_network(spark: SparkSession, name: str, stage: Featurizer) -> SQLNetwork:
    if stage.getErrors() == "drop":
        raise InvalidArgumentError(
            f'stage {name!r} has errors="drop", and a function gives a value for each row: take "null", and leave '
            "the nulls out by WHERE ... IS NOT NULL"
        )
    net = stage.open_network()
    if net.reads.columns != 1:
        raise InvalidArgumentError(
            f"stage {name!r} reads {net.reads.columns} columns, and a call has one: use the stage"
        )
    warn_of_random_weights(net.card, net.weights, net.seed)
    net.check()
    stage_layers = net.layers(stage.getLayers())
    layers = {
        layer.name: feature for layer in (*net.card.layers, *stage_layers) if (feature := _feature(net, layer, stage))
    }
    is_single = len(stage_layers) == 1 or stage.getCombine() is not None
    outputs = [_FEATURES] if is_single else [f"{_FEATURES}_{place}" for place in range(len(stage_layers))]
    inference = stage.inference(net.shipped(spark), reads=[_VALUE], outputs=outputs)
    policy = RowPolicy(cast("ErrorPolicy", stage.getErrors()), error=net.reads.error)
    from_top = tuple(layer.name for layer in reversed(net.card.layers))
    return SQLNetwork(inference, layers, from_top, policy, tensors=isinstance(net.reads, Layers))


def _feature(net: Network, layer: FeatureLayer, stage: Featurizer) -> Feature | None:
    """Describe a layer's features; ``None`` where it lies below the start layer."""
    try:
        return net.feature(layer, _FEATURES, stage.getPooling())
    except InvalidArgumentError:
        return None
