"""Cards of text encoders: of the one that ships, and of folders that a user has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError
from udfs.inference import TOKENIZER, Tokenization
from udfs.roster._bert_sizes import BertSizes
from udfs.roster._card import FeatureLayer, ModelCard
from udfs.weights import FOLDER_WEIGHTS, local_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from torch import nn

__all__ = ["ACTIVATIONS", "KINDS", "TEXT_BUILT_IN", "BertShape", "folder_card", "text_card"]

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
# Different names for the same layers; DistilBERT has no segments.
KINDS = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert")


@dataclass(frozen=True, slots=True)
class BertShape(BertSizes):
    """Builder of a BERT of these sizes: a value that can be compared and pickled."""

    def __call__(self) -> nn.Module:
        """Build the network."""
        from udfs.roster._bert import BertEncoder  # imports torch

        return BertEncoder(self)


def text_card(
    name: str,
    shape: BertShape,
    max_length: int,
    reference: str,
    *,
    weights: str | None = None,
    tokenizer: str | None = None,
) -> ModelCard:
    """Make the card of a BERT with each block's output as a layer; ``layer1`` is the lowest."""
    return ModelCard(
        name=name,
        builder=shape,
        preprocessing=Tokenization(max_length, tokenizer),
        layers=tuple(FeatureLayer(f"layer{block + 1}", f"encoder.layer.{block}") for block in range(shape.blocks)),
        parameters=shape.parameters,
        reference=reference,
        weights=weights,
    )


def folder_card(folder: str, name: str, max_length: int) -> ModelCard:
    """Make the card of a folder that ``transformers`` wrote; see :func:`vista_spark.roster.text_encoder`."""
    config = json.loads(local_file(f"{folder}/config.json").read_text())
    kind = config.get("model_type")
    plain = config.get("position_embedding_type", "absolute") == "absolute" and not config.get("is_decoder")
    if kind not in KINDS or not plain:
        raise InvalidArgumentError(f"{folder} has a network of the kind {kind!r}; use an encoder of {', '.join(KINDS)}")
    shape = _distilbert_shape(config) if kind == "distilbert" else _bert_shape(config)
    if shape.activation not in ACTIVATIONS:
        raise InvalidArgumentError(
            f"activation must be one of {', '.join(ACTIVATIONS)}, got {shape.activation!r} in {folder}"
        )
    return text_card(
        name,
        shape,
        min(max_length, shape.longest),
        folder,
        weights=f"{folder}/{FOLDER_WEIGHTS}",
        tokenizer=f"{folder}/{TOKENIZER}",
    )


def _bert_shape(config: Mapping[str, Any]) -> BertShape:
    return BertShape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        blocks=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        segments=config["type_vocab_size"],
        activation=config.get("hidden_act", "gelu"),
        epsilon=config.get("layer_norm_eps", 1e-12),
        first=0 if config["model_type"] == "bert" else config.get("pad_token_id", 1) + 1,
    )


def _distilbert_shape(config: Mapping[str, Any]) -> BertShape:
    # The settings of the published checkpoints where a file leaves one out.
    return BertShape(
        vocabulary=config["vocab_size"],
        hidden=config.get("dim", 768),
        blocks=config.get("n_layers", 6),
        heads=config.get("n_heads", 12),
        intermediate=config.get("hidden_dim", 3_072),
        positions=config.get("max_position_embeddings", 512),
        segments=0,
        activation=config.get("activation", "gelu"),
    )


TEXT_BUILT_IN: dict[str, ModelCard] = {
    card.name: card
    for card in (
        text_card(
            "minilm_l6",
            BertShape(hidden=384, blocks=6, intermediate=1_536),
            128,
            "Wang et al., MiniLM: deep self-attention distillation for task-agnostic compression, NeurIPS 2020",
        ),
    )
}
"""Cards by name."""
