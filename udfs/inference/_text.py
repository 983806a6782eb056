"""Tokenization: a column of text becomes token ids and the mask that tells them from padding."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.arrow import RowError
from udfs.handlers import TensorSpec
from udfs.inference._feeds import Read
from udfs.weights import WeightsError, local_file

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TOKENIZER", "TextError", "TextFeed", "Tokenization", "open_tokenizer"]

TOKENIZER = "tokenizer.json"
"""Name of the file in which the ``tokenizers`` library keeps a whole tokenizer."""

# What a padding token is called, by family of tokenizers, where the file does not say.
_PADDINGS = ("[PAD]", "<pad>", "<|endoftext|>")


class TextError(RowError):
    """A text that cannot be read; an error about this one value."""


@dataclass(frozen=True, slots=True)
class Tokenization:
    """Settings that turn a text into a network's inputs: a value that travels with the model.

    Every text takes ``max_length`` tokens: a longer one is cut, a shorter one padded, and the mask is 0 where it is. So
    a batch is dense and a tensor's size known before it is there; the price is that the network's FLOPs are those of
    the longest text for all of them. They grow a little faster than ``max_length``: choose it no longer than the texts.

    Examples
    --------
    >>> [spec.shape for spec in Tokenization(max_length=64).inputs]
    [(64,), (64,)]
    """

    max_length: int  # tokens, those that begin and end a text included
    tokenizer: str | None = None  # path or URI of a tokenizer.json, as for udfs.weights.local_file
    version: str = ""  # changes when the file does, for the caches of the workers

    kind = "text"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs of the network made of one column: ids of the tokens, and their mask."""
        return (TensorSpec((self.max_length,), "int64"), TensorSpec((self.max_length,), "int64"))

    @property
    def size(self) -> str:
        """The input's size in words: ``"128 tokens"``."""
        return f"{self.max_length} tokens"

    def with_size(self, max_length: int) -> Tokenization:
        """Copy for another number of tokens."""
        return replace(self, max_length=max_length)


@dataclass(frozen=True, slots=True)
class TextFeed:
    """Tokenizer of a column of strings into the two inputs of a text encoder."""

    column: str
    ids: str  # names of the graph's inputs
    mask: str
    tokenization: Tokenization

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that it reads."""
        return (self.column,)

    def take(self, batch: pa.RecordBatch) -> Read:
        """Tokenize the column; a null is bad, an empty text is not."""
        texts = batch.column(self.column).to_pylist()
        present = [text for text in texts if text is not None]
        ids = np.empty((len(present), self.tokenization.max_length), np.int64)
        mask = np.empty_like(ids)
        for row, encoding in enumerate(_tokenizer(self.tokenization).encode_batch(present)):
            ids[row], mask[row] = encoding.ids, encoding.attention_mask
        return Read({self.ids: ids, self.mask: mask}, ["null" if text is None else None for text in texts])


def open_tokenizer(tokenization: Tokenization) -> Any:
    """Open a tokenizer that pads and cuts to ``tokenization.max_length``.

    Raises
    ------
    udfs.weights.WeightsError
        There is no tokenizer, or its file cannot be read.
    ImportError
        The library is not installed; the message says which extra installs it.
    """
    try:
        from tokenizers import Tokenizer  # an optional extra
    except ModuleNotFoundError as error:
        raise ImportError('tokenizers is not installed: pip install "cerebro-spark[text]"') from error
    if tokenization.tokenizer is None:
        raise WeightsError("weights must be a folder with a tokenizer.json, got no tokenizer.")
    # One core a task: the library would take all of the machine's, and warn in processes that were forked.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    path = local_file(tokenization.tokenizer)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare exceptions.
        raise WeightsError(f"{tokenization.tokenizer} is no {TOKENIZER}: {error}") from error
    told = tokenizer.padding
    padding = told["pad_token"] if told else next(filter(tokenizer.token_to_id, _PADDINGS), _PADDINGS[0])
    number = told["pad_id"] if told else tokenizer.token_to_id(padding) or 0
    tokenizer.enable_truncation(tokenization.max_length)
    tokenizer.enable_padding(length=tokenization.max_length, pad_id=number, pad_token=padding)
    return tokenizer


# Two, as of models: each is some 10 MB.
_tokenizer = lru_cache(maxsize=2)(open_tokenizer)
