from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from batches import Record, add_batch
from trunks import open_trunk

from udfs.adaptation import FeatureStore, PoolFeatures, PoolReader, Trunk, compute, segments_of
from udfs.adaptation._pool_features import PoolKeeper
from udfs.node import CACHE_VARIABLE
from udfs.shards import GrowingData, Ledger, load_shard
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.store import Store

SIZE = 4
RECORDS = {f"s{number}": Record(number, number % 3) for number in range(40)}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


class Pool:
    """The records of a shard, as they were in a pool before they were labelled."""

    def __init__(self, store: Store) -> None:
        self.data = add_batch(store, "data", RECORDS)
        assert isinstance(self.data, GrowingData)
        self.features = FeatureStore(store, "campaign", made_with="torch")
        self.model = open_trunk({})
        self.segment = max(segments_of(self.data), key=lambda one: one.rows)
        place = (self.segment.split, self.segment.partition)
        self.ids, self.hashes = Ledger(self.data.increments, *place).records(0)
        self.rows = load_shard(self.data.increments[0].data, *place).inputs[0]
        self.x, *_, self.key, _ = self.model.expressions()
        self.kept = PoolFeatures(self.features)

    def outputs(self, *keys: str, batch: int = 64) -> dict[str, np.ndarray]:
        """Layers of all records, in batches of another size than materialising has."""
        trunk = Trunk([self.model], [self.x], keys or (self.key,))
        parts = [trunk({self.x: self.rows[start : start + batch]}) for start in range(0, len(self.rows), batch)]
        return {key: np.concatenate([part[key] for part in parts]) for key in trunk.wants}

    def keep(self, rows: slice, *keys: str, room: int = 1 << 30) -> None:
        keeper = PoolKeeper(self.kept, self.segment.split, self.segment.partition, keys or (self.key,), room)
        outputs = {key: array[rows] for key, array in self.outputs(*keys).items()}
        ids = self.ids[rows]
        keeper.add(ids, self.hashes[rows], outputs, np.ones(len(ids), np.bool_))
        keeper.close()

    def materialised(self) -> int:
        """Compute the layer as a cycle does; return how many records passed the trunk."""
        return compute(self.features, self.data, self.segment, [self.key], [self.model], batch_size=SIZE).passed

    def check(self) -> None:
        found = self.features.open(self.key, self.segment)[:]
        np.testing.assert_allclose(found, self.outputs()[self.key], rtol=0, atol=1e-5)


@pytest.fixture
def pool(store: Store) -> Pool:
    return Pool(store)


def test_a_record_of_a_pool_needs_no_second_pass(pool: Pool) -> None:
    pool.keep(slice(0, 5))
    pool.keep(slice(5, None, 2))
    rows = len(pool.ids)
    left = len(range(6, rows, 2))
    assert pool.materialised() == left < rows
    pool.check()
    # What was stored is taken as it is.
    kept = pool.outputs()[pool.key][5::2]
    np.testing.assert_array_equal(pool.features.open(pool.key, pool.segment)[5::2], kept)
    assert pool.features.file(pool.key, pool.segment).passed == left


def test_a_record_that_changed_since_is_computed_again(pool: Pool) -> None:
    pool.hashes = pool.hashes.copy()
    pool.hashes[2] += 1
    pool.keep(slice(None))
    assert pool.materialised() == 1
    pool.check()


def test_a_deeper_layer_goes_on_from_what_the_pool_has(pool: Pool) -> None:
    _, low, *_ = pool.model.expressions()
    pool.keep(slice(1, None), low)
    done = compute(pool.features, pool.data, pool.segment, [pool.key], [pool.model], batch_size=SIZE)
    assert done.passed == 1
    whole, above = (Trunk([pool.model], have, [pool.key]).flops for have in ([pool.x], [low]))
    assert 0 < above < whole
    assert done.flops == whole + (len(pool.ids) - 1) * above
    pool.check()


def test_a_layer_that_saves_nothing_is_not_read(pool: Pool) -> None:
    """The wanted one is below it."""
    pool.keep(slice(None))
    _, low, *_ = pool.model.expressions()
    done = compute(pool.features, pool.data, pool.segment, [low], [pool.model], batch_size=SIZE)
    assert done.passed == pool.segment.rows


@pytest.mark.parametrize("kind", ["bin", "json", "parquet"])
def test_a_flipped_byte_is_found_and_the_records_are_computed_anew(
    pool: Pool, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    pool.keep(slice(None))
    (path,) = (
        Path(pool.features.store.path()).rglob(f"pool*/*.{kind}")
        if kind != "parquet"
        else Path(pool.features.store.path("pools")).rglob("*.parquet")
    )
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert pool.materialised() == len(pool.ids)
    assert "computed again" in "\n".join(caplog.messages)
    pool.check()
    assert not list(pool.kept.chunks(pool.segment.split, pool.segment.partition))


def test_a_pool_keeps_to_its_room(pool: Pool) -> None:
    row = pool.features.row_bytes(pool.outputs()[pool.key].shape[1:], "float32")
    pool.keep(slice(None), room=3 * row + 1)
    assert pool.features.used_bytes() == 3 * row
    assert pool.materialised() == len(pool.ids) - 3
    pool.check()


def test_a_full_disk_keeps_nothing(
    pool: Pool, small_disk: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    disk = small_disk("4k")
    (disk / "ballast").write_bytes(bytes(4096))
    Path(pool.features.store.path("features")).symlink_to(disk)
    pool.keep(slice(None))
    assert "not stored" in "\n".join(caplog.messages)
    assert pool.kept.is_empty
    assert [path.name for path in disk.rglob("*") if path.is_file()] == ["ballast"]


def test_what_a_pool_has_goes_without_a_trace(pool: Pool) -> None:
    pool.keep(slice(None))
    pool.materialised()
    own = pool.features.file(pool.key, pool.segment).nbytes
    assert pool.features.used_bytes() == 2 * own
    pool.kept.prune()
    assert len(list(pool.kept.chunks(pool.segment.split, pool.segment.partition))) == 1
    pool.kept.drop()
    assert pool.features.used_bytes() == own
    assert pool.kept.is_empty
    pool.keep(slice(None))
    pool.features.retain([])
    pool.kept.prune()
    assert not list(Path(pool.features.store.path("pools")).rglob("*.parquet"))


def test_layers_of_a_task_that_was_killed_before_its_ledger_go(pool: Pool) -> None:
    pool.keep(slice(0, 3))
    kept = pool.features.used_bytes()
    before = set(Path(pool.features.store.path("pools")).rglob("*.parquet"))
    pool.keep(slice(3, None))
    (ledger,) = set(Path(pool.features.store.path("pools")).rglob("*.parquet")) - before
    ledger.unlink()
    pool.materialised()
    own = pool.features.file(pool.key, pool.segment).nbytes
    assert pool.features.used_bytes() > kept + own
    pool.kept.prune()
    assert pool.features.used_bytes() == kept + own
    assert [len(chunk.ids) for chunk in pool.kept.chunks(pool.segment.split, pool.segment.partition)] == [3]


def test_a_ledger_that_cannot_be_read_is_left(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store's fault is no damage of the file."""
    pool.keep(slice(None))

    def read(_self: Store, *parts: str) -> bytes:
        raise StoreError(f"{parts[-1]} is out of reach")

    with monkeypatch.context() as broken:
        broken.setattr(type(pool.features.store), "read", read)
        assert not list(pool.kept.chunks(pool.segment.split, pool.segment.partition))
    assert "out of reach" in "\n".join(caplog.messages)
    assert pool.materialised() == 0


def test_a_plain_batch_has_plain_bits(pool: Pool) -> None:
    """Where a pool has none of the records, they pass in the batches that they would have without it."""
    pool.keep(slice(0, 3))
    reader = PoolReader(pool.kept, pool.segment.split, pool.segment.partition, [pool.model], [pool.x], [pool.key])
    rows = slice(4, 4 + SIZE)
    found, fresh = reader(pool.ids[rows], pool.hashes[rows], {pool.x: pool.rows[rows]})
    assert fresh.all()
    plain = Trunk([pool.model], [pool.x], [pool.key])({pool.x: pool.rows[rows]})
    np.testing.assert_array_equal(found[pool.key], plain[pool.key])


def test_other_versions_are_not_taken(pool: Pool) -> None:
    pool.keep(slice(None))
    other = FeatureStore(pool.features.store, "campaign", made_with="another torch")
    assert compute(other, pool.data, pool.segment, [pool.key], [pool.model], batch_size=SIZE).passed == len(pool.ids)


def test_what_is_fresh_is_rounded_as_what_was_stored(pool: Pool) -> None:
    """A pool that is ranked twice has the same order."""
    pool.features = FeatureStore(pool.features.store, "rounded", "bfloat16")
    pool.kept = PoolFeatures(pool.features)
    pool.keep(slice(None))
    exact = pool.outputs()[pool.key]
    (chunk,) = pool.kept.chunks(pool.segment.split, pool.segment.partition)
    assert not np.array_equal(pool.features.as_stored(exact), exact)
    np.testing.assert_array_equal(pool.features.as_stored(exact), pool.features.open(pool.key, chunk.segment)[:])
