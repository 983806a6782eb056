"""Builder of a variant of a network that ships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.arguments import one_of
from udfs.roster._compact_builtin import TORCH_BUILT_IN
from udfs.variants import Structure

if TYPE_CHECKING:
    from torch import nn

__all__ = ["VariantBuilder"]


@dataclass(frozen=True, slots=True)
class VariantBuilder:
    """Builder of a torch network of the roster with another structure.

    It is a value that can be compared, pickled and saved as JSON.

    Parameters
    ----------
    base : str
        Name of a torch network for images that ships.
    structure : Structure
        Changes to the network, as the transformations of ``udfs.variants.torch`` return them. Default: none.

    Raises
    ------
    InvalidArgumentError
        There is no such network.

    Examples
    --------
    >>> from udfs.variants import LayerChange
    >>> head = LayerChange("classifier.1", "resized", (5, 512, 1))
    >>> VariantBuilder("squeezenet1_1", Structure([head]))().classifier[1].out_channels
    5
    """

    base: str
    structure: Structure = field(default_factory=Structure)

    def __post_init__(self) -> None:
        one_of("base", self.base, tuple(TORCH_BUILT_IN))
        structure: Any = self.structure
        if isinstance(structure, Mapping):  # of a saved builder
            object.__setattr__(self, "structure", Structure(**structure))

    def __call__(self) -> nn.Module:
        """Build the network with random weights."""
        from udfs.variants.torch import apply_structure  # imports torch

        return apply_structure(TORCH_BUILT_IN[self.base].builder(), self.structure)
