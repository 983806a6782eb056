"""``TextFeaturizer``: the features of some layers of a text encoder, as a Spark ML Transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml.param import Param

from udfs.driver import UNBOUND, at_least, one_of, optional_accessors, validate_arguments
from vista_spark.features._base import NetworkFeaturizer
from vista_spark.network import TEXT_POOLINGS, Network

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from vista_spark.roster import FeatureLayer

__all__ = ["TextFeaturizer"]


@validate_arguments
class TextFeaturizer(NetworkFeaturizer):
    """Pass texts through a pre-trained transformer once and keep the features of some of its layers.

    Parameters
    ----------
    model : str or ModelCard
        A text encoder of :func:`vista_spark.roster.names`: ``"minilm_l6"``, or one that
        :func:`vista_spark.roster.text_encoder` registered.
    weights : str or path, optional
        Path or URI of a folder with ``model.safetensors`` and ``tokenizer.json``, or of a file of weights that has
        ``tokenizer.json`` beside it. A path is the driver's, and on a cluster both files are sent to the workers. By
        default those of the registered encoder.
    layers : int, str or list of int and str
        ``"layer1"`` is the output of the lowest block; ``n`` in a list is the n-th from the top; a bare ``k`` stands
        for the top ``k``. Default 1.
    inputCol : str
        Strings; an empty one is a text, a null is not. Default ``"text"``.
    outputCols : list of str, optional
        One per layer, from the bottom to the top; default ``<model>_<layer>``. With `combine` one for all.
    combine : {"concat", "sum"}, optional
        Put the features of all layers into one column, one after the other or added up; default
        ``<model>_<combine>``. Without it, a column per layer.
    pooling : {"mean", "cls", "none"}
        The mean of the text's tokens (default), its first token, or all tokens one after the other, padding included.
    maxLength : int, optional
        Tokens that a text is cut or padded to, those that begin and end it included; the model's own by default, which
        is 128 for ``minilm_l6``. The network works on all of them: a quarter of the tokens takes less than a quarter of
        the time.
    batchSize : int
        Texts per run of the network. Default 32.
    device : str
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...
    errors : {"null", "drop", "raise"}
        Policy for a null: nulls, with the reason in ``errorCol`` (default); no row; or a failed job.
    errorCol : str
        Default ``"text_error"``; null for a good row. Only with ``errors="null"``.
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
        On transform: a column is missing, is not of strings, or exists already.
    vista_spark.errors.UnknownModelError, optimizer.errors.UnknownLayerError, udfs.weights.WeightsError
        On transform, before a job starts.

    Examples
    --------
    >>> featurizer = TextFeaturizer(model="minilm_l6", weights="/models/minilm", layers=["layer3", "layer6"])
    >>> featurizer.getOutputCols()
    ['minilm_l6_layer3', 'minilm_l6_layer6']
    >>> featurizer.setCombine("concat").getOutputCols()
    ['minilm_l6_concat']
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _input_kwargs: dict[str, Any]  # of keyword_only
    _kind = "text"
    _another = "CNNFeaturizer"

    pooling: Param[str] = Param(UNBOUND, "pooling", " | ".join(TEXT_POOLINGS), one_of("pooling", TEXT_POOLINGS))
    maxLength: Param[int] = Param(
        UNBOUND, "maxLength", "tokens that a text is cut or padded to", at_least("maxLength", 2)
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: Any = None,
        weights: str | os.PathLike[str] | None = None,
        layers: int | str | FeatureLayer | Sequence[int | str | FeatureLayer] | None = None,
        inputCol: str | None = None,
        outputCols: list[str] | None = None,
        combine: str | None = None,
        pooling: str | None = None,
        maxLength: int | None = None,
        batchSize: int | None = None,
        device: str | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
        errorDetailCol: str | None = None,
        outputFormat: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(inputCol="text", errorCol="text_error", pooling="mean")
        self.setParams(**self._input_kwargs)

    getMaxLength, setMaxLength = optional_accessors(maxLength, "the number of tokens to which a text is cut or padded")

    def _network(self) -> Network:
        return self._opened(max_length=self.getMaxLength())
