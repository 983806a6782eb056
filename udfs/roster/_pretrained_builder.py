"""Builder of a network of ``transformers``: a value that travels with a card, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PretrainedBuilder"]


@dataclass(frozen=True, slots=True)
class PretrainedBuilder:
    """Configuration of a network of images; a call builds the network. It can be compared and pickled.

    Where it is called, ``transformers`` has to be installed. ``network`` is a class of ``transformers``, ``config`` the
    text of ``config.json``, and ``pooler`` tells whether the checkpoint has the parameters of the network's pooler.
    ``maps`` are paths of modules that return tokens ``(N, tokens, channels)``, each with the number of special tokens
    (class, distillation, registers) that come before those of the patches; its child ``feature_map`` returns the
    patches as a feature map ``(N, channels, height, width)``. ``vector`` is the path of the classifier where no module
    returns the vector that it reads, or an empty one where none returns the vector that the network returns: its child
    ``vector`` then does.
    """

    network: str
    config: str
    pooler: bool = True
    maps: tuple[tuple[str, int], ...] = ()
    vector: str | None = None

    def __call__(self) -> nn.Module:
        """Build the network, with random weights."""
        from udfs.roster._pretrained_network import build  # imports torch

        return build(self.network, self.config, pooler=self.pooler, maps=self.maps, vector=self.vector)
