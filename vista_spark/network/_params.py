"""Params that stages share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol, HasSeed

from udfs.arrow import ERROR_POLICIES
from udfs.driver import UNBOUND, at_least, device_name, one_of
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from vista_spark.roster import ModelCard

__all__ = ["HasImageSize", "HasNetwork", "HasNetworkInput", "layer_list"]


def layer_list(value: Any) -> int | str | list[int | str]:
    """Accept what :meth:`vista_spark.roster.ModelCard.resolve` takes: a count, a name, or a list of both."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (int, str)) for item in value):
        return list(value)
    raise TypeError(
        f"layers={value!r}: a number of layers from the top, a layer's name, or a list of names and numbers"
    )


class HasNetworkInput(HasInputCol):
    """Params for the column that a network reads, and the policy for values that it cannot read."""

    errors: Param[str] = Param(
        UNBOUND,
        "errors",
        "policy for a bad value: " + " | ".join(ERROR_POLICIES),
        one_of("errors", ERROR_POLICIES),
    )
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason a value is bad", TypeConverters.toString)
    batchSize: Param[int] = Param(UNBOUND, "batchSize", "records handled at a time", at_least("batchSize", 1))

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(errors="null", batchSize=32)

    def setInputCol(self, value: str) -> Self:
        """Set the column that the network reads."""
        return self._set(inputCol=value)

    def getErrors(self) -> str:
        """Policy for values that cannot be read."""
        return self.getOrDefault(self.errors)

    def setErrors(self, value: str) -> Self:
        """Set the policy for values that cannot be read."""
        return self._set(errors=value)

    def getErrorCol(self) -> str:
        """Column for the reason a value is bad."""
        return self.getOrDefault(self.errorCol)

    def setErrorCol(self, value: str) -> Self:
        """Set the column for the reason a value is bad."""
        return self._set(errorCol=value)

    def getBatchSize(self) -> int:
        """Records handled at a time."""
        return self.getOrDefault(self.batchSize)

    def setBatchSize(self, value: int) -> Self:
        """Set the number of records handled at a time."""
        return self._set(batchSize=value)


class HasNetwork(HasSeed):
    """Params for the network of the roster that a stage runs, its weights and its device."""

    model: Param[str] = Param(UNBOUND, "model", "name of the roster, or of a registered model", TypeConverters.toString)
    weights: Param[str] = Param(
        UNBOUND, "weights", "path or URI of the weights; random weights without them", TypeConverters.toString
    )
    device: Param[str] = Param(UNBOUND, "device", "auto | cpu | cuda | ...", device_name)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(device="auto", seed=0)

    def getModel(self) -> str:
        """Name of the model."""
        return self.getOrDefault(self.model)

    def setModel(self, value: str) -> Self:
        """Set the model by its name in the roster."""
        return self._set(model=value)

    def getWeights(self) -> str | None:
        """Path or URI of the weights, or ``None`` for random ones."""
        return self.getOrDefault(self.weights) if self.isDefined(self.weights) else None

    def setWeights(self, value: str) -> Self:
        """Set the path or URI of the weights."""
        return self._set(weights=value)

    def getDevice(self) -> str:
        """Device of the network."""
        return self.getOrDefault(self.device)

    def setDevice(self, value: str) -> Self:
        """Set the device of the network."""
        return self._set(device=value)

    def setSeed(self, value: int) -> Self:
        """Set the seed of random weights."""
        return self._set(seed=value)

    def _card(self, kind: str) -> ModelCard:
        """Find the model's card; without a model, raise an error that names those of a kind."""
        if not self.isDefined(self.model):
            fitting = ", ".join(name for name in roster.names() if roster.card(name).kind == kind)
            raise InvalidArgumentError(f"{type(self).__name__} has no model: set one of {fitting}")
        return roster.card(self.getModel())


class HasImageSize(Params):
    """Param for the size of the images that the network sees."""

    imageSize: Param[int] = Param(
        UNBOUND, "imageSize", "height and width of the network's input, in pixels", at_least("imageSize", 1)
    )

    def getImageSize(self) -> int | None:
        """Height and width of the network's input in pixels, or ``None`` for the model's own."""
        return self.getOrDefault(self.imageSize) if self.isDefined(self.imageSize) else None

    def setImageSize(self, value: int) -> Self:
        """Set height and width of the network's input, in pixels."""
        return self._set(imageSize=value)
