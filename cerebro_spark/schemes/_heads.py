"""Heads of torch: what learns on top of the features of a frozen network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["ImageHead", "SequenceHead", "TransformerHead"]


class TransformerHead(nn.Module):
    """A transformer encoder block that learns, and a classifier per token (Nautilus, section 5, workloads FTR).

    The block is BERT's: attention and two dense layers, each added to its input and then normalised (Vaswani et al.,
    *Attention is all you need*, section 3.1). Its operations are layers of their own in the traced graph.

    Parameters
    ----------
    width : int
        Of a token's features.
    classes : int
        Of a token.
    heads : int
        Of the attention; they divide `width`. Default 12.
    intermediate : int, optional
        Width within the block. Default four times `width`.
    dropout : float
        Share of numbers that training sets to zero, in three places of the block. Default 0.1, as BERT's.

    Raises
    ------
    ValueError
        `heads` do not divide `width`.

    Notes
    -----
    Inputs: features ``(N, tokens, width)`` and, optionally, ``attention_mask`` of shape ``(N, tokens)``, 1 for a token
    and 0 for padding, which no token then attends to. Output: ``(N, tokens, classes)``, scores before a softmax.

    Examples
    --------
    >>> head = TransformerHead(48, classes=9)
    >>> head(torch.zeros(2, 5, 48), attention_mask=torch.ones(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 9])
    """

    def __init__(
        self, width: int, classes: int, *, heads: int = 12, intermediate: int | None = None, dropout: float = 0.1
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads={heads} do not divide width={width}: choose a number that does")
        inner = 4 * width if intermediate is None else intermediate
        self.split = (heads, width // heads)
        self.query, self.key, self.value, self.context = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.activation, self.down = nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)
        self.attention_dropout, self.dropout, self.classifier_dropout = (nn.Dropout(dropout) for _ in range(3))
        self.classifier = nn.Linear(width, classes)

    def forward(self, features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Classify each token."""
        query, key, value = (
            part(features).unflatten(-1, self.split).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(2, 3)) * (1 / math.sqrt(self.split[1]))
        if attention_mask is not None:
            padding = 1 - attention_mask[:, None, None, :].to(features.dtype)
            scores = scores + padding * torch.finfo(torch.float32).min
        attended = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).flatten(2)
        x = self.attention_norm(features + self.attention_dropout(self.context(attended)))
        x = self.norm(x + self.dropout(self.down(self.activation(self.up(x)))))
        scored: Tensor = self.classifier(self.classifier_dropout(x))
        return scored


class SequenceHead(nn.Module):
    """A linear classifier of a text or a series: of the mean of its tokens.

    Parameters
    ----------
    width : int
        Of a token's features.
    classes : int
        Outputs; of a regression 1.

    Notes
    -----
    Inputs: features ``(N, tokens, width)`` and, optionally, ``attention_mask`` of shape ``(N, tokens)``: padding, where
    it is 0, is left out of the mean. Output: ``(N, classes)``.

    Examples
    --------
    >>> SequenceHead(384, classes=2)(torch.zeros(3, 5, 384)).shape
    torch.Size([3, 2])
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, classes)

    def forward(self, features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Classify each record."""
        if attention_mask is None:
            mean = features.mean(1)
        else:
            weights = attention_mask.unsqueeze(-1).to(features.dtype)
            mean = (features * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        scored: Tensor = self.classifier(mean)
        return scored


class ImageHead(nn.Module):
    """A linear classifier of an image: of the mean of each channel of a feature map.

    Of features that are vectors already ``nn.Linear`` is the head.

    Parameters
    ----------
    channels : int
    classes : int
        Outputs; of a regression 1.

    Notes
    -----
    Input: feature maps ``(N, channels, height, width)``. Output: ``(N, classes)``.

    Examples
    --------
    >>> ImageHead(512, classes=5)(torch.zeros(3, 512, 7, 7)).shape
    torch.Size([3, 5])
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Classify each image."""
        scored: Tensor = self.classifier(features.mean((2, 3)))
        return scored
