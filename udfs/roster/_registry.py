"""The models of this process by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.roster._builtin import TorchBuilder
from udfs.roster._compact_builtin import TORCH_BUILT_IN
from udfs.roster._errors import UnknownModelError
from udfs.roster._keras_builtin import KERAS_BUILT_IN, KerasBuilder
from udfs.roster._onnx_builder import OnnxBuilder
from udfs.roster._text_builtin import TEXT_BUILT_IN, BertShape
from udfs.roster._variant_builder import VariantBuilder

if TYPE_CHECKING:
    from udfs.roster._card import ModelCard

__all__ = ["SAVED_BUILDERS", "add", "card", "is_shipped", "names", "unregister"]

SAVED_BUILDERS: dict[str, type[TorchBuilder | KerasBuilder | BertShape | OnnxBuilder | VariantBuilder]] = {
    "vista_spark.roster._builtin._Builder": TorchBuilder,
    "vista_spark.roster._keras_builtin._Builder": KerasBuilder,
    "vista_spark.roster._text_builtin.BertShape": BertShape,
    "vista_spark.roster.OnnxBuilder": OnnxBuilder,
    "vista_spark.roster.VariantBuilder": VariantBuilder,
}
"""Builders that a saved stage names instead of holding a copy of the network. The names are part of the format."""
_SHIPPED = TORCH_BUILT_IN | KERAS_BUILT_IN | TEXT_BUILT_IN

_registered: dict[str, ModelCard] = {}


def names() -> tuple[str, ...]:
    """List the models by name: those that ship, then those that were registered.

    Examples
    --------
    >>> names()[:3]
    ('alexnet', 'vgg16', 'resnet18')
    """
    return tuple({**_SHIPPED, **_registered})


def card(name: str) -> ModelCard:
    """Find a model's card.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Raises
    ------
    UnknownModelError
        There is no such model; the message lists the known ones, and the nearest.

    Examples
    --------
    >>> card("resnet50").preprocessing.shape
    (3, 224, 224)
    """
    known = _registered.get(name) or _SHIPPED.get(name)
    if known is None:
        raise UnknownModelError(name, names())
    return known


def is_shipped(name: str) -> bool:
    """Return whether every process knows a model by its name, and as the same one."""
    return name in _SHIPPED and name not in _registered


def add(model: ModelCard) -> None:
    """Add a card that was checked, or replace the one of its name."""
    _registered[model.name] = model


def unregister(name: str) -> None:
    """Remove a registered model from the roster; models that ship stay.

    Parameters
    ----------
    name : str
        Registered name.

    Raises
    ------
    UnknownModelError
        It was not registered.
    """
    if name not in _registered:
        raise UnknownModelError(name, _registered)
    del _registered[name]
