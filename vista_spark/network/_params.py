"""Params that stages share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol, HasSeed

from udfs.arrow import ERROR_POLICIES
from udfs.driver import UNBOUND, accessors, at_least, device_name, one_of, optional_accessors, setter
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network._network import network
from vista_spark.roster import FeatureLayer

if TYPE_CHECKING:
    from vista_spark.network._network import Network
    from vista_spark.roster import ModelCard

__all__ = ["HasImageSize", "HasNetwork", "HasNetworkInput", "layer_list", "layouts_by_layer"]

_LAYER = (Integral, str, FeatureLayer)


def layer_list(value: Any) -> int | str | list[int | str]:
    """Accept what :meth:`vista_spark.roster.ModelCard.resolve` takes: a count, a name, or a list of both."""
    if isinstance(value, _LAYER) and value is not True and value is not False:
        return _plain(value)
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, (list, tuple)) and listed and all(isinstance(item, _LAYER) for item in listed):
        return [_plain(item) for item in listed]
    raise TypeError(
        "layers must be a number of layers from the top, a layer's name, or a list of names and numbers, got "
        f"{value!r}."
    )


def _plain(layer: Any) -> int | str:
    """Turn numpy's numbers and layers of cards into what a stage saves."""
    if isinstance(layer, FeatureLayer):
        return layer.module
    return layer if isinstance(layer, str) else int(layer)


def _path(value: Any) -> str:
    """Accept a path as a string or an object."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"weights must be the path or URI of a file of weights, got {value!r}.")
    return os.fspath(value)


def layouts_by_layer(value: Any) -> str | dict[str, str]:
    """Accept a layout for all layers, or a mapping from names of layers to layouts."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair):
        return dict(value)
    raise TypeError(
        f'layout must be a text such as "channels_last", or a mapping from layers to such texts, got {value!r}.'
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

    setInputCol = setter(HasInputCol.inputCol, "the column that the network reads")
    getErrors, setErrors = accessors(errors, "the policy for values that cannot be read")
    getErrorCol, setErrorCol = accessors(errorCol, "the column for the reason why a value is bad")
    getBatchSize, setBatchSize = accessors(batchSize, "the number of records per run of the network")


class HasNetwork(HasSeed):
    """Params for the network that a stage runs, its weights and its device.

    The Param ``model`` contains the name of the model. If the user passes a model object, or if the stage was saved
    with a network, the stage also stores the card of the model.
    """

    model: Param[str] = Param(
        UNBOUND, "model", "a name of the roster, a card, a model, or package.module:function", TypeConverters.toString
    )
    weights: Param[str] = Param(UNBOUND, "weights", "path or URI of the weights; random weights without them", _path)
    device: Param[str] = Param(UNBOUND, "device", "auto | cpu | cuda | ...", device_name)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(device="auto", seed=0)

    _given: ModelCard | None = None
    _carried: Mapping[str, str] = MappingProxyType({})

    def getModel(self) -> str:
        """Name of the model."""
        return self.getOrDefault(self.model)

    def setModel(self, value: Any) -> Self:
        """Set the model: a name of the roster, a card, a model, or ``"package.module:function"``."""
        return self._set(model=value)

    def _set(self, **params: Any) -> Self:
        model, card = params.get("model"), self._given
        if model is not None:
            card = None if roster.is_name(model) else roster.of(model, image_size=params.get("imageSize"))
            params["model"] = model if card is None else card.name
        super()._set(**params)
        self._given = card
        if params.get("weights") is not None:
            self._carried = MappingProxyType({})
        return self

    def _copyValues(self, to: Any, extra: Any = None) -> Any:
        changed = {param.name for param in extra or ()}
        made = super()._copyValues(to, extra)
        if isinstance(made, HasNetwork) and "model" not in changed:
            made._given = self._given  # noqa: SLF001 - of its own class
        if isinstance(made, HasNetwork) and "weights" not in changed:
            made._carried = self._carried  # noqa: SLF001
        return made

    getWeights, setWeights = optional_accessors(weights, "the path or URI of the weights")
    getDevice, setDevice = accessors(device, "the device of the network")
    setSeed = setter(HasSeed.seed, "the seed of random weights")

    def _card(self, kind: str) -> ModelCard:
        """Find the model's card; without a model, raise an error that names those of a kind."""
        if not self.isDefined(self.model):
            fitting = ", ".join(name for name in roster.names() if roster.card(name).kind == kind)
            raise InvalidArgumentError(
                f"{type(self).__name__} has no model: give a network of your own, or set one of {fitting}"
            )
        return roster.of(self.getModel() if self._given is None else self._given)

    def _network_to_save(self) -> Network:
        """Open the network in the sizes that the stage has set."""
        size, length = (
            self.getOrDefault(self.getParam(name)) if self.hasParam(name) and self.isDefined(name) else None
            for name in ("imageSize", "maxLength")
        )
        return self._opened(size, length)

    def _opened(self, image_size: int | None = None, max_length: int | None = None) -> Network:
        """Open the stage's network, with the weights that the stage was saved with where it was."""
        weights = self.getWeights()
        return network(
            self.getModel() if self._given is None else self._given,
            None if weights is None else self._carried.get(weights, weights),
            self.getSeed(),
            image_size,
            max_length,
        )


class HasImageSize(Params):
    """Param for the size of the images that the network sees."""

    imageSize: Param[int] = Param(
        UNBOUND, "imageSize", "height and width of the network's input, in pixels", at_least("imageSize", 1)
    )

    getImageSize, setImageSize = optional_accessors(imageSize, "the height and width of the network's input, in pixels")
