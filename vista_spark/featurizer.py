"""``CNNFeaturizer``: the features of some layers of a CNN, as a Spark ML Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark import keyword_only
from pyspark.ml import Transformer
from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasOutputCols, HasSeed
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable

from udfs.inference import Feature, ImageFeed, Inference
from udfs.pooling import POOLINGS, Pooling, feature_length
from vista_spark import roster
from vista_spark._columns import check_absent, check_image
from vista_spark._network import Network, network
from vista_spark._params import UNBOUND, HasImageCol, at_least, layer_list, one_of
from vista_spark._spark import as_vector, infer
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["CNNFeaturizer"]


class CNNFeaturizer(
    Transformer,
    HasImageCol,
    HasOutputCols,
    HasSeed,
    DefaultParamsReadable["CNNFeaturizer"],
    DefaultParamsWritable,
):
    """Pass images through a pre-trained CNN once and keep the features of several of its layers.

    Parameters
    ----------
    model : str
        A name of :func:`vista_spark.roster.names`, a registered model's included.
    weights : str, optional
        Path or URI of a state dict (torch, safetensors, numpy), readable by every worker. Without it the weights are
        random, drawn from ``seed``.
    layers : int, str or list of int and str
        Names; ``n`` in a list is the n-th layer from the top; a bare ``k`` stands for the top ``k`` layers. Default 1.
    inputCol : str
        Encoded bytes (JPEG, PNG, WEBP), Spark's ``image`` struct, a path, or a float tensor of ``(3, size, size)`` as
        an array (flat or nested) that is preprocessed already. Default ``"image"``.
    outputCols : list of str, optional
        One a layer, from the bottom to the top; default ``<model>_<layer>``.
    pooling : {"max2x2", "avg", "none"}
        What feature maps are reduced to before they are flattened; ``"max2x2"`` (default) is the grid of Vista,
        section 5.
    imageSize : int, optional
        Height and width of the network's input in pixels; the model's own by default.
    batchSize : int
        Images a run of the network. Default 32.
    device : str
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...
    errors : {"null", "drop", "raise"}
        What becomes of an image that cannot be read: nulls, with the reason in ``errorCol`` (default); no row; or a
        failed job.
    errorCol : str
        Default ``"image_error"``; null for a good row. Only with ``errors="null"``.
    outputFormat : {"vector", "array"}
        Spark ML vectors (default) or ``array<float>``.
    seed : int
        Of random weights.

    Raises
    ------
    vista_spark.errors.ColumnError
        On transform: a column is missing, is of a type that holds no image, or exists already.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        On transform, before a job starts.

    Examples
    --------
    >>> featurizer = CNNFeaturizer(model="mobilenet_v2", weights="mobilenet_v2.pth", layers=["block17", "pool"])
    >>> featurizer.getOutputCols()
    ['mobilenet_v2_block17', 'mobilenet_v2_pool']
    """

    _input_kwargs: dict[str, Any]  # of keyword_only

    model: Param[str] = Param(UNBOUND, "model", "name of the roster, or of a registered model", TypeConverters.toString)
    weights: Param[str] = Param(
        UNBOUND, "weights", "path or URI of a state dict; random weights without it", TypeConverters.toString
    )
    layers: Param[Any] = Param(UNBOUND, "layers", "names, numbers from the top, or how many from the top", layer_list)
    pooling: Param[str] = Param(UNBOUND, "pooling", " | ".join(POOLINGS), one_of("pooling", POOLINGS))
    imageSize: Param[int] = Param(
        UNBOUND, "imageSize", "height and width of the network's input, in pixels", at_least("imageSize", 1)
    )
    device: Param[str] = Param(UNBOUND, "device", "auto | cpu | cuda | ...", TypeConverters.toString)
    outputFormat: Param[str] = Param(
        UNBOUND, "outputFormat", "vector | array", one_of("outputFormat", ("vector", "array"))
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: str | None = None,
        weights: str | None = None,
        layers: int | str | Sequence[int | str] | None = None,
        inputCol: str | None = None,
        outputCols: list[str] | None = None,
        pooling: str | None = None,
        imageSize: int | None = None,
        batchSize: int | None = None,
        device: str | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
        outputFormat: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(layers=1, pooling="max2x2", device="auto", outputFormat="vector", seed=0)
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, **params: Any) -> CNNFeaturizer:
        """Set any of the constructor's parameters; one that is ``None`` stays as it is."""
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def getModel(self) -> str:
        """Name of the model."""
        return self.getOrDefault(self.model)

    def setModel(self, value: str) -> CNNFeaturizer:
        """Set the model by its name in the roster."""
        return self._set(model=value)

    def getWeights(self) -> str | None:
        """Path or URI of the weights, or ``None`` for random ones."""
        return self.getOrDefault(self.weights) if self.isDefined(self.weights) else None

    def setWeights(self, value: str) -> CNNFeaturizer:
        """Set the path or URI of the weights."""
        return self._set(weights=value)

    def getLayers(self) -> int | str | list[int | str]:
        """The layers as they were asked for."""
        return cast("int | str | list[int | str]", self.getOrDefault(self.layers))

    def setLayers(self, value: int | str | Sequence[int | str]) -> CNNFeaturizer:
        """Set the layers."""
        return self._set(layers=value)

    def getPooling(self) -> str:
        """How feature maps are reduced."""
        return self.getOrDefault(self.pooling)

    def setPooling(self, value: str) -> CNNFeaturizer:
        """Set how feature maps are reduced."""
        return self._set(pooling=value)

    def getImageSize(self) -> int | None:
        """Height and width of the network's input in pixels, or ``None`` for the model's own."""
        return self.getOrDefault(self.imageSize) if self.isDefined(self.imageSize) else None

    def setImageSize(self, value: int) -> CNNFeaturizer:
        """Set height and width of the network's input, in pixels."""
        return self._set(imageSize=value)

    def getDevice(self) -> str:
        """Where the network runs."""
        return self.getOrDefault(self.device)

    def setDevice(self, value: str) -> CNNFeaturizer:
        """Set where the network runs."""
        return self._set(device=value)

    def getOutputFormat(self) -> str:
        """Type of the output columns."""
        return self.getOrDefault(self.outputFormat)

    def setOutputFormat(self, value: str) -> CNNFeaturizer:
        """Set the type of the output columns."""
        return self._set(outputFormat=value)

    def setOutputCols(self, value: list[str]) -> CNNFeaturizer:
        """Set the output columns, one a layer, from the bottom to the top."""
        return self._set(outputCols=value)

    def getOutputCols(self) -> list[str]:
        """The output columns, ``<model>_<layer>`` unless they were set."""
        if self.isDefined(self.outputCols):
            return self.getOrDefault(self.outputCols)
        layers = roster.card(self.getModel()).resolve(self.getLayers())
        return [f"{self.getModel()}_{layer.name}".replace(".", "_") for layer in layers]

    def setSeed(self, value: int) -> CNNFeaturizer:
        """Set the seed of random weights."""
        return self._set(seed=value)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        net = self._network()
        layers, columns = net.layers(self.getLayers()), self.getOutputCols()
        if len(columns) != len(layers):
            named = ", ".join(layer.name for layer in layers)
            raise ColumnError(f"{len(columns)} outputCols for {len(layers)} layers ({named}): give one a layer")
        check_image(dataset, self.getInputCol(), "CNNFeaturizer")
        extra = [self.getErrorCol()] if self.getErrors() == "null" else []
        check_absent(dataset, [*columns, *extra], "set outputCols or errorCol, or drop it first")
        inference = Inference(
            source=net.source,
            feeds=(ImageFeed(self.getInputCol(), net.image, net.preprocessing),),
            features=tuple(
                Feature(net.layer(layer), column, cast("Pooling", self.getPooling()))
                for layer, column in zip(layers, columns, strict=True)
            ),
            materialised=(),
            keep=tuple(dataset.columns),
            policy=self._policy(),
            batch_size=self.getBatchSize(),
            device=self.getDevice(),
        )
        result = infer(dataset, inference)
        if self.getOutputFormat() == "array":
            return result
        return result.withColumns(
            {
                found.column: as_vector(
                    found.column, feature_length(net.graph[found.layer].output_shape, found.pooling)
                )
                for found in inference.features
            }
        )

    def _network(self) -> Network:
        if not self.isDefined(self.model):
            raise InvalidArgumentError(f"CNNFeaturizer has no model: set one of {', '.join(roster.names())}")
        return network(self.getModel(), self.getWeights(), self.getSeed(), self.getImageSize())
