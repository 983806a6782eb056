"""Texts and tags of words in columns, as the tokens that an encoder reads and a class for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from udfs.arrow import NewColumns
from udfs.inference._text import open_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.inference._text import Tokenization

__all__ = ["UNTAGGED", "TokenColumns"]

UNTAGGED = -100
"""Class of a token that has no tag: padding, those that begin and end a text, the later pieces of a word."""

_TOKENS = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """Tokenizer of a column into ids, mask and, of tagged words, classes. A :class:`udfs.arrow.BatchFunction`.

    A word may be cut into several tokens: the first one has the word's class, the others :data:`UNTAGGED`.
    """

    text: str  # column of strings, or of arrays of words
    tags: str | None  # column of arrays of tags, one a word
    classes: tuple[str, ...]  # tags, in the order of their classes
    tokenization: Tokenization
    batch_size: int = 1024

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the texts and of the tags."""
        return (self.text,) if self.tags is None else (self.text, self.tags)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        """``input_ids``, ``attention_mask``, and the classes under the name of the tags."""
        names = ("input_ids", "attention_mask", *(() if self.tags is None else (self.tags,)))
        return tuple(pa.field(name, _TOKENS) for name in names)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        """Open the tokenizer."""
        del threads
        return partial(self._tokenize, open_tokenizer(self.tokenization))

    def _tokenize(self, tokenizer: Any, batch: pa.RecordBatch) -> NewColumns:
        texts = batch.column(self.text).to_pylist()
        tags: list[Any] = [None] * len(texts) if self.tags is None else batch.column(self.tags).to_pylist()
        reasons = [self._reason(text, tags_of_text) for text, tags_of_text in zip(texts, tags, strict=True)]
        good = [place for place, reason in enumerate(reasons) if reason is None]
        in_words = pa.types.is_list(batch.schema.field(self.text).type)
        encodings = tokenizer.encode_batch([texts[place] for place in good], is_pretokenized=in_words)
        number = {tag: place for place, tag in enumerate(self.classes)}
        columns: list[list[Any]] = [[None] * len(texts) for _ in self.adds]
        for place, encoding in zip(good, encodings, strict=True):
            columns[0][place], columns[1][place] = encoding.ids, encoding.attention_mask
            if self.tags is not None:
                columns[2][place] = _first_pieces(encoding.word_ids, [number[tag] for tag in tags[place]])
        return NewColumns.explained([pa.array(column, _TOKENS) for column in columns], reasons)

    def _reason(self, text: Any, tags: list[str | None] | None) -> str | None:
        if text is None or (self.tags is not None and tags is None):
            return "null"
        if isinstance(text, list) and None in text:
            return "a word is null"
        if tags is None:
            return None
        if len(tags) != len(text):
            return f"words and tags differ in number: {len(text)} and {len(tags)}"
        unknown = [tag for tag in tags if tag not in self.classes]
        return f"unknown tag: {unknown[0]}" if unknown else None


def _first_pieces(words: Sequence[int | None], classes: Sequence[int]) -> list[int]:
    """Assign each word's class to its first token."""
    return [
        classes[word] if word is not None and (place == 0 or words[place - 1] != word) else UNTAGGED
        for place, word in enumerate(words)
    ]
