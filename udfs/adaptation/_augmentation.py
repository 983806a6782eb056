"""Augmented copies of training records, which follow from the seed, the record's id and the copy's number."""

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

# Number of records on which a function is tried, and copies of each. The key hashes two copies for any number of
# copies, so that a larger number keeps the existing ones.
_RECORDS = 16
_KEYED, _TRIED = 2, 4

# Digits of a folder's name after its prefix.
_DIGITS = 28


@dataclass(frozen=True)
class Augmentation:
    """Random copies of each training record, for :class:`Adaptation`.

    The copies pass the frozen layers once and are stored like records, so that all candidates share them; epoch ``e``
    trains on copy ``e % copies``. Validation records and records of a pool are not augmented.

    Parameters
    ----------
    fn : callable
        Function of a record's feature tensors by column (numpy arrays as :func:`prepare` stores them: pixels in eight
        bits, channels x height x width) and a :class:`numpy.random.Generator`. It returns all columns in the same
        shapes and types, and takes all random numbers from the generator.
    copies : int
        Number of copies, at least 1. Copies beyond the epochs of the longest configuration are not made.

    Raises
    ------
    InvalidArgumentError
        `fn` is not callable, or `copies` is not an integer of at least 1.

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
                f"fn must be a function of a record's tensors by column and a numpy Generator, got {fn!r}"
            )
        whole("copies", self.copies, 1)

    @property
    def name(self) -> str:
        """Module and name of ``fn``, or of the function of a partial."""
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
            ``fn`` raises, or returns other columns, shapes or types, or numbers that are not finite.
        """
        try:
            made = self.fn({name: np.array(tensor) for name, tensor in record.items()}, generator)
        except Exception as error:
            raise AugmentationError(f"augmentation must not raise, got {type(error).__name__}: {error}") from error
        if not hasattr(made, "keys") or set(made.keys()) != set(record):
            columns = ", ".join(map(str, made.keys())) if hasattr(made, "keys") else type(made).__name__
            raise AugmentationError(f"augmentation must return the columns {', '.join(record)}, got {columns}")
        copy = {}
        for name, tensor in record.items():
            array = np.asarray(made[name])
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise AugmentationError(
                    f"augmentation must return column {name!r} as {tensor.dtype}{list(tensor.shape)}, got "
                    f"{array.dtype}{list(array.shape)}: convert it, as with array.astype(...)"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise AugmentationError(f"augmentation must return finite numbers in column {name!r}, got others")
            copy[name] = array
        return copy

    @staticmethod
    def generator(seed: int, record_id: str, copy: int) -> np.random.Generator:
        """Return the generator of a record's copy.

        Parameters
        ----------
        seed : int
            Seed of the campaign.
        record_id : str
            Id of the record as text.
        copy : int
            Number of the copy, from 0.

        Returns
        -------
        numpy.random.Generator
            Generator with the same numbers in any process.
        """
        digest = hashlib.blake2b(f"{seed}|{copy}|{record_id}".encode(), digest_size=16).digest()
        return np.random.default_rng(int.from_bytes(digest, "little"))


@dataclass(frozen=True)
class Augmenter:
    """Augmentation of a campaign, which draws the same copies in any process; :meth:`checked` creates it.

    ``groups`` are the inputs of the data; ``key`` is a hash of the function and the seed, which distinguishes stored
    copies.
    """

    augmentation: Augmentation
    seed: int
    groups: tuple[TensorGroup, ...]
    key: str

    @classmethod
    def checked(cls, augmentation: Augmentation, data: GrowingData, seed: int) -> Augmenter:
        """Try the function on the first training records, before anything is computed.

        Raise AugmentationError, with the name of the record, if it raises, returns other columns, shapes or types, or
        returns different copies for the same generator.
        """
        augmenter = cls(augmentation, seed, data.inputs, "")
        digest = hashlib.blake2b(f"{seed}|{described(augmentation.fn)}".encode())
        for record_id, record in _first_records(data, augmenter):
            for copy in range(_TRIED):
                made, again = augmenter.copy(record_id, record, copy), augmenter.copy(record_id, record, copy)
                if copy < _KEYED:
                    for name, array in made.items():
                        digest.update(f"{name}|{array.dtype}|{array.shape}|".encode() + array.tobytes())
                if any(made[name].tobytes() != again[name].tobytes() for name in made):
                    raise _drawn_elsewhere(record_id, "returned two copies for one generator")
        return cls(augmentation, seed, data.inputs, digest.hexdigest()[:_DIGITS])

    @property
    def copies(self) -> int:
        """Number of copies of each training record."""
        return int(self.augmentation.copies)

    def within(self, epochs: int) -> Augmenter:
        """Return an augmenter with the copies that a number of epochs train on."""
        return replace(self, augmentation=replace(self.augmentation, copies=min(self.copies, epochs)))

    def copy_of(self, epoch: int) -> int:
        """Return the number of the copy that an epoch trains on."""
        return epoch % self.copies

    def rows_of(self, records: int, data: GrowingData) -> int:
        """Count the rows to store for a number of records, with copies of the share that is for training."""
        shards = [shard for increment in data.increments for shard in increment.data.shards]
        trained = sum(shard.rows for shard in shards if shard.split == "train")
        share = max(1 - data.test_fraction, trained / max(1, sum(shard.rows for shard in shards)))
        return records + (self.copies - 1) * math.ceil(records * share)

    def segments(self, data: GrowingData) -> tuple[Segment, ...]:
        """List the segments of the data, with a segment for each copy of training records."""
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
        """Return the segment of a copy of a segment's records, with another fingerprint."""
        digest = hashlib.blake2b(f"{segment.fingerprint}|{self.key}|{copy}".encode()).hexdigest()
        return segment.copied(copy, f"{COPY}{digest[:_DIGITS]}")

    def __call__(
        self, inputs: Sequence[NDArray[Any]], record_ids: Sequence[str], copy: int
    ) -> tuple[NDArray[Any], ...]:
        """Make copies of some records.

        ``inputs`` has an array of shape ``(rows, ...)`` for each group. An AugmentationError names the record.
        """
        made = tuple(np.empty(array.shape, array.dtype) for array in inputs)
        for row, record_id in enumerate(record_ids):
            copied = self.copy(record_id, self.record([array[row] for array in inputs]), copy)
            for array, group in zip(made, self.groups, strict=True):
                for (part, shape), column in zip(_parts(group), group.columns, strict=True):
                    array[row][part] = copied[column.name].reshape(shape)
        return made

    def record(self, tensors: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the tensors of a record by column; a column of several inputs comes from the first one."""
        columns: dict[str, NDArray[Any]] = {}
        for tensor, group in zip(tensors, self.groups, strict=True):
            for (part, _), column in zip(_parts(group), group.columns, strict=True):
                columns.setdefault(column.name, tensor[part].reshape(column.shape))
        return columns

    def copy(self, record_id: str, record: Mapping[str, NDArray[Any]], copy: int) -> dict[str, NDArray[Any]]:
        """Make one copy of a record; an AugmentationError names the record."""
        try:
            return self.augmentation(record, Augmentation.generator(self.seed, record_id, copy))
        except AugmentationError as error:
            raise AugmentationError(f"record {record_id}, copy {copy}: {error}") from error


def _parts(group: TensorGroup) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Yield the slice of each column in the tensor of a group, with its shape."""
    if not group.side_by_side:
        yield ..., group.columns[0].shape
        return
    start = 0
    for column in group.columns:
        yield slice(start, start + column.size), (column.size,)
        start += column.size


def _first_records(data: GrowingData, augmenter: Augmenter) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield records of the first batch, and verify that the process's random numbers are not used."""
    first = data.increments[0]
    shard = next((shard for shard in first.data.shards if shard.split == "train" and shard.rows), None)
    if shard is None:
        return
    record_ids, _ = Ledger([first], "train", shard.partition).records(0)
    rows = next(read_batches(first.data, "train", shard.partition, min(_RECORDS, shard.rows)))
    for row, record_id in enumerate(record_ids[:_RECORDS]):
        before = described(take_random())
        yield record_id, augmenter.record([array[row] for array in rows.inputs])
        if described(take_random()) != before:
            raise _drawn_elsewhere(record_id, "used the random numbers of the process")


def _drawn_elsewhere(record_id: str, what: str) -> AugmentationError:
    return AugmentationError(
        f"record {record_id}: augmentation must take all random numbers from its generator, so that copies can be made "
        f"again, got one that {what}"
    )
