"""BERT's encoder for features: the output of every block, and two vectors of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from udfs.roster._bert_sizes import BertSizes

__all__ = ["BertEncoder"]

# The keys are ACTIVATIONS of _text_builtin, which does not import torch.
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_new": lambda: nn.GELU(approximate="tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU(approximate="tanh"),
    "relu": nn.ReLU,
}


_PREFIXES = ("bert.", "roberta.", "distilbert.")
# DistilBERT's names of the same parameters.
_DISTILBERT = {
    "transformer.layer.": "encoder.layer.",
    ".attention.q_lin.": ".attention.self.query.",
    ".attention.k_lin.": ".attention.self.key.",
    ".attention.v_lin.": ".attention.self.value.",
    ".attention.out_lin.": ".attention.output.dense.",
    ".sa_layer_norm.": ".attention.output.LayerNorm.",
    ".ffn.lin1.": ".intermediate.dense.",
    ".ffn.lin2.": ".output.dense.",
    ".output_layer_norm.": ".output.LayerNorm.",
}


def _own_name(key: str) -> str:
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    for theirs, ours in _DISTILBERT.items():
        key = key.replace(theirs, ours)
    return key


class _Embeddings(nn.Module):
    """The sum of the embeddings of a token, its position and, but in DistilBERT, its segment, always the first."""

    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(shape.vocabulary, shape.hidden)
        self.position_embeddings = nn.Embedding(shape.positions, shape.hidden)
        self.token_type_embeddings = nn.Embedding(shape.segments, shape.hidden) if shape.segments else None
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.first = shape.first

    def forward(self, ids: Tensor) -> Tensor:
        positions = self.position_embeddings.weight[self.first : self.first + ids.size(1)]
        x = self.word_embeddings(ids)
        if self.token_type_embeddings is not None:
            # In the order in which BERT adds them: float addition is not associative.
            x = x + self.token_type_embeddings.weight[0]
        out: Tensor = self.LayerNorm(x + positions)
        return out


class _SelfAttention(nn.Module):
    """Attention of every token to every other, in several heads (Attention is all you need, section 3.2)."""

    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.query = nn.Linear(shape.hidden, shape.hidden)
        self.key = nn.Linear(shape.hidden, shape.hidden)
        self.value = nn.Linear(shape.hidden, shape.hidden)
        self.split = (shape.heads, shape.hidden // shape.heads)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = (
            part(x).unflatten(-1, self.split).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(2, 3)) * (1 / math.sqrt(self.split[1])) + bias
        return torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).flatten(2)


class _Added(nn.Module):
    """A projection, added to its residual input, and normalised."""

    def __init__(self, inputs: int, shape: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, shape.hidden)
        self.LayerNorm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        out: Tensor = self.LayerNorm(self.dense(x) + before)
        return out


class _Attention(nn.Module):
    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.add_module("self", _SelfAttention(shape))
        self.output = _Added(shape.hidden, shape)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        out: Tensor = self.output(self.get_submodule("self")(x, bias), x)
        return out


class _Intermediate(nn.Module):
    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden, shape.intermediate)
        self.activation = _ACTIVATIONS[shape.activation]()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.activation(self.dense(x))
        return out


class _Block(nn.Module):
    """Attention and two fully-connected layers, each with a residual connection."""

    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.intermediate = _Intermediate(shape)
        self.output = _Added(shape.intermediate, shape)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = self.attention(x, bias)
        out: Tensor = self.output(self.intermediate(x), x)
        return out


class _Blocks(nn.Module):
    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.layer = nn.ModuleList(_Block(shape) for _ in range(shape.blocks))


class _Mean(nn.Module):
    """The mean of the tokens that are not padding."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weights = mask.unsqueeze(-1).to(x.dtype)
        return (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


class _First(nn.Module):
    """The first token, which stands for the whole text."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class BertEncoder(nn.Module):
    """Embeddings and blocks of BERT, without the heads of its training.

    Parameters are named as in ``transformers.BertModel`` and ``RobertaModel``, whose weights fit; those of
    ``DistilBertModel`` do too, by :meth:`own_weights`.

    Inputs ``(N, tokens)`` ids and ``(N, tokens)`` mask, 1 for a token and 0 for padding. Outputs: the last block's
    ``(N, tokens, hidden)``, then of every block the mean of its tokens, then of every block its first token, each ``(N,
    hidden)``: outputs that are not read are not computed. Devlin et al., *BERT: pre-training of deep bidirectional
    transformers for language understanding*, NAACL 2019 (https://arxiv.org/abs/1810.04805).

    Examples
    --------
    >>> from udfs.roster._bert_sizes import BertSizes
    >>> encoder = BertEncoder(BertSizes(vocabulary=50, hidden=8, blocks=2, heads=2, intermediate=16)).eval()
    >>> last, *vectors = encoder(torch.zeros(3, 5, dtype=torch.long), torch.ones(3, 5, dtype=torch.long))
    >>> last.shape, len(vectors), vectors[0].shape
    (torch.Size([3, 5, 8]), 4, torch.Size([3, 8]))
    """

    def __init__(self, shape: BertSizes) -> None:
        super().__init__()
        self.embeddings = _Embeddings(shape)
        self.encoder = _Blocks(shape)
        self.mean = nn.ModuleList(_Mean() for _ in range(shape.blocks))
        self.cls = nn.ModuleList(_First() for _ in range(shape.blocks))
        for inner in self.modules():
            if isinstance(inner, nn.Linear | nn.Embedding):
                nn.init.normal_(inner.weight, std=shape.deviation)
            if isinstance(inner, nn.Linear):
                nn.init.zeros_(inner.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Encode ``(N, tokens)`` ids under their mask."""
        x = self.embeddings(input_ids)
        # Added to a score, it makes its softmax zero.
        bias = (1 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(torch.float32).min
        means, firsts = [], []
        for block, mean, first in zip(self.encoder.layer, self.mean, self.cls, strict=True):
            x = block(x, bias)
            means.append(mean(x, attention_mask))
            firsts.append(first(x))
        return (x, *means, *firsts)

    def own_weights(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take the encoder's part of a checkpoint: without prefix, heads, pooler and counters."""
        plain = {_own_name(key): tensor for key, tensor in state.items()}
        above = ("pooler.", "cls.", "lm_head.", "classifier.", "pre_classifier.", "qa_outputs.", "vocab_")
        counters = ("embeddings.position_ids", "embeddings.token_type_ids")
        return {key: tensor for key, tensor in plain.items() if not key.startswith((*above, *counters))}
