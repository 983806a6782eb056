"""Heads of torch that train on the features of a frozen network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["ImageHead", "SequenceHead", "TransformerHead"]


class TransformerHead(nn.Module):
    """Trainable transformer encoder block with a classifier per token (Nautilus, section 5, workloads FTR).

    The block is that of BERT: attention and two dense layers, each with a residual connection and a normalisation
    (Vaswani et al., *Attention is all you need*, section 3.1). Its operations are separate layers in the traced graph.

    Parameters
    ----------
    width : int
        Number of features of a token.
    classes : int
        Number of classes of a token.
    heads : int
        Number of attention heads, a divisor of `width`. Default 12.
    intermediate : int, optional
        Width of the hidden dense layer. Default four times `width`.
    dropout : float
        Dropout rate in three places of the block. Default 0.1, as in BERT.

    Raises
    ------
    ValueError
        `heads` does not divide `width`.

    Notes
    -----
    Inputs: features ``(N, tokens, width)`` and, optionally, ``attention_mask`` of shape ``(N, tokens)``, 1 for a token
    and 0 for padding, which is masked. Output: scores before a softmax, ``(N, tokens, classes)``.

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
            raise ValueError(f"heads must be a divisor of width={width}, got {heads}")
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
    """Linear classifier of the mean of the tokens of a text or a series.

    Parameters
    ----------
    width : int
        Number of features of a token.
    classes : int
        Number of outputs; 1 for a regression.

    Notes
    -----
    Inputs: features ``(N, tokens, width)`` and, optionally, ``attention_mask`` of shape ``(N, tokens)``, which is 0
    for padding and excludes it from the mean. Output: ``(N, classes)``.

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
    """Linear classifier of the mean of each channel of a feature map.

    Use ``nn.Linear`` as the head of features that are vectors.

    Parameters
    ----------
    channels : int
        Number of channels of the feature map.
    classes : int
        Number of outputs; 1 for a regression.

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
