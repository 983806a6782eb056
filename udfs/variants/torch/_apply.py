"""Restore the structure of a variant in a base network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from udfs.variants.torch._factored_layers import factored_layer
from udfs.variants.torch._layers import replace_module
from udfs.variants.torch._resized_layers import resized_layer
from udfs.variants.torch._storage import stored_layer
from udfs.variants.torch._strided_layers import strided_layer

if TYPE_CHECKING:
    from udfs.variants._structure import LayerChange, Structure

__all__ = ["apply_structure"]


def apply_structure(module: nn.Module, structure: Structure) -> nn.Module:
    """Make the changes of a structure to a base network, in place, and return it.

    The network may be on the meta device. Weights of new layers are random; a state dict of the variant fits.

    Parameters
    ----------
    module : torch.nn.Module
        Base network, with the layers that the structure names.
    structure : Structure
        Changes, as a transformation returned them.

    Returns
    -------
    torch.nn.Module
        The same module, or a new one if the structure replaces the network itself.

    Raises
    ------
    UnknownLayerError
        The network has no layer of a path.
    InvalidArgumentError
        A layer is of a class that a change does not fit.

    Examples
    --------
    >>> from udfs.variants import LayerChange, Structure
    >>> base = nn.Sequential(nn.Linear(8, 8))
    >>> apply_structure(base, Structure([LayerChange("0", "bottleneck", (2,))]))[0][1].in_features
    2
    """
    for change in structure.changes:
        layer = _layer(module, change.path)
        module = replace_module(module, layer, _changed(layer, change))
    return module


def _layer(module: nn.Module, path: str) -> nn.Module:
    try:
        return module.get_submodule(path)
    except AttributeError as error:
        raise UnknownLayerError(path, [known for known, _ in module.named_modules() if known]) from error


def _changed(layer: nn.Module, change: LayerChange) -> nn.Module:
    if change.kind == "removed":
        return nn.Identity()
    makers = {
        "bottleneck": factored_layer,
        "separable": factored_layer,
        "resized": resized_layer,
        "strided": strided_layer,
        "stored": stored_layer,
    }
    made = makers[change.kind](layer, change)
    if made is None:
        raise InvalidArgumentError(
            f"module must have a layer at {change.path!r} that can be {change.kind}, got {type(layer).__name__}."
        )
    return made.train(layer.training)
