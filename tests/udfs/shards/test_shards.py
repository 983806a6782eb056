from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photographs import crops, encode

from optimizer.errors import InvalidArgumentError
from udfs.node import CACHE_VARIABLE, NodeCacheError
from udfs.shards import (
    FOLDER,
    PreparedData,
    Shard,
    ShardError,
    ShardWriter,
    TensorColumn,
    TensorGroup,
    check_shard,
    load_rows,
    load_shard,
    shard_path,
)
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 70
PARTITIONS = 2
SIZES = (40, 29, 1)
SIDE = 8
AGE, CODES = TensorColumn("age", "float32"), TensorColumn("codes", "float32", (3,))
WINDOW, TOKENS = TensorColumn("window", "float32", (2, 5)), TensorColumn("tokens", "int64", (4,))
PHOTO = TensorColumn("photo", "uint8", (3, SIDE, SIDE))
CLASS, SIZE = TensorColumn("class", "int64"), TensorColumn("size", "float32")
COLUMNS = (AGE, CODES, WINDOW, TOKENS, PHOTO, CLASS, SIZE)
INPUTS = (
    TensorGroup("features", (AGE, CODES), joined=True),
    TensorGroup("window", (WINDOW,)),
    TensorGroup("tokens", (TOKENS,)),
    TensorGroup("photo", (PHOTO,)),
)
LABELS = (TensorGroup("class", (CLASS,)), TensorGroup("size", (SIZE,)))
ROW_BYTES = 4 * 4 + 10 * 4 + 4 * 8 + 3 * SIDE * SIDE + 8 + 4


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    return [encode(image, "PNG") for *_, image in crops(ROWS, SIDE)]


@pytest.fixture(scope="module")
def truth() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "age": random.normal(size=ROWS).astype(np.float32),
        "codes": random.normal(size=(ROWS, 3)).astype(np.float32),
        "window": random.normal(size=(ROWS, 2, 5)).astype(np.float32),
        "tokens": random.integers(0, 2**40, (ROWS, 4)),
        "photo": np.stack([np.asarray(image).transpose(2, 0, 1) for *_, image in crops(ROWS, SIDE)]),
        "class": random.integers(0, 9, ROWS),
        "size": random.normal(size=ROWS).astype(np.float32),
    }


def batches(
    truth: dict[str, np.ndarray], photos: list[Any], length: int = 13, sizes: tuple[int, ...] = SIZES
) -> Iterator[pa.RecordBatch]:
    """As Spark gives them, sorted by shard: those of training, then those of validation."""
    shard = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    for start in range(0, ROWS, length):
        part = slice(start, start + length)
        arrays = [pa.array(shard[part])]
        for column in COLUMNS:
            if column.name == "photo":
                arrays.append(pa.array(photos[part], pa.binary()))
            elif column.shape:
                flat = truth[column.name][part].reshape(-1, column.size)
                arrays.append(pa.array(flat.tolist(), pa.list_(pa.from_numpy_dtype(column.dtype))))
            else:
                arrays.append(pa.array(truth[column.name][part]))
        yield pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))])


def write(store: Store, source: Iterator[pa.RecordBatch]) -> tuple[PreparedData, list[dict[str, Any]]]:
    writer = pickle.loads(pickle.dumps(ShardWriter(store, "data", COLUMNS, ("photo",), PARTITIONS)))
    reports = [row for batch in writer(source) for row in batch.to_pylist()]
    shards = tuple(
        Shard(one["split"], one["partition"], shard_path(one["split"], one["partition"]), one["rows"], 0, one["digest"])
        for one in reports
    )
    shards = tuple(replace(shard, nbytes=shard.rows * ROW_BYTES) for shard in shards)
    return PreparedData(store, "data", INPUTS, LABELS, shards, 0, 0.1, "f00d", {"null in 'age'": 3}), reports


@pytest.fixture
def prepared(tmp_path: Path, truth: dict[str, np.ndarray], photos: list[bytes]) -> PreparedData:
    return write(Store.from_uri(str(tmp_path / "store")), batches(truth, photos))[0]


def expected(truth: dict[str, np.ndarray], part: slice) -> list[np.ndarray]:
    features = np.concatenate([truth["age"][part, None], truth["codes"][part]], 1)
    return [features, *(truth[name][part] for name in ("window", "tokens", "photo", "class", "size"))]


@pytest.mark.parametrize("length", [1, 13, ROWS])
@pytest.mark.parametrize("memory", [None, 1])
def test_what_is_written_is_loaded(
    tmp_path: Path, truth: dict[str, np.ndarray], photos: list[bytes], length: int, memory: int | None
) -> None:
    prepared, reports = write(Store.from_uri(str(tmp_path / "store")), batches(truth, photos, length))
    assert [(one["split"], one["partition"], one["rows"], one["bad"]) for one in reports] == [
        ("train", 0, 40, "{}"),
        ("train", 1, 29, "{}"),
        ("validation", 0, 1, "{}"),
    ]
    places = {("train", 0): slice(40), ("train", 1): slice(40, 69), ("validation", 0): slice(69, 70)}
    for (split, partition), part in places.items():
        tensors = load_shard(prepared, split, partition, memory_bytes=memory)
        assert tensors.rows == part.stop - (part.start or 0)
        for found, wanted, group in zip(
            (*tensors.inputs, *tensors.labels), expected(truth, part), prepared.groups, strict=True
        ):
            assert (found.dtype, found.shape) == (np.dtype(group.dtype), (tensors.rows, *group.shape))
            np.testing.assert_array_equal(found, wanted)
            assert isinstance(found, np.memmap) is (memory is not None)
            assert found.flags.writeable is (memory is None)


def test_several_row_groups_and_chunks(
    prepared: PreparedData, truth: dict[str, np.ndarray], photos: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("udfs.shards._writing._GROUP_BYTES", 7 * ROW_BYTES)
    monkeypatch.setattr("udfs.shards._writing._DECODED", 3)
    prepared, _ = write(prepared.store, batches(truth, photos))
    with prepared.store.open_input(*prepared.path(prepared.shards[0])) as file:
        metadata = pq.ParquetFile(file).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [7] * 5 + [5]
    for memory in (None, 0):
        tensors = load_shard(prepared, "train", 0, memory_bytes=memory)
        for found, wanted in zip((*tensors.inputs, *tensors.labels), expected(truth, slice(40)), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_the_files_are_plain_parquet(prepared: PreparedData, truth: dict[str, np.ndarray]) -> None:
    table = pq.read_table(prepared.store.path(*prepared.path(prepared.shards[0])))
    assert table.column_names == [column.name for column in COLUMNS]
    assert table.schema.field("age").type == pa.float32()
    assert table.schema.field("window").type.value_type == pa.float32()
    assert table.schema.field("photo").type.value_type == pa.uint8()
    assert table["window"].to_pylist()[3] == truth["window"][3].ravel().tolist()
    shapes = json.loads(table.schema.metadata[b"cerebro_spark.shapes"])
    assert {name: tuple(shape) for name, shape in shapes.items()} == {one.name: one.shape for one in COLUMNS}


def test_a_task_that_runs_again_writes_the_same(
    prepared: PreparedData, truth: dict[str, np.ndarray], photos: list[bytes]
) -> None:
    path = prepared.path(prepared.shards[0])
    before = prepared.store.read(*path)
    write(prepared.store, batches(truth, photos))
    assert prepared.store.read(*path) == before
    assert prepared.store.list(FOLDER, "data", "train") == ["shard-00000.parquet", "shard-00001.parquet"]


def test_a_task_that_fails_leaves_no_file(tmp_path: Path, truth: dict[str, np.ndarray], photos: list[bytes]) -> None:
    store = Store.from_uri(str(tmp_path / "store"))

    def killed() -> Iterator[pa.RecordBatch]:
        source = batches(truth, photos)
        yield next(source)
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        write(store, killed())
    assert list((tmp_path / "store").rglob("*.parquet")) == []


def test_bad_images_are_left_out_and_counted(tmp_path: Path, truth: dict[str, np.ndarray], photos: list[bytes]) -> None:
    photos = list(photos)
    photos[1], photos[3], photos[41] = photos[1][:-30], b"", photos[41][:-30]
    prepared, reports = write(Store.from_uri(str(tmp_path / "store")), batches(truth, photos))
    assert [one["rows"] for one in reports] == [38, 28, 1]
    assert json.loads(reports[0]["bad"]) == {
        "image in 'photo': truncated or corrupt PNG file": 1,
        "image in 'photo': empty file": 1,
    }
    kept = np.delete(np.arange(40), [1, 3])
    tensors = load_shard(prepared, "train", 0)
    for found, wanted in zip((*tensors.inputs, *tensors.labels), expected(truth, kept), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_tensors_of_other_lengths_than_were_counted(
    prepared: PreparedData, truth: dict[str, np.ndarray], photos: list[bytes]
) -> None:
    batch = next(batches(truth, photos))
    short = pa.array(truth["window"][:13, :, :4].reshape(13, -1).tolist(), pa.list_(pa.float32()))
    arrays = [short if place == 1 + COLUMNS.index(WINDOW) else column for place, column in enumerate(batch.columns)]
    source = [pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)]
    with pytest.raises(ShardError, match=r"'window': 104 numbers in 13 rows.*cache it"):
        list(ShardWriter(prepared.store, "data", COLUMNS, ("photo",), PARTITIONS)(source))


def test_a_worker_that_comes_back_finds_its_shard(prepared: PreparedData, tmp_path: Path) -> None:
    first = load_shard(prepared, "train", 1, memory_bytes=0)
    files = sorted((tmp_path / "cache" / "shards").glob("*.npy"))
    assert len(files) == len(prepared.groups)
    prepared.store.delete(FOLDER)
    again = load_shard(prepared, "train", 1, memory_bytes=0)
    np.testing.assert_array_equal(again.inputs[0], first.inputs[0])
    # Another preparation, split or partition has files of its own.
    for other, split, partition in (
        (replace(prepared, fingerprint="beef"), "train", 1),
        (prepared, "train", 0),
        (prepared, "validation", 0),
    ):
        with pytest.raises(OSError, match="nothing is there"):
            load_shard(other, split, partition, memory_bytes=0)


def test_shards_of_one_size_are_not_mixed_up(tmp_path: Path, truth: dict[str, np.ndarray], photos: list[bytes]) -> None:
    prepared, _ = write(Store.from_uri(str(tmp_path / "store")), batches(truth, photos, sizes=(20, 20, 20, 10)))
    for split, partition, start in (("train", 0, 0), ("train", 1, 20), ("validation", 0, 40)):
        tensors = load_shard(prepared, split, partition, memory_bytes=0)
        np.testing.assert_array_equal(tensors.labels[0], truth["class"][start : start + 20])


def test_a_damaged_cache_is_written_again(prepared: PreparedData, truth: dict[str, np.ndarray], tmp_path: Path) -> None:
    load_shard(prepared, "train", 1, memory_bytes=0)
    first, second, *_ = sorted((tmp_path / "cache" / "shards").iterdir())
    first.write_bytes(first.read_bytes()[:-9])
    second.unlink()
    tensors = load_shard(prepared, "train", 1, memory_bytes=0)
    for found, wanted in zip((*tensors.inputs, *tensors.labels), expected(truth, slice(40, 69)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_memory_that_is_enough_is_used(prepared: PreparedData, tmp_path: Path) -> None:
    load_shard(prepared, "train", 1, memory_bytes=29 * ROW_BYTES)
    assert not (tmp_path / "cache").exists()
    load_shard(prepared, "train", 1, memory_bytes=29 * ROW_BYTES - 1)
    assert (tmp_path / "cache").exists()


def test_a_full_cache_disk_names_another(
    prepared: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("udfs.shards._loading._Blocks.__call__", full)
    with pytest.raises(NodeCacheError, match=f"No space left.*{CACHE_VARIABLE}"):
        load_shard(prepared, "train", 1, memory_bytes=0)
    assert list((tmp_path / "cache" / "shards").iterdir()) == []


@pytest.mark.parametrize("group_rows", [1, 3, 100])
def test_the_first_rows(
    prepared: PreparedData,
    truth: dict[str, np.ndarray],
    photos: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    group_rows: int,
) -> None:
    monkeypatch.setattr("udfs.shards._writing._GROUP_BYTES", group_rows * ROW_BYTES)
    prepared, _ = write(prepared.store, batches(truth, photos))
    for asked, given in ((4, 4), (40, 40), (99, 40)):
        tensors = load_rows(prepared, "train", asked)
        assert tensors.rows == given
        for found, wanted in zip((*tensors.inputs, *tensors.labels), expected(truth, slice(given)), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert load_rows(prepared, "validation", 4).rows == 1


def test_validation_without_rows(prepared: PreparedData) -> None:
    tensors = load_shard(prepared, "validation", 1, memory_bytes=-1)
    assert tensors.rows == 0
    assert [array.shape for array in tensors.inputs] == [(0, 4), (0, 2, 5), (0, 4), (0, 3, SIDE, SIDE)]


@pytest.mark.parametrize(
    ("split", "partition", "message"),
    [("train", 2, "no partition 2; partitions: 0 to 1"), ("valid", 0, "did you mean 'validation'")],
)
def test_no_such_shard(prepared: PreparedData, split: str, partition: int, message: str) -> None:
    with pytest.raises(ShardError, match=message):
        load_shard(prepared, split, partition)


def test_a_flipped_bit_is_never_silently_another_row(prepared: PreparedData) -> None:
    """In a page, in its header or in the footer; where nothing depends on a bit, the rows are the right ones."""
    shard = prepared.shards[0]
    local = Path(prepared.store.path(*prepared.path(shard)))
    intact = local.read_bytes()
    right = load_shard(prepared, "train", 0)
    refused = 0
    for place in range(0, len(intact), max(1, len(intact) // 300)):
        local.write_bytes(intact[:place] + bytes([intact[place] ^ 0x10]) + intact[place + 1 :])
        try:
            rows = load_shard(prepared, "train", 0)
        except ShardError:
            refused += 1
            continue
        for expected_rows, got in zip((*right.inputs, *right.labels), (*rows.inputs, *rows.labels), strict=True):
            np.testing.assert_array_equal(expected_rows, got)
    assert refused > 200
    local.write_bytes(intact[:2000] + bytes(8) + intact[2008:])
    with pytest.raises(ShardError, match=r"shard-00000.parquet is damaged .*: prepare the same rows.*fit\(df\)"):
        check_shard(prepared, "train", 0)
    local.write_bytes(intact)
    check_shard(prepared, "train", 0)


def test_a_damaged_file_of_the_nodes_cache_is_written_again(
    prepared: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    right = load_shard(prepared, "train", 0, memory_bytes=0)
    expected_rows = [np.array(array) for array in (*right.inputs, *right.labels)]
    for path in (tmp_path / "cache").rglob("*.npy"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.unlink()
        path.write_bytes(data)
    again = load_shard(prepared, "train", 0, memory_bytes=0)
    for before, after in zip(expected_rows, (*again.inputs, *again.labels), strict=True):
        np.testing.assert_array_equal(before, after)


def test_another_file_than_was_prepared(prepared: PreparedData) -> None:
    path = prepared.path(prepared.shards[0])
    local = prepared.store.path(*path)
    table = pq.read_table(local)
    pq.write_table(table.slice(1), local)
    with pytest.raises(ShardError, match=r"shard-00000.parquet is damaged \(it has 39 rows, not 40\): prepare"):
        load_shard(prepared, "train", 0)
    pq.write_table(table.drop(["age"]), local)
    with pytest.raises(ShardError, match="it has no column 'age'"):
        load_shard(prepared, "train", 0)
    shorter = pa.array([row[:-1] for row in table["window"].to_pylist()], pa.list_(pa.float32()))
    pq.write_table(table.set_column(2, "window", shorter), local)
    with pytest.raises(ShardError, match=r"'window': 360 numbers for 40 rows of shape \(2, 5\)"):
        load_shard(prepared, "train", 0)
    prepared.store.write(b"PAR1 but not really", *path)
    with pytest.raises(ShardError, match=r"is damaged \(ArrowInvalid"):
        load_shard(prepared, "train", 0)


def test_the_description_travels(prepared: PreparedData, tmp_path: Path) -> None:
    prepared.save()
    assert PreparedData.load(prepared.store, "data") == prepared == pickle.loads(pickle.dumps(prepared))
    assert PreparedData.from_dict(json.loads(json.dumps(prepared.to_dict()))) == prepared
    moved = (tmp_path / "store").rename(tmp_path / "moved")
    loaded = PreparedData.load(Store.from_uri(str(moved)), "data")
    assert load_shard(loaded, "train", 0).rows == 40
    assert (loaded.partitions, loaded.rows("train"), loaded.rows("validation")) == ((0, 1), 69, 1)


def test_a_folder_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """The keys on disk stay, whatever the fields are called: a store may be years older than the program."""
    column = {"name": "age", "dtype": "float32", "shape": []}
    group = {"name": "age", "columns": [column], "joined": False}
    shards = [{"split": "train", "partition": 0, "path": "train/shard-00000.parquet", "rows": 2, "nbytes": 8}]
    facts = {"version": 1, "store": "/elsewhere", "name": "old", "inputs": [group], "labels": [group], "shards": shards}
    facts |= {"seed": 7, "validation": 0.25, "fingerprint": "f00", "dropped": {}}
    store = Store.from_uri(str(tmp_path))
    store.write(json.dumps(facts).encode(), FOLDER, "old", "_prepared.json")
    prepared = PreparedData.load(store, "old")
    assert (prepared.test_fraction, prepared.seed, prepared.partitions) == (0.25, 7, (0,))
    assert json.loads(json.dumps(prepared.to_dict())) == facts | {"store": store.uri}


def test_nothing_prepared_and_a_damaged_description(prepared: PreparedData) -> None:
    with pytest.raises(ShardError, match=r"name must be of prepared data .*got 'data'"):
        PreparedData.load(prepared.store, "data")
    prepared.save()
    with pytest.raises(ShardError, match=r"one of data, got 'dada'; did you mean 'data'"):
        PreparedData.load(prepared.store, "dada")
    path = (FOLDER, "data", "_prepared.json")
    found = json.loads(prepared.store.read(*path))["content"]  # as the first releases wrote it, without a digest
    for damage, message in (
        (b"{", "is damaged .it is not JSON"),
        (json.dumps(found | {"version": 99}).encode(), "must be of version 1, 2 or 4, got 99"),
        (json.dumps({key: value for key, value in found.items() if key != "seed"}).encode(), "damaged.*seed"),
        (json.dumps(found | {"label_samples": [1]}).encode(), "damaged.*label_samples is a list"),
    ):
        prepared.store.write(damage, *path)
        with pytest.raises(ShardError, match=message):
            PreparedData.load(prepared.store, "data")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("fingerprint", "../../../tmp/x", "the name of a fingerprint of rows has letters"),
        ("fingerprint", 7, "fingerprint is a int"),
        ("inputs", [{"name": "x", "columns": [{"name": "x", "dtype": "O", "shape": []}], "joined": False}], "type 'O'"),
        ("path", "../../../../etc/passwd", "is said to be in '../../../../etc/passwd'"),
        ("path", "/etc/passwd", "is said to be in '/etc/passwd'"),
        ("split", "../train", "split must be one of"),
        ("partition", "0", "partition is a str"),
        ("rows", -1, "a shard has"),
    ],
)
def test_a_description_does_not_lead_out_of_its_folders(
    prepared: PreparedData, field: str, value: object, message: str
) -> None:
    """Written by hand, without a digest: the fingerprint names files of the node's cache, the path one of the store."""
    description = prepared.to_dict()
    (description if field in description else description["shards"][0])[field] = value
    prepared.store.write(json.dumps(description).encode(), FOLDER, "data", "_prepared.json")
    with pytest.raises((ShardError, InvalidArgumentError), match=message):
        PreparedData.load(prepared.store, "data")


def test_a_damaged_description_is_not_used(prepared: PreparedData) -> None:
    prepared.save()
    path = (FOLDER, "data", "_prepared.json")
    prepared.store.write(prepared.store.read(*path).replace(b'"seed": 0', b'"seed": 1'), *path)
    with pytest.raises(ShardError, match=r"_prepared.json is damaged \(its content is not .*\): prepare it again"):
        PreparedData.load(prepared.store, "data")


def test_a_shard_that_is_gone_or_empty(prepared: PreparedData) -> None:
    prepared.check()
    first, *others = prepared.shards
    for shards, message in (
        ((replace(first, rows=0), *others), r"shards without rows \(train/shard-00000.parquet\).*lower num_shards"),
        (tuple(shard for shard in prepared.shards if shard.split == "validation"), "none to train on"),
    ):
        with pytest.raises(ShardError, match=message):
            replace(prepared, shards=shards).check()
    prepared.store.delete(*prepared.path(others[0]))
    with pytest.raises(ShardError, match=f"gone from .*: {others[0].path}; prepare it again"):
        prepared.check()


def test_it_explains_itself(prepared: PreparedData) -> None:
    told = prepared.explain()
    assert "69 rows for training and 1 rows for validation" in told
    assert "input 'features': float32 (4,) of age, codes" in told
    assert "input 'photo': uint8 (3, 8, 8) of photo" in told
    assert "left out: 3 rows, null in 'age'" in told
    assert [line.split()[:3] for line in told.splitlines() if line.split()[0].isdigit()] == [
        ["0", "40", "1"],
        ["1", "29", "0"],
    ]


def test_bytes_are_those_of_the_arrays(prepared: PreparedData) -> None:
    assert sum(group.nbytes for group in prepared.groups) == ROW_BYTES
    tensors = load_shard(prepared, "train", 0)
    assert sum(array.nbytes for array in (*tensors.inputs, *tensors.labels)) == prepared.shards[0].nbytes


def test_weights_lie_beside_the_labels_and_an_older_release_is_not_to_ignore_them(tmp_path: Path) -> None:
    age, old, weight = TensorColumn("age", "float32"), TensorColumn("old", "int64"), TensorColumn("w", "float32")
    groups = (TensorGroup("features", (age,), joined=True),), (TensorGroup("old", (old,)),)
    shard = Shard("train", 0, "train/shard-00000.parquet", rows=2, nbytes=32)
    store = Store.from_uri(str(tmp_path))
    plain = PreparedData(store, "ages", *groups, (shard,), 0, 0.0, "f00")
    weighted = replace(plain, weights=TensorGroup("w", (weight,)))
    with store.writing(*weighted.path(shard)) as file:
        numbers = {"age": pa.array([30, 70], pa.float32()), "old": [0, 1], "w": pa.array([0.5, 2], pa.float32())}
        pq.write_table(pa.table(numbers), file)
    weighted.save()
    loaded = PreparedData.load(store, "ages")
    assert loaded == weighted
    for tensors in (load_shard(loaded, "train", 0), load_rows(loaded, "train", 2)):
        assert tensors.weights is not None
        assert (tensors.weights.tolist(), tensors.labels[0].tolist()) == ([0.5, 2.0], [0, 1])
    assert load_shard(plain, "train", 0).weights is None
    assert "weights of the rows: w" in loaded.explain()
    assert (plain.to_dict()["version"], weighted.to_dict()["version"]) == (1, 2)
    assert "weights" not in plain.to_dict(), "what releases without weights read"
