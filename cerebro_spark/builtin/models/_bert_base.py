"""BERT-base."""

from __future__ import annotations

from cerebro_spark.builtin._model import BuiltinModel, values

__all__ = ["MODEL"]

# Table 9.3 of the Cerebro thesis, workloads FTR and ATR, which are those of the paper on BERT.
_RATES, _BATCHES = values(5e-5, 3e-5, 2e-5), values(16, 32)

MODEL = BuiltinModel(
    name="bert_base",
    title="BERT-base",
    input="text",
    search_spaces={
        "full": {"lr": _RATES, "batch_size": _BATCHES, "weight_decay": values(0.01)},
        "frozen": {
            "lr": _RATES,
            "batch_size": _BATCHES,
            "weight_decay": values(0.01),
            "trainable_blocks": values(1, 2, 3, 4),
        },
    },
    settings={"max_length": 128, "tokenizer": "", "num_epochs": 5, "metric": "accuracy"},
    reference="Devlin et al., BERT, NAACL 2019; Nakandala 2022, Table 9.3",
)
