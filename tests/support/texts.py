"""Sentences, and a small BERT that reads them: a folder as ``transformers`` writes it, the same in every process."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from vista_spark import roster

__all__ = ["ANIMALS", "MARKETS", "TOKENIZERS", "sentences", "tiny_bert"]

TOKENIZERS = find_spec("tokenizers") is not None and find_spec("torch") is not None

ANIMALS = ("the cat sat on the mat", "a dog ran after the cat", "the small dog is in the garden", "a cat and a bird")
MARKETS = ("stocks fell and markets closed low", "banks and bonds rose", "prices of stocks rose", "the bank closed low")
_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
}


def sentences(count: int) -> list[tuple[int, str]]:
    """Make kinds and texts, animals and markets by turns, no two alike."""
    texts = []
    for number in range(count):
        kind, place = number % 2, number // 2
        of = (ANIMALS, MARKETS)[kind]
        texts.append((kind, " and ".join([of[place % 4]] + [of[(place // 4) % 4]] * (place // 4))))
    return texts


@cache
def tiny_bert(name: str = "tiny_bert") -> Path:
    """Register the small BERT, whose weights come from a seed; return its folder."""
    folder = Path(tempfile.gettempdir()) / f"cerebro-tests-{os.getuid()}" / "tiny_bert"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder)
        (folder / "done").touch()
    roster.text_encoder(str(folder), name, max_length=12, overwrite=True)
    return folder


def _write(folder: Path) -> None:
    import torch  # optional extras
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    from udfs.roster._bert import BertEncoder
    from udfs.roster._text_builtin import BertShape

    words = sorted({word for text in (*ANIMALS, *MARKETS) for word in text.split()})
    tokens = {token: place for place, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, "##s", "##ed"])}
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))  # a token of a text
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", tokens["[CLS]"]), ("[SEP]", tokens["[SEP]"])]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "bert", "vocab_size": len(tokens), **_SIZES}
    (folder / "config.json").write_text(json.dumps(config))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        # Wide enough that the blocks differ, and that attention is not the mean of everything.
        shape = BertShape(len(tokens), 16, 3, 2, 32, 24, 2, deviation=0.4)
        save_file(BertEncoder(shape).state_dict(), folder / "model.safetensors")
