"""Params of an occlusion explainer and its model."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasOutputCol

from udfs.driver import UNBOUND, above, accessors, at_least, one_of, optional_accessors, setter
from udfs.occlusion import MODES, OUTPUTS, PERTURBATIONS, PRECISIONS
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import HasImageSize, HasNetwork, HasNetworkInput
from vista_spark.occlusion._checks import check_color

__all__ = ["HasOcclusion"]

_RGB = 3
_SIDES = 4


def _region(value: Any) -> list[int]:
    numbers = TypeConverters.toListInt(value)
    if len(numbers) != _SIDES:
        raise TypeError(f"region must be four integers, top, bottom, left and right in pixels, got {value!r}")
    return numbers


def _color(value: Any) -> list[int]:
    numbers = TypeConverters.toListInt(value)
    try:
        check_color(tuple(numbers), "patchColor")
    except InvalidArgumentError as error:
        raise TypeError(str(error)) from None
    return numbers


class HasOcclusion(HasNetworkInput, HasNetwork, HasImageSize, HasOutputCol):
    """Params of the estimator and its model; the estimator documents them."""

    detailsCol: Param[str] = Param(
        UNBOUND, "detailsCol", "column for the details of the heat map", TypeConverters.toString
    )
    targetCol: Param[str] = Param(
        UNBOUND, "targetCol", "column of the class to explain; the predicted one without", TypeConverters.toString
    )
    output: Param[str] = Param(
        UNBOUND,
        "output",
        "the score: " + " | ".join(OUTPUTS) + "; decided per image without",
        one_of("output", OUTPUTS),
    )
    head: Param[str] = Param(
        UNBOUND, "head", "which output of a network that returns several: a name, or an index", TypeConverters.toString
    )
    verify: Param[int] = Param(
        UNBOUND, "verify", "places per image that the original network computes again", at_least("verify", 0)
    )
    patchSize: Param[int] = Param(
        UNBOUND, "patchSize", "height and width of the patch, in pixels", at_least("patchSize", 1)
    )
    stride: Param[int] = Param(UNBOUND, "stride", "between two places of the patch, in pixels", at_least("stride", 1))
    perturbation: Param[str] = Param(
        UNBOUND,
        "perturbation",
        "content of the patch: " + " | ".join(PERTURBATIONS),
        one_of("perturbation", PERTURBATIONS),
    )
    patchColor: Param[list[int]] = Param(UNBOUND, "patchColor", "red, green and blue of the patch", _color)
    mode: Param[str] = Param(UNBOUND, "mode", " | ".join(MODES), one_of("mode", MODES))
    drillDownFraction: Param[float] = Param(
        UNBOUND,
        "drillDownFraction",
        "of the heat map, in drill-down's second stage",
        above("drillDownFraction", 0, or_equal=True),
    )
    precision: Param[str] = Param(
        UNBOUND,
        "precision",
        "in the approximate mode: " + " | ".join(("auto", *PRECISIONS)),
        one_of("precision", ("auto", *PRECISIONS)),
    )
    region: Param[list[int]] = Param(UNBOUND, "region", "top, bottom, left and right that the patch stays in", _region)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            inputCol="image", outputCol="heat_map", detailsCol="explanation", errorCol="image_error",
            patchSize=16, stride=4, perturbation="color", patchColor=[128] * _RGB, mode="exact", drillDownFraction=0.25,
            precision="auto",
        )  # fmt: skip

    setOutputCol = setter(HasOutputCol.outputCol, "the column of the heat map")
    getDetailsCol, setDetailsCol = accessors(detailsCol, "the column of the details of the heat map")
    getTargetCol, setTargetCol = optional_accessors(targetCol, "the column of the class to explain")
    getOutput, setOutput = optional_accessors(output, "the score that is mapped")
    getHead, setHead = optional_accessors(head, "the name or index of the output to explain, of a network with several")
    getVerify, setVerify = optional_accessors(verify, "the number of positions per image to verify")
    getPatchSize, setPatchSize = accessors(patchSize, "the height and width of the patch, in pixels")
    getStride, setStride = accessors(stride, "the distance between two positions of the patch, in pixels")
    getPerturbation, setPerturbation = accessors(perturbation, "the content of the patch")
    getPatchColor, setPatchColor = accessors(patchColor, "the red, green and blue of the patch, from 0 to 255")
    getMode, setMode = accessors(mode, "the mode in which heat maps are computed")
    getDrillDownFraction, setDrillDownFraction = accessors(drillDownFraction, "the fraction that stage two maps")
    getPrecision, setPrecision = accessors(precision, "the precision of positions in the approximate mode")
    getRegion, setRegion = optional_accessors(region, "the top, bottom, left and right limits of the patch, in pixels")
