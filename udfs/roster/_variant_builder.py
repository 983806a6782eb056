"""Builder of a variant of a network that ships."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.roster._compact_builtin import TORCH_BUILT_IN
from udfs.variants import Structure

if TYPE_CHECKING:
    from torch import nn

__all__ = ["VariantBuilder"]


@dataclass(frozen=True, slots=True)
class VariantBuilder:
    """Builder of a torch network of the roster with another head and structure.

    It is a value that can be compared, pickled and saved as JSON.

    Parameters
    ----------
    base : str
        Name of a torch network for images that ships.
    classes : int, optional
        Number of outputs of the last layer; by default, 0, the base network's.
    structure : Structure
        Changes to the network with this head, as the transformations of ``udfs.variants.torch`` return them.

    Raises
    ------
    InvalidArgumentError
        There is no such network, or ``classes`` is negative.

    Examples
    --------
    >>> VariantBuilder("squeezenet1_1", classes=5)().classifier[1].out_channels
    5
    """

    base: str
    classes: int = 0
    structure: Structure = field(default_factory=Structure)

    def __post_init__(self) -> None:
        if self.base not in TORCH_BUILT_IN:
            raise InvalidArgumentError(f"base must be one of {', '.join(TORCH_BUILT_IN)}, got {self.base!r}.")
        if self.classes < 0:
            raise InvalidArgumentError(f"classes must be 0 or more, got {self.classes}.")
        structure: Any = self.structure
        if isinstance(structure, Mapping):  # of a saved builder
            object.__setattr__(self, "structure", Structure(**structure))

    def __call__(self) -> nn.Module:
        """Build the network with random weights."""
        from udfs.variants.torch import apply_structure, replace_head  # imports torch

        network: nn.Module = TORCH_BUILT_IN[self.base].builder()
        if self.classes:
            network, _ = replace_head(network, self.classes)
        return apply_structure(network, self.structure)
