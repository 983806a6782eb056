"""Texts as counts of their terms, tokenised as scikit-learn does."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.compiling import SparseRows
from optimizer.errors import ColumnError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling import Bag

__all__ = ["BagReader"]

# Hashes that are remembered: a language has fewer words.
_REMEMBERED = 1_000_000
_SPARK_SEED = 42
_SPACES = re.compile(r"\s\s+")


class BagReader:
    """Counter of the terms of texts."""

    def __init__(self, bag: Bag) -> None:
        self._bag, self._width = bag, bag.width([])
        self._pattern = re.compile(bag.pattern)
        self._stop = frozenset(bag.stop_words)
        self._places = {term: place for place, term in enumerate(bag.terms)}
        self._spark = bag.analyzer == "list of Spark"
        self._hashes: dict[str | None, int] = {}

    def read(self, column: Any, name: str) -> SparseRows:
        """Read a column of texts.

        Parameters
        ----------
        column : numpy array of objects or texts, or Arrow array
            Texts, lists or dictionaries.
        name : str
            Name of the column in messages.

        Raises
        ------
        ColumnError
            The column holds numbers.
        """
        values = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column.tolist()
        if not isinstance(column, pa.Array | pa.ChunkedArray) and column.dtype.kind in "biuf" and len(column):
            raise ColumnError(f"{name} must hold texts, as in training, got {column.dtype}.")
        amounts = None
        if self._bag.analyzer == "pairs":
            pairs = [pairs_of(value, self._bag.separator, lists=not self._bag.buckets) for value in values]
            terms = [None if row_terms is None else [term for term, _ in row_terms] for row_terms in pairs]
            amounts = np.array([amount for row_terms in pairs for _, amount in row_terms or ()], np.float64)
        else:
            split = _entries if self._bag.entries is list else self._terms
            terms = [split(value) for value in values]
        absent = np.array([row_terms is None for row_terms in terms], np.bool_)
        term_lists = [row_terms or [] for row_terms in terms]
        columns, signs, lengths = self._hashed(term_lists, absent) if self._bag.buckets else self._known(term_lists)
        rows = np.repeat(np.arange(len(term_lists), dtype=np.int64), lengths)
        if amounts is not None:
            signs = signs * amounts
        known = columns >= 0
        keys, inverse = np.unique(rows[known] * self._width + columns[known], return_inverse=True)
        counts = np.bincount(inverse, signs[known], len(keys)).astype(np.float64)
        return self._weighted(keys // self._width, keys % self._width, counts, absent)

    def _terms(self, text: object) -> list[str] | None:
        """Split a text into terms; return ``None`` for other values."""
        bag = self._bag
        if isinstance(text, bytes):
            try:
                text = text.decode(bag.encoding, bag.errors)
            except UnicodeDecodeError:
                return None
        if not isinstance(text, str):
            return None
        text = text.lower() if bag.lowercase else text
        text = _without_accents(text, bag.accents)
        if bag.analyzer == "word":
            tokens = self._pattern.findall(text)
            tokens = [token for token in tokens if token not in self._stop] if self._stop else tokens
            return _grams(tokens, bag.least, bag.most, " ".join) if bag.most != 1 else tokens
        text = _SPACES.sub(" ", text)
        if bag.analyzer == "char":
            return _grams(list(text), bag.least, bag.most, "".join)
        return [gram for word in text.split() for gram in _within(f" {word} ", bag.least, bag.most)]

    def _known(self, term_lists: list[list[Any]]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """Return the column of each term, -1 for unknown ones."""
        places = self._places
        lengths = np.array([len(row_terms) for row_terms in term_lists], np.int64)
        columns = np.fromiter(
            (places.get(term, -1) for term in chain.from_iterable(term_lists)), np.int64, int(lengths.sum())
        )
        return columns, np.ones(len(columns)), lengths

    def _hashed(
        self, term_lists: list[list[Any]], absent: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        if len(self._hashes) > _REMEMBERED:
            self._hashes.clear()
        for row, row_terms in enumerate(term_lists):
            if not all(isinstance(term, str) or (term is None and self._spark) for term in row_terms):
                absent[row], term_lists[row] = True, [""] * len(row_terms)
        fresh = list({term for row_terms in term_lists for term in row_terms if term not in self._hashes})
        encoded = [None if term is None else _encoded(term) for term in fresh]
        self._hashes |= dict(zip(fresh, _murmur(encoded, _SPARK_SEED if self._spark else 0).tolist(), strict=True))
        for row, row_terms in enumerate(term_lists):
            # Half of a pair of surrogates: the library cannot encode the term, and refuses the text.
            if any(_encoded(term) is None for term in row_terms if term is not None and not term.isascii()):
                absent[row] = True
        lengths = np.array([len(row_terms) for row_terms in term_lists], np.int64)
        values = np.fromiter(
            (self._hashes[term] for row_terms in term_lists for term in row_terms), np.int64, int(lengths.sum())
        )
        if self._spark:
            return values % self._width, np.ones(len(values)), lengths
        # The library has 2^31 - (buckets - 1) - 1 for the one number that has no magnitude of 32 bits.
        magnitude = np.where(values == -(2**31), 2**31 - 1 - (self._width - 1), np.abs(values))
        signs = np.where(values >= 0, 1.0, -1.0) if self._bag.signs else np.ones(len(values))
        return magnitude % self._width, signs, lengths

    def _weighted(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        counts: NDArray[np.float64],
        absent: NDArray[np.bool_],
    ) -> SparseRows:
        bag = self._bag
        values = (np.ones_like(counts) if bag.binary else counts).astype(bag.dtype)
        if bag.sublinear:
            np.log(values, values)
            values += 1.0
        if len(bag.weights):
            values *= bag.weights[columns]
        if bag.norm:
            norms = _norms(rows, values.astype(np.float64), len(absent), bag.norm)[rows]
            values = np.divide(values, norms, out=values.copy(), where=norms != 0, casting="same_kind")
        missing = np.flatnonzero(absent)
        if len(missing):
            kept = ~absent[rows]
            rows, columns, values = rows[kept], columns[kept], values[kept]
            at = np.searchsorted(rows, missing)
            rows, columns = np.insert(rows, at, missing), np.insert(columns, at, 0)
            values = np.insert(values, at, np.nan)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(absent)))]).astype(np.int64)
        return SparseRows(starts, columns, values, self._width)


def _entries(row: object) -> list[Any] | None:
    """Return the entries of a list, or ``None`` for other values."""
    if isinstance(row, str | bytes | Mapping) or not isinstance(row, Iterable):
        return None
    return list(row)


def _norms(rows: NDArray[np.int64], values: NDArray[np.float64], count: int, norm: str) -> NDArray[np.float64]:
    if norm == "max":
        greatest = np.zeros(count)
        np.maximum.at(greatest, rows, np.abs(values))
        return greatest
    # bincount adds in order, as the library does.
    if norm == "l1":
        return np.bincount(rows, np.abs(values), count).astype(np.float64)
    return np.sqrt(np.bincount(rows, values * values, count))


def _without_accents(text: str, kind: str) -> str:
    if not kind or text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    if kind == "ascii":
        return parts.encode("ascii", "ignore").decode("ascii")
    return "".join([character for character in parts if not unicodedata.combining(character)])


def _grams(tokens: list[str], least: int, most: int, join: Any) -> list[str]:
    grams = list(tokens) if least == 1 else []
    for size in range(max(least, 2), min(most, len(tokens)) + 1):
        grams += [join(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return grams


def _within(word: str, least: int, most: int) -> Iterable[str]:
    """Yield the n-grams of a word between spaces. A size beyond the word counts once, as the word."""
    for size in range(least, most + 1):
        yield from (word[at : at + size] for at in range(max(len(word) - size, 0) + 1))
        if size >= len(word):
            break


def _encoded(term: str) -> bytes | None:
    try:
        return term.encode()
    except UnicodeEncodeError:
        return None


def _murmur(terms: list[bytes | None], seed: int = 0) -> NDArray[np.int64]:
    """MurmurHash3 of 32 bits, signed; the seed for what is none. Terms of one length at once."""
    hashes = np.full(len(terms), seed, np.int64)
    lengths = np.array([-1 if term is None else len(term) for term in terms], np.int64)
    for length in np.unique(lengths[lengths >= 0]).tolist():
        chosen = np.flatnonzero(lengths == length)
        data = np.frombuffer(b"".join(terms[at] or b"" for at in chosen), np.uint8).reshape(len(chosen), length)
        hashes[chosen] = _of_length(data, length, seed)
    return hashes


def _of_length(data: NDArray[np.uint8], length: int, seed: int) -> NDArray[np.int64]:
    state = np.full(len(data), seed, np.uint32)
    blocks = length // 4
    words = np.ascontiguousarray(data[:, : 4 * blocks]).view("<u4")
    with np.errstate(over="ignore"):
        for block in range(blocks):
            state ^= _mixed(words[:, block])
            state = _turned(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        tail = np.zeros(len(data), np.uint32)
        for at in range(length % 4):
            tail |= data[:, 4 * blocks + at].astype(np.uint32) << np.uint32(8 * at)
        if length % 4:
            state ^= _mixed(tail)
        state ^= np.uint32(length)
        state ^= state >> np.uint32(16)
        state *= np.uint32(0x85EBCA6B)
        state ^= state >> np.uint32(13)
        state *= np.uint32(0xC2B2AE35)
        state ^= state >> np.uint32(16)
    return state.view(np.int32).astype(np.int64)


def _mixed(word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _turned(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _turned(word: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def pairs_of(row: object, separator: str, *, lists: bool) -> list[tuple[str, float]] | None:
    """Return the names of a row and their numbers. A text makes a separate name with the number 1.

    Parameters
    ----------
    row : mapping of str, or iterable of pairs
        Names with numbers or texts.
    separator : str
        Separator between a name and its text.
    lists : bool
        Whether a value may be several texts.

    Returns
    -------
    list of (str, float), or None
        ``None`` for a row that the library does not take.

    Examples
    --------
    >>> pairs_of({"city": "Oslo", "heads": 3}, "=", lists=False)
    [('city=Oslo', 1.0), ('heads', 3.0)]
    """
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        return None
    pairs: list[tuple[str, float]] = []
    for pair in row.items() if isinstance(row, Mapping) else row:
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # name and value
            return None
        name, value = pair
        texts = [value] if isinstance(value, str) else value
        if isinstance(value, Real) and isinstance(name, str):
            pairs.append((name, float(value)))
        elif isinstance(value, str) or (lists and _are_texts(value)):
            pairs += [(f"{name}{separator}{text}", 1.0) for text in texts]
        else:
            return None
    return pairs


def _are_texts(value: object) -> bool:
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return all(isinstance(text, str) for text in value)
