"""Pre-trained networks with a part that learns, as a user writes them in plain torch: taggers, and CNNs fine-tuned.

Each has its frozen part and its branch apart, so that a bare loop can keep the branch's inputs in memory.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["IGNORED", "FineTuned", "Parted", "Tagger", "Tuned", "entity_accuracy", "tagging_loss"]

IGNORED = -100
"""The tag of padding, and of every piece of a word but its first."""


class Parted(nn.Module):
    """A frozen part, which no gradient reaches, and a branch over the tensors that it gives."""

    def frozen(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the inputs of the branch."""
        raise NotImplementedError

    def branch(self, *features: Tensor) -> Tensor:
        """Compute the outputs from what :meth:`frozen` gave."""
        raise NotImplementedError

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the outputs."""
        return self.branch(*self.frozen(*inputs))


class _Block(nn.Module):
    """A block of a transformer, normalised after each half, as BERT's are."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.wide = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        parts = self.mixed(x).chunk(3, -1)
        # By index: torch.fx cannot iterate, and torch.export takes ten times as long to open a model.
        query, key, value = (parts[place].unflatten(-1, (self.heads, -1)).transpose(1, 2) for place in range(3))
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=bias).transpose(1, 2).flatten(2)
        x = self.first(x + self.output(read))
        normed: Tensor = self.second(x + self.narrow(F.gelu(self.wide(x))))
        return normed


class _Bert(Parted):
    """Base class of taggers: BERT's embeddings, and its mask as numbers that are added to scores."""

    encoder: Any

    def _embedded(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        bias = (1 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        return self.encoder.embeddings(ids.long()), bias


class Tagger(_Bert):
    """Feature transfer: a transformer block and a classifier over outputs of a frozen BERT (FTR of Nautilus).

    Parameters
    ----------
    encoder : BertEncoder
        Of the roster.
    layers : sequence of int
        Blocks whose outputs are read, from 1; 0 is the embedding.
    combine : {"one", "sum", "concat"}
        How several become one: a concatenation is projected to the width of one layer.
    classes : int

    Notes
    -----
    Reads ids and mask, each ``(N, tokens)``; gives ``(N, tokens, classes)``.
    """

    def __init__(self, encoder: Any, layers: Sequence[int], combine: str, classes: int) -> None:
        super().__init__()
        hidden = encoder.embeddings.LayerNorm.weight.numel()
        self.encoder = encoder.requires_grad_(False)
        self.layers, self.combine = tuple(layers), combine
        self.project = nn.Linear(len(layers) * hidden, hidden) if combine == "concat" else nn.Identity()
        self.block = _Block(hidden, encoder.encoder.layer[0].attention.get_submodule("self").split[0])
        self.classifier = nn.Linear(hidden, classes)

    def frozen(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the features, and the mask as numbers that are added to scores."""
        ids, mask = inputs
        x, bias = self._embedded(ids, mask)
        kept = [x] if 0 in self.layers else []
        for number, block in enumerate(self.encoder.encoder.layer[: max(self.layers)], 1):
            x = block(x, bias)
            if number in self.layers:
                kept.append(x)
        features = kept[0]
        if self.combine == "concat":
            features = torch.cat(kept, -1)
        else:
            for other in kept[1:]:
                features = features + other
        return features, bias

    def branch(self, *features: Tensor) -> Tensor:
        """Compute the scores of all tokens."""
        x, bias = features
        scores: Tensor = self.classifier(self.block(self.project(x), bias))
        return scores


class _Adapter(nn.Module):
    """A bottleneck with a skip connection, close to the identity before training (Houlsby et al., ICML 2019)."""

    def __init__(self, hidden: int, bottleneck: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(hidden, bottleneck), nn.Linear(bottleneck, hidden)
        for part in (self.down, self.up):
            nn.init.normal_(part.weight, std=1e-3)
            nn.init.zeros_(part.bias)

    def forward(self, x: Tensor) -> Tensor:
        up: Tensor = self.up(F.gelu(self.down(x)))
        return x + up


class Tuned(_Bert):
    """Adapters in the last blocks of a frozen BERT, whose normalisations learn too, and a classifier (ATR).

    Parameters
    ----------
    encoder : BertEncoder
        Of the roster; its last blocks are changed.
    top : int
        Blocks with adapters.
    classes : int
    bottleneck : int

    Notes
    -----
    Reads and gives what :class:`Tagger` does.
    """

    def __init__(self, encoder: Any, top: int, classes: int, bottleneck: int = 64) -> None:
        super().__init__()
        hidden = encoder.embeddings.LayerNorm.weight.numel()
        self.encoder = encoder.requires_grad_(False)
        self.below = len(encoder.encoder.layer) - top
        for block in encoder.encoder.layer[self.below :]:
            for half in (block.attention.output, block.output):
                half.dense = nn.Sequential(half.dense, _Adapter(hidden, bottleneck))
                half.LayerNorm = _learning(half.LayerNorm)
        self.classifier = nn.Linear(hidden, classes)

    def frozen(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the output of the last block without adapters, and the mask."""
        x, bias = self._embedded(*inputs)
        for block in self.encoder.encoder.layer[: self.below]:
            x = block(x, bias)
        return x, bias

    def branch(self, *features: Tensor) -> Tensor:
        """Compute the scores of all tokens."""
        x, bias = features
        for block in self.encoder.encoder.layer[self.below :]:
            x = block(x, bias)
        scores: Tensor = self.classifier(x)
        return scores


class FineTuned(Parted):
    """A CNN whose last parts learn, batch norms included, under a new classifier (FTU).

    Parameters
    ----------
    features : nn.Sequential
        Convolutions of the pre-trained network.
    top : int
        Parts of it that learn, from the end.
    width, classes : int
        Channels of the last part, and of the scores.

    Notes
    -----
    Reads images ``(N, 3, height, width)`` between 0 and 1; gives ``(N, classes)``.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, features: nn.Sequential, top: int, width: int, classes: int) -> None:
        super().__init__()
        self.below = features[: len(features) - top].requires_grad_(False)
        self.above = _learning(features[len(features) - top :])
        self.classifier = nn.Linear(width, classes)
        # ImageNet's, as the weights were trained.
        for name, value in {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}.items():
            self.register_buffer(name, torch.tensor(value).view(3, 1, 1), persistent=False)

    def train(self, mode: bool = True) -> FineTuned:
        """Set the trainable parts to training mode; the rest stays in evaluation mode."""
        super().train(mode)
        self.below.eval()
        return self

    def frozen(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the map under the lowest part that learns."""
        return (self.below(self.normalised(inputs[0])),)

    def normalised(self, images: Tensor) -> Tensor:
        """Shift and scale as the pre-trained network was given its images."""
        return (images - self.mean) / self.std

    def branch(self, *features: Tensor) -> Tensor:
        """Compute the scores."""
        scores: Tensor = self.classifier(self.above(features[0]).mean((2, 3)))
        return scores


def _learning(module: Any) -> Any:
    """Copy a module, whose weights may be pages of a file, for training."""
    return copy.deepcopy(module).requires_grad_(True)


def tagging_loss(scores: Tensor, tags: Tensor) -> Tensor:
    """Mean cross-entropy of the tokens that have a tag."""
    return F.cross_entropy(scores.flatten(0, 1), tags.long().flatten(), ignore_index=IGNORED)


def entity_accuracy(scores: NDArray[Any], tags: NDArray[Any]) -> NDArray[np.float64]:
    """Share of right tags of each row; padding does not count."""
    counted = tags != IGNORED
    right: NDArray[np.float64] = ((scores.argmax(-1) == tags) & counted).sum(-1) / np.maximum(counted.sum(-1), 1)
    return right
