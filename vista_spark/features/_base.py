"""The base of the featurizers of images and of text: a network of the roster over a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pyspark import keyword_only
from pyspark.ml import Transformer
from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasOutputCols

from udfs.arrow import ErrorPolicy, RowMap, RowPolicy
from udfs.cascades import ClassScores, identity_of
from udfs.driver import UNBOUND, accessors, check_absent, map_rows, one_of, optional_accessors
from udfs.inference import COMBINATIONS, Combination, Combined, Inference, Reduction
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.network import (
    HasNetwork,
    HasNetworkInput,
    Network,
    NetworkPersistable,
    layer_list,
    warn_of_random_weights,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from udfs.inference import Feature
    from vista_spark.roster import FeatureLayer

__all__ = ["NetworkFeaturizer"]


class NetworkFeaturizer(Transformer, HasNetworkInput, HasNetwork, HasOutputCols, NetworkPersistable):
    """Base of a stage that passes a column through a network; the stages document the Params."""

    _kind: ClassVar[str]
    _another: ClassVar[str]

    layers: Param[Any] = Param(UNBOUND, "layers", "names, numbers from the top, or how many from the top", layer_list)
    combine: Param[str] = Param(
        UNBOUND,
        "combine",
        "one column for all layers: " + " | ".join(COMBINATIONS),
        one_of("combine", COMBINATIONS),
    )
    outputFormat: Param[str] = Param(
        UNBOUND, "outputFormat", "vector | array", one_of("outputFormat", ("vector", "array"))
    )
    errorDetailCol: Param[str] = Param(
        UNBOUND, "errorDetailCol", "column for what a reason leaves open: a path, a size", TypeConverters.toString
    )
    pooling: Param[str]

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(layers=1, outputFormat="vector")

    @keyword_only
    def setParams(self, **params: Any) -> Self:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def getLayers(self) -> int | str | list[int | str]:
        """Return the layers as the user specified them."""
        return cast("int | str | list[int | str]", self.getOrDefault(self.layers))

    def setLayers(self, value: int | str | Sequence[int | str]) -> Self:
        """Set the layers."""
        return self._set(layers=value)

    def getPooling(self) -> str:
        """Return the pooling of feature maps."""
        return self.getOrDefault(self.pooling)

    def setPooling(self, value: str) -> Self:
        """Set the pooling of feature maps."""
        return self._set(pooling=value)

    getOutputFormat, setOutputFormat = accessors(outputFormat, "the type of the output columns")
    getCombine, setCombine = optional_accessors(combine, "the combination of all layers in one column")
    getErrorDetailCol, setErrorDetailCol = optional_accessors(errorDetailCol, "the column for the detail of a reason")

    def setOutputCols(self, value: list[str]) -> Self:
        """Set the output columns, one per layer, from the bottom to the top; with ``combine`` one for all."""
        return self._set(outputCols=value)

    def getOutputCols(self) -> list[str]:
        """Return the output columns, ``<model>_<layer>`` or ``<model>_<combine>`` unless they were set."""
        if self.isDefined(self.outputCols):
            return self.getOrDefault(self.outputCols)
        combine = self.getCombine()
        if combine is not None:
            return [f"{self.getModel()}_{combine}"]
        layers = self._card(self._kind).resolve(self.getLayers())
        return [f"{self.getModel()}_{layer.name}".replace(".", "_") for layer in layers]

    def _transform(self, dataset: DataFrame) -> DataFrame:
        net = self._checked()
        layers, columns, combine = net.layers(self.getLayers()), self.getOutputCols(), self.getCombine()
        if len(columns) != (len(layers) if combine is None else 1):
            named = ", ".join(layer.name for layer in layers)
            remedy = "give one per layer" if combine is None else f"combine={combine!r} makes one of them"
            raise ColumnError(f"{len(columns)} outputCols for {len(layers)} layers ({named}): {remedy}")
        read = self._read()
        for column in read:
            net.reads.check(dataset, column, type(self).__name__)
        reasons = [self.getErrorCol(), self.getErrorDetailCol()] if self.getErrors() == "null" else []
        extra = [name for name in reasons if name is not None]
        check_absent(dataset, [*columns, *extra], "set outputCols or errorCol, or drop it first")
        features = self.inference(net, reads=read, outputs=columns).features
        sizes = [_size(net, feature) for feature in features]
        warn_of_random_weights(net.card, net.weights, net.seed)
        net.check()
        inference = self.inference(net.shipped(dataset.sparkSession), reads=read, outputs=columns)
        policy = RowPolicy(
            cast("ErrorPolicy", self.getErrors()), self.getErrorCol(), net.reads.error, self.getErrorDetailCol()
        )
        rows = RowMap(inference, tuple(dataset.columns), policy)
        if self.getOutputFormat() == "array":
            return map_rows(dataset, rows, sends="either")
        if combine is not None:
            sizes = [sum(sizes) if combine == "concat" else sizes[0]]
        return map_rows(
            dataset,
            rows,
            vectors=dict(zip(inference.vectors, sizes, strict=True)),
            sends="either",
        )

    def explain(self) -> str:
        """Describe, a line per layer, what the output of the layer was recognised as and how it is pooled.

        Examples
        --------
        >>> from vista_spark import CNNFeaturizer
        >>> print(CNNFeaturizer(model="squeezenet1_1", layers=["fire9"]).explain())
          fire9: map of 13 x 13 places, channels first; max2x2: 2,048 numbers
        """
        net = self._checked()
        return net.explain_layouts(self.getLayers(), self.getPooling())

    def open_network(self) -> Network:
        """Open the network on the driver: weights checked, graph at hand.

        Raises
        ------
        InvalidArgumentError
            It reads something else than the stage does.
        """
        return self._checked()

    def inference(self, net: Network, *, reads: Sequence[str], outputs: Sequence[str]) -> Inference:
        """Describe what the stage computes, for callers without a DataFrame.

        Parameters
        ----------
        net : Network
            Network of the stage, with paths as the process that runs it reaches them.
        reads : sequence of str
            Columns that the network reads.
        outputs : sequence of str
            Columns to add, one per layer, from the bottom to the top; with ``combine`` one for all.

        Raises
        ------
        ColumnError
            ``combine="sum"`` of vectors of several lengths.
        """
        layers, combine = net.layers(self.getLayers()), self.getCombine()
        columns = outputs if combine is None else [f"{outputs[0]}_{place}" for place in range(len(layers))]
        features = tuple(
            net.feature(layer, name, self.getPooling()) for layer, name in zip(layers, columns, strict=True)
        )
        if combine == "sum":
            _check_sum(net, layers, features)
        return Inference(
            source=net.source,
            feeds=net.feeds(*reads),
            features=features,
            materialised=(),
            batch_size=self.getBatchSize(),
            device=self.getDevice(),
            image_aggregation=self._aggregation(),
            combined=None if combine is None else Combined(outputs[0], cast("Combination", combine)),
        )

    def class_scores(self, dataset: DataFrame) -> ClassScores:
        """Return the outputs of the layer as class scores of a DataFrame's rows, for a cascade.

        Raises
        ------
        vista_spark.errors.InvalidArgumentError
            The stage has several layers.
        vista_spark.errors.ColumnError
            As on transform, for the columns that are read.
        """
        net, columns = self._checked(), self._read()
        for column in columns:
            net.reads.check(dataset, column, type(self).__name__)
        layers = net.layers(self.getLayers())
        if len(layers) > 1 and self.getCombine() is None:
            named = ", ".join(layer.name for layer in layers)
            raise InvalidArgumentError(f"layers must be one layer, got {named}. Set combine, or one layer.")
        net.check()
        features = self.inference(net, reads=columns, outputs=["scores"])
        sizes = [_size(net, feature) for feature in features.features]
        described = features.feeds, features.features, features.image_aggregation, features.combined
        return ClassScores(
            self.inference(net.shipped(dataset.sparkSession), reads=columns, outputs=["scores"]),
            {column: column for column in features.reads},
            width=sum(sizes) if self.getCombine() == "concat" else sizes[0],
            digest=identity_of(f"{net.source.key}|{described}".encode()),
        )

    def _checked(self) -> Network:
        kind = self._card(self._kind).kind
        if kind != self._kind:
            raise InvalidArgumentError(
                f"{type(self).__name__} runs models that read {self._kind}, and {self.getModel()!r} reads {kind}: "
                f"take {self._another}"
            )
        return self._network()

    def _network(self) -> Network:
        return self._opened()

    def _read(self) -> list[str]:
        return [self.getInputCol()]

    def _aggregation(self) -> Reduction:
        return "mean"


def _check_sum(net: Network, layers: Sequence[FeatureLayer], features: Sequence[Feature]) -> None:
    """Raise ``ColumnError`` where the features of layers cannot be added up."""
    sizes = [_size(net, feature) for feature in features]
    if len(set(sizes)) > 1:
        named = ", ".join(f"{layer.name} {size}" for layer, size in zip(layers, sizes, strict=True))
        raise ColumnError(f'combine="sum" adds vectors of one length, and these differ: {named}; take "concat"')


def _size(net: Network, feature: Feature) -> int:
    return net.length(feature.layer, feature.pooling)
