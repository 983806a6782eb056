from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle
from trunks import WIDTHS, OpenedTrunk, open_trunk, passed

from cerebro_spark.adaptation import Materialised, materialise, measure_workers
from cerebro_spark.data import prepare_increment
from cerebro_spark.errors import FeatureSpaceError, InvalidArgumentError
from cerebro_spark.hopper import SparkBackend
from udfs.adaptation import FeatureReader, FeatureStore, Trunk, segments_of
from udfs.node import CACHE_VARIABLE
from udfs.shards import GrowingData, load_shard
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(__import__("sys").modules[__name__])

SIZE = 8
FEATURES = [f"x{n}" for n in range(WIDTHS[0])]
SCHEMA = ", ".join(["id string", *(f"{name} double" for name in FEATURES), "y int"])
add = partial(
    prepare_increment, name="rows", id_column="id", feature_columns=FEATURES, label_columns=["y"], num_shards=2
)


def rows(start: int, end: int, **others: Any) -> list[tuple[Any, ...]]:
    random = np.random.default_rng(7)
    numbers = random.normal(size=(200, WIDTHS[0]))
    return [(f"r{n}", *numbers[n].tolist(), others.get("y", n % 2)) for n in range(start, end)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def backend(spark: SparkSession) -> SparkBackend:
    return SparkBackend(spark, num_workers=2)


@pytest.fixture
def data(spark: SparkSession, store: Store) -> GrowingData:
    return add(spark.createDataFrame(rows(0, 60), SCHEMA), store)


@pytest.fixture
def features(store: Store) -> FeatureStore:
    return FeatureStore(store, "campaign", made_with="torch")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def wants(log: Path, *places: int, **params: Any) -> dict[str, dict[str, Any]]:
    params |= {"log": str(log)}
    keys = open_trunk(params).expressions()
    return {keys[place]: params for place in places}


def check(features: FeatureStore, data: GrowingData, place: int) -> None:
    """What is stored is what the same batches give here, and what the whole model gives within 1e-5."""
    model = open_trunk({})
    x, key = model.expressions()[0], model.expressions()[place]
    trunk = Trunk([model], [x], [key])
    assert features.missing(key, segments_of(data)) == []
    for segment in segments_of(data):
        own = load_shard(data.increments[segment.increment].data, segment.split, segment.partition).inputs[0]
        blocks = [trunk({x: own[start : start + SIZE]})[key] for start in range(0, len(own), SIZE)]
        np.testing.assert_array_equal(features.open(key, segment)[:], np.concatenate(blocks))
    reader = FeatureReader(features, data, batch_size=SIZE)
    for shard in data.shards:
        found = reader.rows(shard.split, shard.partition, [key], [model])
        raw = load_shard(data, shard.split, shard.partition).inputs[0]
        np.testing.assert_allclose(np.asarray(found.inputs[0]), trunk({x: raw})[key], atol=1e-5)
    assert reader.remade == 0


@pytest.mark.connect
def test_only_new_rows_pass_the_trunk_and_each_once(
    spark: SparkSession, backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    two = wants(log, 2, 6)
    run = partial(materialise, backend, opener=open_trunk, batch_size=SIZE)
    done = run(data, features, two)
    assert (done.rows, done.trunk_rows, passed(log)) == (60, 60, 60)
    assert done.bytes == 60 * 4 * (WIDTHS[1] + WIDTHS[3]) == features.used_bytes()
    assert done.seconds > 0
    assert (done.storage_error.absolute, done.remade) == (0, 0)
    check(features, data, 2)
    check(features, data, 6)
    # Nothing is missing: no job, and no pass.
    assert run(data, features, two) == Materialised()
    # Corrected labels and equal rows are nothing new; a record that changed is, as are ten new ones.
    changed = [("r3", *[0.5] * WIDTHS[0], 1)]
    batch = [*rows(0, 2, y=9), *rows(2, 3), *changed, *rows(60, 70)]
    grown = add(spark.createDataFrame(batch, SCHEMA), data.store, previous=data)
    done = run(grown, features, two)
    assert (done.rows, done.trunk_rows, passed(log)) == (11, 11, 71)
    check(features, grown, 6)
    # A layer between two that are stored comes from the one below it, and no row passes again.
    done = run(grown, features, two | wants(log, 4))
    assert (done.rows, done.trunk_rows, passed(log)) == (71, 0, 71)
    check(features, grown, 4)
    assert done.bytes == 71 * 4 * WIDTHS[2]
    # Useless ones go; what comes back has to pass again.
    features.retain(list(wants(log, 4)))
    assert features.used_bytes() == 71 * 4 * WIDTHS[2]
    done = run(grown, features, wants(log, 1, 4))
    assert (done.rows, done.trunk_rows, passed(log)) == (71, 71, 142)


def test_trunks_of_several_architectures_count_a_record_once(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    both = wants(log, 2, depth=1) | wants(log, 4, trunk=5)
    done = materialise(backend, data, features, both, open_trunk, batch_size=SIZE)
    assert (done.rows, done.trunk_rows) == (60, 60)
    assert passed(log) == 120


def test_bfloat16_and_its_error(backend: SparkBackend, data: GrowingData, store: Store, log: Path) -> None:
    features = FeatureStore(store, "campaign", storage_dtype="bfloat16")
    done = materialise(backend, data, features, wants(log, 2), open_trunk, batch_size=SIZE)
    assert done.bytes == 60 * 2 * WIDTHS[1]
    assert 0 < done.storage_error.relative <= 2**-8


def test_more_than_the_budget_writes_nothing(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    run = partial(materialise, backend, data, features, opener=open_trunk, batch_size=SIZE)
    exact = 60 * 4 * WIDTHS[1]
    with pytest.raises(FeatureSpaceError, match="disk_bytes must be at least"):
        run(wants(log, 2), disk_bytes=exact - 1)
    assert passed(log) == features.used_bytes() == 0
    run(wants(log, 2), disk_bytes=exact)
    # What lies there counts.
    with pytest.raises(FeatureSpaceError, match="store them as bfloat16"):
        run(wants(log, 2, 4), disk_bytes=exact + 60 * 4 * WIDTHS[2] - 1)
    assert features.used_bytes() == exact
    check(features, data, 2)


def test_a_full_disk_leaves_files_that_are_complete(
    spark: SparkSession, backend: SparkBackend, small_disk: Callable[[str], Path], log: Path
) -> None:
    """The rows fit, the layers do not: the shards' files that were complete stay, the others are not there."""
    store = Store.from_uri(str(small_disk("1536k")))
    numbers = np.random.default_rng(0).normal(size=(2000, WIDTHS[0]))
    batch = [(f"r{n}", *one, 0) for n, one in enumerate(numbers.tolist())]
    data = add(spark.createDataFrame(batch, SCHEMA), store)
    features = FeatureStore(store, "campaign")
    filling = store.path("filling")
    free = os.statvfs(store.path("prepared"))
    # Room for about half of the layer.
    Path(filling).write_bytes(b"x" * (free.f_bavail * free.f_frsize - 1000 * 4 * WIDTHS[1]))
    want = wants(log, 2)
    with pytest.raises(FeatureSpaceError, match="the disk is full"):
        materialise(backend, data, features, want, open_trunk, batch_size=SIZE)
    (key,) = want
    complete = [one for one in segments_of(data) if features.has(key, one)]
    assert len(complete) < len(segments_of(data))
    for segment in complete:
        assert len(features.open(key, segment)) == segment.rows
    files = [path for path in Path(store.path("features")).rglob("*") if path.is_file()]
    assert len(files) == 2 * len(complete)
    # With the room it needs, the rest follows.
    Path(filling).unlink()
    materialise(backend, data, features, want, open_trunk, batch_size=SIZE)
    check(features, data, 2)


class _Killed:
    """A trunk whose process is killed in the middle of a segment, the first time."""

    def __init__(self, opened: OpenedTrunk, mark: Path) -> None:
        self.graph, self._opened, self._mark, self._left = opened.graph, opened, mark, 3

    def trunk(self, have: Mapping[str, np.ndarray], want: list[str]) -> dict[str, np.ndarray]:
        self._left -= 1
        if not self._left and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._opened.trunk(have, want)


def open_killed(mark: str, params: Mapping[str, Any]) -> _Killed:
    return _Killed(open_trunk(params), Path(mark))


def test_a_worker_that_is_killed_leaves_nothing_half(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path, tmp_path: Path
) -> None:
    """On ``local[2]`` Spark does not try again, so the caller does."""
    want = wants(log, 2, 6)
    opener = partial(open_killed, str(tmp_path / "mark"))
    with pytest.raises(Exception, match=r"crashed|exited|EOF|lost"):
        materialise(backend, data, features, want, opener, batch_size=SIZE)
    for key in want:
        for segment in segments_of(data):
            if features.has(key, segment):
                assert len(features.open(key, segment)) == segment.rows
    materialise(backend, data, features, want, opener, batch_size=SIZE)
    check(features, data, 2)
    check(features, data, 6)


def test_a_layer_that_was_damaged_is_made_again_where_another_needs_it(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    below = wants(log, 2)
    materialise(backend, data, features, below, open_trunk, batch_size=SIZE)
    (key,) = below
    path = min(Path(features.store.path("features", "campaign", key)).rglob("train-00001.bin"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 64
    path.write_bytes(content)
    done = materialise(backend, data, features, below | wants(log, 6), open_trunk, batch_size=SIZE)
    (own,) = [one.rows for one in segments_of(data) if (one.split, one.partition) == ("train", 1)]
    assert (done.rows, done.trunk_rows, done.remade) == (60, own, 1)
    check(features, data, 2)
    check(features, data, 6)


def open_unseeded(params: Mapping[str, Any]) -> OpenedTrunk:
    return open_trunk({**params, "trunk": int.from_bytes(os.urandom(3))})


def test_a_trunk_that_is_drawn_at_random(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match="seed random weights"):
        materialise(backend, data, features, wants(log, 2), open_unseeded, batch_size=SIZE)
    assert features.used_bytes() == 0


def test_what_is_measured_is_what_the_planner_takes(
    backend: SparkBackend, data: GrowingData, features: FeatureStore, log: Path
) -> None:
    stops = list(wants(log, 2, 6))
    held = replace(features, bytes_per_second=1e6)
    rates = measure_workers(backend, data, held, {}, open_trunk, stops, batch_size=SIZE, seconds=0.01, nbytes=1 << 18)
    assert [one.expression for one in rates.trunk.segments] == stops
    assert 0 < rates.costs(cold=True).bytes_per_second <= 1e6
    assert rates.costs().flops_per_second == rates.trunk.flops_per_second > 0
    assert features.store.list("features") == []
    with pytest.raises(InvalidArgumentError, match="stops must have at least one expression"):
        measure_workers(backend, data, features, {}, open_trunk, [], batch_size=SIZE)
