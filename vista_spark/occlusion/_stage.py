"""``OcclusionExplainer``: occlusion heat maps of a DataFrame's images, as a Spark ML Estimator (Krypton, chapter 6)."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, TypeConverters
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from udfs.arrow import RowMap, RowPolicy
from udfs.driver import (
    UNBOUND,
    above,
    accessors,
    at_least,
    check_absent,
    check_present,
    holds_image_lists,
    map_rows,
    optional_accessors,
    quoted,
    validate_arguments,
)
from udfs.handlers import framework
from udfs.occlusion import COMPARABLE, SMALLEST_SAMPLED, Explaining, Measured
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from vista_spark.network import Network, NetworkPersistable, has_random_weights, warn_of_random_weights
from vista_spark.occlusion._approximation_choice import choose_approximation
from vista_spark.occlusion._checks import check_explainable
from vista_spark.occlusion._options import OcclusionOptions
from vista_spark.occlusion._params import HasOcclusion
from vista_spark.occlusion._settings import color_fill, occlusion_settings

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from udfs.occlusion import Occlusion

__all__ = ["OcclusionExplainer", "OcclusionExplainerModel"]

_logger = logging.getLogger(__name__)


class _OcclusionStage(HasOcclusion):
    """Base class of the estimator and its model."""

    def _checked(self, dataset: DataFrame) -> tuple[Network, Occlusion]:
        """Open the network and describe its occlusion; raise before Spark starts a job."""
        net, occlusion = self._opened_occlusion()
        column, target = self.getInputCol(), self.getTargetCol()
        net.reads.check(dataset, column, type(self).__name__)
        if holds_image_lists(dataset, column):
            raise ColumnError(f"column {column!r} must have one image per row, got arrays of images; explode it first")
        if target is not None:
            check_present(dataset, [target], type(self).__name__)
            kind = dataset.schema[target].dataType
            if not isinstance(kind, IntegralType):
                raise ColumnError(f"targetCol {target!r} must be of integers, got {kind.simpleString()}")
        warn_of_random_weights(net.card, net.weights, net.seed)
        return net, occlusion

    def _opened_occlusion(self) -> tuple[Network, Occlusion]:
        """Open the network and describe its occlusion without a DataFrame."""
        check_explainable(self._card("image"), {self.getMode()})
        net = self._opened(self.getImageSize())
        options, incremental = self._options(), framework(net.card.framework).incremental
        fill = color_fill(options.patch_color, net.preprocessing)
        occlusion = occlusion_settings(
            options, net.traced, (net.preprocessing.crop,) * 2, fill, incremental=incremental
        )
        return net, occlusion

    def _options(self, **approximate: Any) -> OcclusionOptions:
        region, head = self.getRegion(), self.getHead()
        if self.getMode() == "approximate":
            # The estimator measures taus, and its model has what it chose.
            approximate = {"tau": 1.0, "target_speedup": 1.0} | approximate
            approximate |= {"drill_down_fraction": self.getDrillDownFraction(), "precision": self.getPrecision()}
        else:  # Params of the approximate mode may stay set while the mode is another one
            approximate = {}
        return OcclusionOptions(
            patch_size=self.getPatchSize(),
            stride=self.getStride(),
            region=None if region is None else ((region[0], region[1]), (region[2], region[3])),
            perturbation=self.getPerturbation(),
            patch_color=cast("Any", tuple(self.getPatchColor())),
            mode=self.getMode(),
            batch_size=self.getBatchSize(),
            output=cast("Any", self.getOutput()),
            head=int(head) if head is not None and head.isdecimal() else head,
            verify=self.getVerify() if self.getMode() != "approximate" or self.getVerify() == 0 else None,
            seed=self.getSeed(),
            **approximate,
        )

    def _explaining(self, net: Network, occlusion: Occlusion, **options: Any) -> Explaining:
        (feed,) = net.feeds(self.getInputCol())
        return Explaining(
            source=net.source,
            feed=cast("Any", feed),
            target=self.getTargetCol(),
            occlusion=occlusion,
            output=self.getOutputCol(),
            details=self.getDetailsCol(),
            device=self.getDevice(),
            model=net.card.name,
            has_random_weights=has_random_weights(net.card, net.weights),
            **options,
        )


@validate_arguments
class OcclusionExplainer(Estimator["OcclusionExplainerModel"], _OcclusionStage, NetworkPersistable):
    """Occlusion heat maps of a column of images: dependence of a network's prediction on each part of an image.

    A patch covers every place of an image, and the heat map has the score of the class with the patch at each place.
    Modes ``"exact"`` and ``"naive"`` give the same numbers; the first computes only what the patch changes. Mode
    ``"approximate"`` gives similar heat maps in less time: :meth:`fit` measures their similarity on some images and
    chooses the cheapest approximation that reaches ``targetSSIM``: the threshold tau, drill-down, or a sample of places
    per image.

    Parameters
    ----------
    model : str
        Network of the roster for images. Networks of frameworks other than PyTorch are computed in full for each place.
    weights : str, optional
        Path or URI of the weights, as for :class:`vista_spark.CNNFeaturizer`.
    inputCol : str
        Column of images, one per record, as for :class:`vista_spark.CNNFeaturizer`. Default ``"image"``.
    outputCol : str
        Column for the heat maps, a Spark ML vector, row by row: the score of the target with the patch at each place.
        Default ``"heat_map"``.
    detailsCol : str
        Column for the details, a struct: ``target``, ``predicted`` (elements of the score), ``probability`` (the
        target's score for the whole image), ``rows``, ``columns`` (of the heat map), ``estimated_ssim`` (of approximate
        ones), ``seconds``, ``score`` (described), ``elements`` (their number), ``top`` (the five largest and their
        scores), ``verified`` (places that the original network computed again), ``difference`` (the largest at these
        places), ``mode``, ``theoretical_speedup``, ``model``, ``random_weights``; and where the places are, in pixels
        of the network's input: ``patch``, ``stride``, ``image_rows``, ``image_columns``, ``row_starts``,
        ``column_starts``. Default ``"explanation"``. :meth:`vista_spark.Explanation.of` draws a row.
    targetCol : str, optional
        Column of integers with the class to explain. Default, and where it is null: the predicted class.
    output : {"probability", "logit", "log_odds", "value"}, optional
        Score that is mapped, as in :class:`vista_spark.OcclusionOptions`. Default: decided for each image.
    head : str, optional
        Output of a network that returns several: its name, or its index in digits.
    verify : int, optional
        Places per image that the original network computes again; an image where they differ is a bad row with the
        reason. Default 1 in 50, at least 1 and at most 4; 0 for none. The approximate mode uses only 0.
    patchSize, stride : int
        Extent of the patch and distance between two places, in pixels of the network's input. Default 16 and 4.
    perturbation : {"color", "mean", "blur"}
        Content of the patch: one colour (default), the image's mean, or the image blurred.
    patchColor : list of 3 int
        Red, green and blue from 0 to 255. Default grey, 128 each.
    mode : {"exact", "approximate", "naive"}
        Way to compute heat maps. Default ``"exact"``.
    targetSSIM : float
        Similarity of approximate heat maps to exact ones, up to 1. Default 0.9.
    drillDownFraction : float
        Share of the heat map at the full stride, where drill-down is chosen. Default 0.25.
    targetSpeedup : float
        Speed-up by drill-down, which decides the first stage's stride (equation 6.29), rounded up to a multiple of
        `stride`. Default 3; 1 is without drill-down.
    precision : {"auto", "float32", "bfloat16"}
        Precision of the approximate mode: ``"bfloat16"`` takes about half the time on hardware with bfloat16
        instructions, and several times as long on others; :meth:`fit` measures its loss of similarity. Default
        ``"auto"``: bfloat16 only where a measurement of one layer on the driver shows that it pays.
    region : list of 4 int, optional
        Top, bottom, left and right that the patch stays in, in pixels of the network's input.
    sampleSize : int
        Number of images that :meth:`fit` measures. Default 30.
    imageSize : int, optional
        Height and width of the network's input. Default: the model's own.
    batchSize : int
        Places of the patch per batch. Default 32.
    device : str
        Device of the tasks: ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...
    errors : {"null", "drop", "raise"}
        Policy for an image that cannot be read, or a target that is not a class; as for ``CNNFeaturizer``.
    errorCol : str
        Column for errors, null for a good row; only with ``errors="null"``. Default ``"image_error"``.
    seed : int
        Seed of random weights and of the choice of verified places. Default 0.

    Raises
    ------
    vista_spark.errors.InvalidArgumentError, vista_spark.errors.ColumnError, optimizer.occlusion.PatchError
        On fit and transform, before a job starts: the model has no convolutions, the patch does not fit, the region
        exceeds the image, the stride is larger than the patch, or a column is missing or of another type.
    vista_spark.errors.EmptyInputError
        On fit in the approximate mode: no image can be read.

    Examples
    --------
    >>> explainer = OcclusionExplainer(model="mobilenet_v2", weights="mobilenet_v2.pth", mode="approximate", stride=8)
    >>> explainer.getTargetSSIM(), explainer.getOutputCol()
    (0.9, 'heat_map')
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _input_kwargs: dict[str, Any]  # of keyword_only

    targetSSIM: Param[float] = Param(
        UNBOUND, "targetSSIM", "similarity of approximate heat maps to exact ones", above("targetSSIM", 0)
    )
    targetSpeedup: Param[float] = Param(
        UNBOUND, "targetSpeedup", "speed-up by drill-down; 1 is without", above("targetSpeedup", 1, or_equal=True)
    )
    sampleSize: Param[int] = Param(UNBOUND, "sampleSize", "images that fit measures", at_least("sampleSize", 1))

    @keyword_only
    def __init__(
        self,
        *,
        model: Any = None,
        weights: str | os.PathLike[str] | None = None,
        inputCol: str | None = None,
        outputCol: str | None = None,
        detailsCol: str | None = None,
        targetCol: str | None = None,
        output: str | None = None,
        head: str | None = None,
        verify: int | None = None,
        patchSize: int | None = None,
        stride: int | None = None,
        perturbation: str | None = None,
        patchColor: Sequence[int] | None = None,
        mode: str | None = None,
        targetSSIM: float | None = None,
        drillDownFraction: float | None = None,
        targetSpeedup: float | None = None,
        precision: str | None = None,
        region: Sequence[int] | None = None,
        sampleSize: int | None = None,
        imageSize: int | None = None,
        batchSize: int | None = None,
        device: str | None = None,
        errors: str | None = None,
        errorCol: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(targetSSIM=0.9, targetSpeedup=3.0, sampleSize=30)
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, **params: Any) -> Self:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        return self._set(**{name: value for name, value in params.items() if value is not None})

    getTargetSSIM, setTargetSSIM = accessors(targetSSIM, "the similarity of approximate heat maps to exact ones")
    getTargetSpeedup, setTargetSpeedup = accessors(targetSpeedup, "the speed-up by drill-down")
    getSampleSize, setSampleSize = accessors(sampleSize, "the number of images that fit measures")

    def _options(self, **approximate: Any) -> OcclusionOptions:
        return super()._options(target_speedup=self.getTargetSpeedup(), **approximate)

    def _fit(self, dataset: DataFrame) -> OcclusionExplainerModel:
        net, occlusion = self._checked(dataset)
        if occlusion.mode != "approximate":
            return self._made(tau=1.0, stageOneStride=occlusion.grid.stride[0], summary=occlusion.note)
        measured = self._measured(dataset, net, occlusion)
        choice = choose_approximation(measured, self.getTargetSSIM(), occlusion, net.graph)
        _logger.info("%s", choice.explain())
        made = self._made(
            tau=choice.tau,
            stageOneStride=choice.step * occlusion.grid.stride[0],
            estimatedSSIM=choice.likeness,
            placesPerImage=choice.per_image,
            summary=choice.explain(),
        )
        if choice.is_exact:
            count = occlusion.grid.count
            few = count < SMALLEST_SAMPLED
            way_out = f"a smaller stride ({count} places are few)" if few else "a lower targetSSIM"
            warnings.warn(
                f"no approximation reaches an SSIM of {self.getTargetSSIM():g} on the sample ({len(measured)} images) "
                f"in less time than exact heat maps take: the model computes those; set {way_out} for approximate ones",
                stacklevel=3,
            )
            return made.setPrecision("float32")
        return made

    def _measured(self, dataset: DataFrame, net: Network, occlusion: Occlusion) -> list[Measured]:
        """Measure approximate heat maps of some images, one per task."""
        if min(occlusion.grid.shape) < COMPARABLE:
            rows = " x ".join(map(str, occlusion.grid.shape))
            raise InvalidArgumentError(
                f"heat maps must have at least {COMPARABLE} places per axis to be compared, got {rows}; set a smaller "
                "stride, or mode='exact'"
            )
        columns = [name for name in (self.getInputCol(), self.getTargetCol()) if name is not None]
        sample = dataset.select(*(F.col(quoted(name)) for name in columns)).limit(self.getSampleSize())
        explaining = self._explaining(net.shipped(dataset.sparkSession), occlusion, tuning=self.getTargetSSIM())
        spread = sample.repartition(self.getSampleSize())
        measured = [row[0] for row in map_rows(spread, RowMap(explaining, (), RowPolicy("drop"))).collect()]
        if not measured:
            raise EmptyInputError(
                f"column {self.getInputCol()!r} must have rows with an image that can be read to tune on, got none"
            )
        return [Measured.from_numbers(numbers) for numbers in measured]

    def _made(self, **params: Any) -> OcclusionExplainerModel:
        made = OcclusionExplainerModel()
        made._resetUid(self.uid)  # noqa: SLF001 - as Spark ML's own estimators
        self._copyValues(made)
        made._set(**params)  # noqa: SLF001
        return made


class OcclusionExplainerModel(Model, _OcclusionStage, NetworkPersistable):
    """Model of :class:`OcclusionExplainer` that computes heat maps with the chosen approximation.

    In addition to the estimator's Params it has, for the approximate mode, ``placesPerImage`` (whether places are
    computed exactly, image by image, until the estimated SSIM reaches ``targetSSIM``), or else ``tau`` and
    ``stageOneStride`` (in pixels; equal to ``stride`` without drill-down). ``estimatedSSIM`` is the mean over the
    sample, and ``summary`` the text of :meth:`explain`.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    tau: Param[float] = Param(UNBOUND, "tau", "of projective field thresholding", above("tau", 0))
    stageOneStride: Param[int] = Param(
        UNBOUND, "stageOneStride", "of drill-down's first stage, in pixels", at_least("stageOneStride", 1)
    )
    estimatedSSIM: Param[float] = Param(
        UNBOUND, "estimatedSSIM", "similarity of approximate heat maps to exact ones", TypeConverters.toFloat
    )
    targetSSIM: Param[float] = OcclusionExplainer.targetSSIM
    placesPerImage: Param[bool] = Param(
        UNBOUND, "placesPerImage", "compute places of each image until targetSSIM is reached", TypeConverters.toBoolean
    )
    summary: Param[str] = Param(UNBOUND, "summary", "what fit measured and chose", TypeConverters.toString)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(tau=1.0, stageOneStride=4, targetSSIM=0.9, placesPerImage=False, summary="")

    def explain(self) -> str:
        """Describe the measurements of fit, its choice, and the number of images after which they pay off."""
        return self.getOrDefault(self.summary) or f"mode {self.getMode()}: nothing was measured"

    getSummary, setSummary = accessors(summary, "the text of :meth:`explain`")
    getTargetSSIM, setTargetSSIM = accessors(targetSSIM, "the similarity of approximate heat maps to exact ones")
    getPlacesPerImage, setPlacesPerImage = accessors(placesPerImage, "whether ``targetSSIM`` is reached image by image")
    getTau, setTau = accessors(tau, "the fraction of each change that is followed")
    getStageOneStride, setStageOneStride = accessors(stageOneStride, "the stride of the first stage, in pixels")

    getEstimatedSSIM, setEstimatedSSIM = optional_accessors(estimatedSSIM, "the similarity (SSIM) on the sample")

    def _transform(self, dataset: DataFrame) -> DataFrame:
        net, occlusion = self._checked(dataset)
        occlusion = self._tuned(occlusion)
        extra = [self.getErrorCol()] if self.getErrors() == "null" else []
        output = self.getOutputCol()
        check_absent(dataset, [output, self.getDetailsCol(), *extra], "set another name, or drop it first")
        explaining = self._explaining(net.shipped(dataset.sparkSession), occlusion)
        policy = RowPolicy(cast("Any", self.getErrors()), self.getErrorCol(), net.reads.error)
        rows = RowMap(explaining, tuple(dataset.columns), policy)
        return map_rows(
            dataset,
            rows,
            vectors={output: int(np.prod(occlusion.grid.shape))},
            sends="either",
        )

    def open_explainer(self) -> RowMap:
        """Open the network in this process, for a pass over a column of images without a DataFrame.

        Raises
        ------
        InvalidArgumentError, optimizer.occlusion.PatchError
            As for ``transform``.
        """
        net, occlusion = self._opened_occlusion()
        warn_of_random_weights(net.card, net.weights, net.seed)
        explaining = self._explaining(net, self._tuned(occlusion))
        return RowMap(explaining, (), RowPolicy(cast("Any", self.getErrors()), self.getErrorCol(), net.reads.error))

    def _tuned(self, occlusion: Occlusion) -> Occlusion:
        """Apply the choice of fit."""
        if occlusion.mode == "approximate" and self.getPlacesPerImage():
            occlusion = replace(occlusion, target_ssim=self.getTargetSSIM())
        elif occlusion.mode == "approximate":
            stride = occlusion.grid.stride[0]
            if self.getStageOneStride() % stride:
                raise InvalidArgumentError(
                    f"stageOneStride must be a multiple of stride={stride}, got {self.getStageOneStride()}; fit again"
                )
            occlusion = replace(occlusion, tau=self.getTau(), step=self.getStageOneStride() // stride)
        return occlusion
