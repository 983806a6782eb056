"""Params of an occlusion explainer and its model."""

from __future__ import annotations

from typing import Any, Self, cast

from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasOutputCol

from udfs.driver import UNBOUND, above, at_least, one_of
from udfs.occlusion import MODES, OUTPUTS, PERTURBATIONS, PRECISIONS
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import HasImageSize, HasNetwork, HasNetworkInput
from vista_spark.occlusion._checks import check_color

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
        UNBOUND, "precision", "in the approximate mode: " + " | ".join(PRECISIONS), one_of("precision", PRECISIONS)
    )
    region: Param[list[int]] = Param(UNBOUND, "region", "top, bottom, left and right that the patch stays in", _region)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            inputCol="image", outputCol="heat_map", detailsCol="explanation", errorCol="image_error",
            patchSize=16, stride=4, perturbation="color", patchColor=[128] * _RGB, mode="exact", drillDownFraction=0.25,
            precision="float32",
        )  # fmt: skip

    def setOutputCol(self, value: str) -> Self:
        """Set the column of the heat map."""
        return self._set(outputCol=value)

    def getDetailsCol(self) -> str:
        """Return the column of the details of the heat map."""
        return self.getOrDefault(self.detailsCol)

    def setDetailsCol(self, value: str) -> Self:
        """Set the column of the details of the heat map."""
        return self._set(detailsCol=value)

    def getTargetCol(self) -> str | None:
        """Return the column of the class to explain, or ``None`` for the predicted one."""
        return cast("str | None", self._get_optional("targetCol"))

    def setTargetCol(self, value: str) -> Self:
        """Set the column of the class to explain."""
        return self._set(targetCol=value)

    def getOutput(self) -> str | None:
        """Score that is mapped, or ``None`` where each image's output decides."""
        return cast("str | None", self._get_optional("output"))

    def setOutput(self, value: str) -> Self:
        """Set the score that is mapped."""
        return self._set(output=value)

    def getHead(self) -> str | None:
        """Name or index of the network's output, or ``None`` for its only one."""
        return cast("str | None", self._get_optional("head"))

    def setHead(self, value: str) -> Self:
        """Set which output of a network that returns several is explained."""
        return self._set(head=value)

    def getVerify(self) -> int | None:
        """Return the number of positions per image to verify, or ``None`` for 1 in 50 and at most 4."""
        return cast("int | None", self._get_optional("verify"))

    def setVerify(self, value: int) -> Self:
        """Set how many places per image the original network computes again; 0 for none."""
        return self._set(verify=value)

    def getPatchSize(self) -> int:
        """Return the height and width of the patch, in pixels."""
        return self.getOrDefault(self.patchSize)

    def setPatchSize(self, value: int) -> Self:
        """Set height and width of the patch, in pixels."""
        return self._set(patchSize=value)

    def getStride(self) -> int:
        """Return the distance between two positions of the patch, in pixels."""
        return self.getOrDefault(self.stride)

    def setStride(self, value: int) -> Self:
        """Set the pixels between two places of the patch."""
        return self._set(stride=value)

    def getPerturbation(self) -> str:
        """Return the content of the patch."""
        return self.getOrDefault(self.perturbation)

    def setPerturbation(self, value: str) -> Self:
        """Set the content of the patch."""
        return self._set(perturbation=value)

    def getPatchColor(self) -> list[int]:
        """Return the red, green and blue values of the patch, from 0 to 255."""
        return self.getOrDefault(self.patchColor)

    def setPatchColor(self, value: list[int]) -> Self:
        """Set red, green and blue of the patch, from 0 to 255."""
        return self._set(patchColor=value)

    def getMode(self) -> str:
        """Return the mode in which heat maps are computed."""
        return self.getOrDefault(self.mode)

    def setMode(self, value: str) -> Self:
        """Set the mode in which heat maps are computed."""
        return self._set(mode=value)

    def getDrillDownFraction(self) -> float:
        """Return the fraction of the heat map in drill-down's second stage."""
        return self.getOrDefault(self.drillDownFraction)

    def setDrillDownFraction(self, value: float) -> Self:
        """Set the fraction of the heat map that drill-down's second stage computes."""
        return self._set(drillDownFraction=value)

    def getPrecision(self) -> str:
        """Return the precision of positions in the approximate mode."""
        return self.getOrDefault(self.precision)

    def setPrecision(self, value: str) -> Self:
        """Set the precision of places in the approximate mode."""
        return self._set(precision=value)

    def getRegion(self) -> list[int] | None:
        """Return the top, bottom, left and right limits of the patch in pixels, or ``None`` for the whole image."""
        return cast("list[int] | None", self._get_optional("region"))

    def setRegion(self, value: list[int]) -> Self:
        """Set top, bottom, left and right that the patch stays in, in pixels of the network's input."""
        return self._set(region=value)

    def _get_optional(self, name: str) -> Any:
        return self.getOrDefault(name) if self.isDefined(name) else None
