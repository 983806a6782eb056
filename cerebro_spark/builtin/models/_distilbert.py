"""DistilBERT."""

from __future__ import annotations

from cerebro_spark.builtin._model import BuiltinModel, values

__all__ = ["MODEL"]

# Table 9.3 of the Cerebro thesis, as for BERT-base; there are half as many blocks.
_RATES, _BATCHES = values(5e-5, 3e-5, 2e-5), values(16, 32)

MODEL = BuiltinModel(
    name="distilbert",
    title="DistilBERT",
    input="text",
    sizes={"blocks": 6, "segments": 0},
    search_spaces={
        "full": {"lr": _RATES, "batch_size": _BATCHES, "weight_decay": values(0.01)},
        "frozen": {
            "lr": _RATES,
            "batch_size": _BATCHES,
            "weight_decay": values(0.01),
            "trainable_blocks": values(1, 2),
        },
    },
    settings={"max_length": 128, "tokenizer": "", "num_epochs": 5, "metric": "accuracy"},
    reference="Sanh et al., DistilBERT, arXiv:1910.01108; Nakandala 2022, Table 9.3",
)
