"""``CNNFeaturizer``: the features of some layers of a CNN, as a Spark ML Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark import keyword_only
from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasInputCols

from udfs.driver import UNBOUND, accessors, at_least, one_of, optional_accessors, setter, validate_arguments
from udfs.inference import POOLINGS, REDUCTIONS, Reduction
from vista_spark.features._base import NetworkFeaturizer
from vista_spark.network import HasImageSize, Network, layouts_by_layer

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from vista_spark.roster import FeatureLayer

__all__ = ["CNNFeaturizer"]


@validate_arguments
class CNNFeaturizer(NetworkFeaturizer, HasImageSize, HasInputCols):
    """Pass images through a pre-trained CNN once and keep the features of some of its layers.

    Parameters
    ----------
    model : str, ModelCard, or a model
        A name of :func:`vista_spark.roster.names`; or a ``torch.nn.Module`` or ``keras.Model`` as it is, a card, or
        ``"package.module:function"``: all that :func:`vista_spark.roster.of` takes. A model is copied when it is set,
        stays as it is, and travels to the workers and into the saved stage with its weights.
    weights : str or path, optional
        Path or URI of a state dict (torch, safetensors, numpy), or of Keras's own weights (``.weights.h5``, ``.h5``,
        ``.keras``) for a network of Keras. A path is the driver's, and on a cluster the file is sent to the workers; a
        URI, ``file://`` included, is opened by every worker itself. Without it the weights are random, drawn from
        ``seed``, and a ``RandomWeightsWarning`` says so.
    layers : int, str or list of int and str
        Names, or paths of modules; ``n`` in a list is the n-th layer from the top, which ``-n`` is too (``-1`` the
        topmost); a bare ``k`` stands for the top ``k`` layers. Default 1.
    inputCol : str
        Encoded bytes (JPEG, PNG, WEBP), Spark's ``image`` struct, a path, or a float tensor of ``(3, size, size)``,
        with Keras ``(size, size, 3)``, as an array (flat or nested) that is preprocessed already; or an array of one of
        the first three, a record's images. Default ``"image"``.
    inputCols : list of str, optional
        Columns of a registered network with more than one input, instead of `inputCol`.
    outputCols : list of str, optional
        One per layer, from the bottom to the top; default ``<model>_<layer>``. With `combine` one for all.
    combine : {"concat", "sum"}, optional
        Put the features of all layers into one column, one after the other or added up, which needs equal lengths;
        default ``<model>_<combine>``. Without it, a column per layer.
    imageAggregation : {"mean", "max"}
        Aggregation of the features of a record's images to one vector, number by number; default ``"mean"``. Images
        that cannot be read are left out; a record without a readable image is bad.
    pooling : {"max2x2", "mean", "none"}
        Pooling of feature maps before they are flattened; ``"max2x2"`` (default) is the grid of Vista, section 5.
    layout : str or dict of str, optional
        Layout of the output of all layers, or of layers by name: ``"channels_first"``, ``"channels_last"``,
        ``"tokens"``, ``"tokens+1"`` (one class token first; any number may follow) or ``"vector"``. By default it is
        recognised from the graph and from the shapes at two image sizes; :meth:`explain` shows it.
    imageSize : int, optional
        Height and width of the network's input in pixels; the model's own by default.
    maxPixels : int, optional
        An image of more pixels is a bad one, so that decoding does not take all memory: up to 18 bytes a pixel in each
        worker. Default 178,956,970, where Pillow stops too.
    startLayer : str, optional
        A layer that was materialised before: `inputCol` then holds its tensors instead of images, as vectors or arrays
        of float (as ``pooling="none"`` gives them), and nothing below it is computed.
    batchSize : int
        Images per run of the network, which reads as many records at a time. Default 32.
    device : str
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...
    errors : {"null", "drop", "raise"}
        Policy for an image that cannot be read: nulls, with the reason in ``errorCol`` (default); no row; or a
        failed job.
    errorCol : str
        One of :data:`udfs.images.IMAGE_REASONS`; null for a good row. Default ``"image_error"``. Only with
        ``errors="null"``.
    errorDetailCol : str, optional
        Column for the detail of a reason, such as a path or a size; no such column by default. Only with
        ``errors="null"``.
    outputFormat : {"vector", "array"}
        Spark ML vectors (default) or ``array<float>``.
    seed : int
        Seed of random weights.

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

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _input_kwargs: dict[str, Any]  # of keyword_only
    _kind = "image"
    _another = "TextFeaturizer"

    pooling: Param[str] = Param(UNBOUND, "pooling", " | ".join(POOLINGS), one_of("pooling", POOLINGS))
    layout: Param[Any] = Param(UNBOUND, "layout", "layout of all layers, or of layers by name", layouts_by_layer)
    startLayer: Param[str] = Param(
        UNBOUND, "startLayer", "layer whose tensors inputCol holds instead of images", TypeConverters.toString
    )
    maxPixels: Param[int] = Param(
        UNBOUND, "maxPixels", "a larger image, in pixels, is a bad one", at_least("maxPixels", 1)
    )
    imageAggregation: Param[str] = Param(
        UNBOUND,
        "imageAggregation",
        "aggregation of the vectors of a record's images: " + " | ".join(REDUCTIONS),
        one_of("imageAggregation", REDUCTIONS),
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: Any = None,
        weights: str | os.PathLike[str] | None = None,
        layers: int | str | FeatureLayer | Sequence[int | str | FeatureLayer] | None = None,
        inputCol: str | None = None,
        inputCols: list[str] | None = None,
        outputCols: list[str] | None = None,
        combine: str | None = None,
        pooling: str | None = None,
        layout: str | dict[str, str] | None = None,
        imageSize: int | None = None,
        maxPixels: int | None = None,
        startLayer: str | None = None,
        imageAggregation: str | None = None,
        batchSize: int | None = None,
        device: str | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
        errorDetailCol: str | None = None,
        outputFormat: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(inputCol="image", errorCol="image_error", pooling="max2x2", imageAggregation="mean")
        self.setParams(**self._input_kwargs)

    getLayout, setLayout = optional_accessors(layout, "the layouts that you state")
    getMaxPixels, setMaxPixels = optional_accessors(maxPixels, "the largest image that is decoded, in pixels")
    getStartLayer, setStartLayer = optional_accessors(startLayer, "the layer whose tensors are read")
    setInputCols = setter(HasInputCols.inputCols, "the columns of a network with more than one input")
    getImageAggregation, setImageAggregation = accessors(imageAggregation, "the aggregation of a record's vectors")

    def _network(self) -> Network:
        net = self._opened(self.getImageSize())
        return net.limited(self.getMaxPixels()).arranged(self.getLayout()).above(self.getStartLayer())

    def _read(self) -> list[str]:
        return self.getInputCols() if self.isDefined(self.inputCols) else super()._read()

    def _aggregation(self) -> Reduction:
        return cast("Reduction", self.getImageAggregation())
