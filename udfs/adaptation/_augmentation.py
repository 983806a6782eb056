"""Augmentation: copies of the training records, each drawn by the seed, the record's id and the copy's number."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from udfs.adaptation._errors import AugmentationError
from udfs.adaptation._identity import described
from udfs.adaptation._segment import COPY, segments_of
from udfs.handlers import take_random
from udfs.shards import Ledger, read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._segment import Segment
    from udfs.shards import GrowingData, TensorGroup

__all__ = ["Augmentation", "Augmenter"]

# Records on which a function is tried, and copies of each. The key of what it makes hashes two copies of them, whatever
# the number of copies: more copies leave those that there are.
_RECORDS = 16
_KEYED, _TRIED = 2, 4

# Of a folder's name, beside the prefix.
_DIGITS = 28


@dataclass(frozen=True)
class Augmentation:
    """A few copies of each training record, each changed at random: for :class:`Adaptation`.

    The copies pass the frozen layers once and are kept like the records themselves, so that all candidates share them;
    epoch ``e`` trains on copy ``e % copies``. Validation records, and those of a pool, stay as they are.

    Parameters
    ----------
    fn : callable
        Takes a record's feature tensors by column (numpy arrays of its own, as :func:`prepare` stores them: pixels in
        eight bits, channels x height x width) and a :class:`numpy.random.Generator`. Returns all columns, of the same
        shapes and types. All that is random comes from the generator.
    copies : int
        At least 1. Those beyond the epochs of the longest configuration are not made.

    Raises
    ------
    InvalidArgumentError
        `fn` cannot be called, or `copies` is no whole number from 1 on.

    Examples
    --------
    >>> def mirrored(record, generator):
    ...     flip = generator.random() < 0.5
    ...     return {"image": record["image"][..., ::-1] if flip else record["image"]}
    >>> augmentation = Augmentation(mirrored, copies=4)
    >>> image = np.array([[[1, 2, 3]]], np.uint8)
    >>> [
    ...     augmentation({"image": image}, Augmentation.generator(seed=0, record_id="17", copy=copy))["image"].tolist()
    ...     for copy in range(2)
    ... ]
    [[[[1, 2, 3]]], [[[3, 2, 1]]]]
    """

    fn: Callable[[dict[str, NDArray[Any]], np.random.Generator], Mapping[str, Any]]
    copies: int

    def __post_init__(self) -> None:
        fn: Any = self.fn
        if not callable(fn):
            raise InvalidArgumentError(
                f"Augmentation(fn={fn!r}): a function of a record's tensors by column and a numpy Generator"
            )
        whole("Augmentation: copies", self.copies, 1)

    @property
    def name(self) -> str:
        """Module and name of ``fn``; of a partial of it, its function's."""
        fn: Any = self.fn
        while isinstance(fn, partial):
            fn = fn.func
        named = fn if hasattr(fn, "__qualname__") else type(fn)
        return f"{named.__module__}.{named.__qualname__}"

    def __call__(self, record: Mapping[str, NDArray[Any]], generator: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Make a copy of one record.

        Raises
        ------
        AugmentationError
            ``fn`` raises, or gives other columns, shapes or types, or numbers that are not finite.
        """
        try:
            made = self.fn({name: np.array(tensor) for name, tensor in record.items()}, generator)
        except Exception as error:
            raise AugmentationError(f"augmentation raises {type(error).__name__}: {error}") from error
        if not hasattr(made, "keys") or set(made.keys()) != set(record):
            given = ", ".join(map(str, made.keys())) if hasattr(made, "keys") else type(made).__name__
            raise AugmentationError(f"augmentation gives {given} for the columns {', '.join(record)}: return them all")
        copy = {}
        for name, tensor in record.items():
            array = np.asarray(made[name])
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise AugmentationError(
                    f"augmentation gives column {name!r} as {array.dtype}{list(array.shape)}, and it is "
                    f"{tensor.dtype}{list(tensor.shape)}: return the same shape and type (array.astype(...))"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise AugmentationError(f"augmentation gives column {name!r} a number that is not finite")
            copy[name] = array
        return copy

    @staticmethod
    def generator(seed: int, record_id: str, copy: int) -> np.random.Generator:
        """Give the generator that a record's copy is drawn with.

        Parameters
        ----------
        seed : int
            Of the campaign.
        record_id : str
            The id as text.
        copy : int
            From 0.
        """
        digest = hashlib.blake2b(f"{seed}|{copy}|{record_id}".encode(), digest_size=16).digest()
        return np.random.default_rng(int.from_bytes(digest, "little"))


@dataclass(frozen=True)
class Augmenter:
    """The augmentation of a campaign: what draws the copies of its records, in any process. Made by :meth:`checked`.

    Parameters
    ----------
    augmentation : Augmentation
    seed : int
        Of the campaign.
    groups : tuple of TensorGroup
        Inputs of the data, of whose columns records are made.
    key : str
        Hash of all that decides a copy but its record: copies of another function or seed are never taken for these.
    """

    augmentation: Augmentation
    seed: int
    groups: tuple[TensorGroup, ...]
    key: str

    @classmethod
    def checked(cls, augmentation: Augmentation, data: GrowingData, seed: int) -> Augmenter:
        """Try the function on the first training records, before anything is computed.

        Raises
        ------
        AugmentationError
            It raises, gives other columns, shapes or types, or gives a record two copies for one generator. The message
            names the record.
        ShardError, StoreError
            The records cannot be read.
        """
        own = cls(augmentation, seed, data.inputs, "")
        told = hashlib.blake2b(f"{seed}|{described(augmentation.fn)}".encode())
        for record_id, record in _first_records(data, own):
            for copy in range(_TRIED):
                made, again = own.copy(record_id, record, copy), own.copy(record_id, record, copy)
                if copy < _KEYED:
                    for name, array in made.items():
                        told.update(f"{name}|{array.dtype}|{array.shape}|".encode() + array.tobytes())
                if any(made[name].tobytes() != again[name].tobytes() for name in made):
                    raise _drawn_elsewhere(record_id, "gives two copies for one generator")
        return cls(augmentation, seed, data.inputs, told.hexdigest()[:_DIGITS])

    @property
    def copies(self) -> int:
        """Copies of each training record."""
        return int(self.augmentation.copies)

    def within(self, epochs: int) -> Augmenter:
        """Give one that draws only the copies that so many epochs train on, which are the same ones."""
        return replace(self, augmentation=replace(self.augmentation, copies=min(self.copies, epochs)))

    def copy_of(self, epoch: int) -> int:
        """Number the copy that an epoch trains on."""
        return epoch % self.copies

    def rows_of(self, records: int, data: GrowingData) -> int:
        """Count the rows to store of so many records, of which as many are held out as of the data: those have none."""
        shards = [shard for increment in data.increments for shard in increment.data.shards]
        trained = sum(shard.rows for shard in shards if shard.split == "train")
        share = max(1 - data.test_fraction, trained / max(1, sum(shard.rows for shard in shards)))
        return records + (self.copies - 1) * math.ceil(records * share)

    def segments(self, data: GrowingData) -> tuple[Segment, ...]:
        """List the segments of the data, those for training once for each copy."""
        return tuple(
            copy
            for segment in segments_of(data)
            for copy in (
                (self.segment(segment, number) for number in range(self.copies))
                if segment.split == "train"
                else (segment,)
            )
        )

    def segment(self, segment: Segment, copy: int) -> Segment:
        """Give the segment of a copy of a segment's records, under a fingerprint of its own."""
        told = hashlib.blake2b(f"{segment.fingerprint}|{self.key}|{copy}".encode()).hexdigest()
        return segment.copied(copy, f"{COPY}{told[:_DIGITS]}")

    def __call__(
        self, inputs: Sequence[NDArray[Any]], record_ids: Sequence[str], copy: int
    ) -> tuple[NDArray[Any], ...]:
        """Make copies of some records.

        Parameters
        ----------
        inputs : sequence of array, each of shape (rows, ...)
            One for each of the groups.
        record_ids : sequence of str
        copy : int

        Raises
        ------
        AugmentationError
            The message names the record.
        """
        made = tuple(np.empty(array.shape, array.dtype) for array in inputs)
        for row, record_id in enumerate(record_ids):
            copied = self.copy(record_id, self.record([array[row] for array in inputs]), copy)
            for array, group in zip(made, self.groups, strict=True):
                for (part, shape), column in zip(_parts(group), group.columns, strict=True):
                    array[row][part] = copied[column.name].reshape(shape)
        return made

    def record(self, tensors: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Give the tensors of one record by column; a column of several inputs is that of the first."""
        columns: dict[str, NDArray[Any]] = {}
        for tensor, group in zip(tensors, self.groups, strict=True):
            for (part, _), column in zip(_parts(group), group.columns, strict=True):
                columns.setdefault(column.name, tensor[part].reshape(column.shape))
        return columns

    def copy(self, record_id: str, record: Mapping[str, NDArray[Any]], copy: int) -> dict[str, NDArray[Any]]:
        """Make one copy of a record.

        Raises
        ------
        AugmentationError
            The message names the record.
        """
        try:
            return self.augmentation(record, Augmentation.generator(self.seed, record_id, copy))
        except AugmentationError as error:
            raise AugmentationError(f"record {record_id}, copy {copy}: {error}") from error


def _parts(group: TensorGroup) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Yield where each column of a group lies in its tensor, and the shape there."""
    if not group.side_by_side:
        yield ..., group.columns[0].shape
        return
    start = 0
    for column in group.columns:
        yield slice(start, start + column.size), (column.size,)
        start += column.size


def _first_records(data: GrowingData, own: Augmenter) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield records of the first batch, which no later one changes, while nothing draws from the process's numbers."""
    first = data.increments[0]
    shard = next((one for one in first.data.shards if one.split == "train" and one.rows), None)
    if shard is None:
        return
    record_ids, _ = Ledger([first], "train", shard.partition).records(0)
    rows = next(read_batches(first.data, "train", shard.partition, min(_RECORDS, shard.rows)))
    for row, record_id in enumerate(record_ids[:_RECORDS]):
        before = described(take_random())
        yield record_id, own.record([array[row] for array in rows.inputs])
        if described(take_random()) != before:
            raise _drawn_elsewhere(record_id, "draws from the random numbers of the process")


def _drawn_elsewhere(record_id: str, what: str) -> AugmentationError:
    return AugmentationError(
        f"record {record_id}: augmentation {what}, so that no copy could be made again: draw all that is random from "
        "the generator that it is given"
    )
