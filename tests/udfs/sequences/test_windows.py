"""Windows of series, against plain loops over the rows."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.sequences import Windows, common_windows, window_parts
from udfs.shards import Shard, TensorColumn, TensorGroup, Tensors
from udfs.training import Folds, TrainerError

LENGTHS = (7, 2, 1, 12, 5)


@pytest.fixture(scope="module")
def rows() -> Tensors:
    random = np.random.default_rng(0)
    total = sum(LENGTHS)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    values = random.normal(size=(total, 3)).astype(np.float32)
    ids = random.integers(0, 9, total)
    labels = random.integers(0, 3, total)
    return Tensors((values, ids), (labels,), total, names=("features", "ids"), offsets=offsets)


def looped(rows: Tensors, length: int, stride: int) -> list[list[int]]:
    """Rows of each window, by a loop over each series."""
    windows, begin = [], 0
    for size in LENGTHS:
        start = begin
        while start + length <= begin + size:
            windows.append(list(range(start, start + length)))
            start += stride
        begin += size
    return windows


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (2, 1), (3, 2), (4, 4), (5, 7), (12, 1), (13, 1)])
def test_windows_are_those_of_a_loop(rows: Tensors, length: int, stride: int) -> None:
    expected = looped(rows, length, stride)
    view = Windows(length, stride)
    seen = view.apply(rows)
    assert seen.rows == len(expected) == view.count(Shard("train", 0, "s", rows.rows, 0, lengths=LENGTHS))
    assert len(seen.inputs[0]) == seen.inputs[0].shape[0] == len(expected)
    order = np.random.default_rng(1).permutation(len(expected))
    for array, source in zip((*seen.inputs, *seen.labels), (*rows.inputs, *rows.labels), strict=True):
        if source is rows.labels[0]:
            truth = np.array([source[places[-1]] for places in expected], np.int64)
        else:
            truth = np.array([[source[place] for place in places] for places in expected], source.dtype)
            truth = truth.reshape(len(expected), length, *source.shape[1:])
        np.testing.assert_array_equal(array[:], truth)
        np.testing.assert_array_equal(array[order], truth[order])
        np.testing.assert_array_equal(array[1:3], truth[1:3])
        np.testing.assert_array_equal(np.asarray(array), truth)
        assert array.dtype == truth.dtype


def test_downsampling_is_the_mean_or_every_row(rows: Tensors) -> None:
    expected = looped(rows, 6, 2)
    values = rows.inputs[0].astype(np.float64)
    means = [[sum(values[place + k] for k in range(3)) / 3 for place in places[::3]] for places in expected]
    plain = Tensors(rows.inputs[:1], rows.labels, rows.rows, names=("features",), offsets=rows.offsets)
    (seen,) = Windows(6, 2, downsample=3).apply(plain).inputs
    np.testing.assert_allclose(seen[:], np.array(means), rtol=1e-6)
    assert seen.dtype == np.float32
    (every,) = Windows(6, 2, downsample=3, method="every").apply(plain).inputs
    np.testing.assert_array_equal(every[:], np.array([[plain.inputs[0][place] for place in p[::3]] for p in expected]))
    assert seen.shape == every.shape == (len(expected), 2, 3)


def test_labels_by_name_and_by_function(rows: Tensors) -> None:
    expected = looped(rows, 4, 1)
    labels = rows.labels[0].tolist()

    def majority(places: list[int]) -> int:
        counts = Counter(labels[place] for place in places)
        return min(label for label, count in counts.items() if count == max(counts.values()))

    truth: dict[Any, list[float]] = {
        "last": [labels[places[-1]] for places in expected],
        "middle": [labels[places[2]] for places in expected],
        "majority": [majority(places) for places in expected],
        "max": [max(labels[place] for place in places) for places in expected],
        "mean": [sum(labels[place] for place in places) / 4 for places in expected],
        first: [labels[places[0]] for places in expected],
    }
    for label, values in truth.items():
        (seen,) = Windows(4, 1, label=label).apply(rows).labels
        np.testing.assert_allclose(seen[:], values)
        assert seen.dtype == (np.float32 if label == "mean" else np.int64), label
        assert seen[:0].shape == (0,), label


def first(labels: np.ndarray) -> np.ndarray:
    return labels[:, 0]


@pytest.mark.parametrize(("label", "start"), [("last", 6), ("middle", 3), (first, 6)])
def test_a_part_of_longer_windows_is_a_shorter_window(rows: Tensors, label: Any, start: int) -> None:
    plain = Tensors(rows.inputs[:1], rows.labels, rows.rows, names=("features",), offsets=np.array([0, rows.rows]))
    short, long = Windows(4, 2, downsample=2, label=label), Windows(10, 3, label=label)
    longest = 4 if callable(label) else 10
    assert common_windows([Windows(4, 3, downsample=2, label=label), long]) == Windows(
        longest, 3, method="every", label=label
    )
    windows = long.apply(plain).inputs[0][:]
    alone = Windows(4, 1, downsample=2, label=label).apply(plain)
    places = np.arange(len(windows)) * 3 + start
    np.testing.assert_array_equal(short.inputs_of(windows), alone.inputs[0][places])
    by_row = plain.labels[0][np.arange(len(windows))[:, None] * 3 + np.arange(10)]
    np.testing.assert_array_equal(short.labels_of(by_row), alone.labels[0][places])


def test_two_parts_of_windows_have_no_row_in_common() -> None:
    lengths = np.array([40, 9, 7, 2, 30, 9, 9])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.random.default_rng(4).normal(size=(offsets[-1], 2)).astype(np.float32)
    rows = Tensors((values,), (np.zeros(len(values), np.int64),), len(values), names=("x",), offsets=offsets)
    windows = Windows(6, 2).apply(rows)
    part = window_parts(windows, offsets, 6, Folds(2))
    starts = windows.inputs[0].starts[:]
    read = [{row for first in starts[part == number] for row in range(first, first + 6)} for number in (0, 1)]
    assert not read[0] & read[1]
    # A window of a long series is left out only if it has rows of both halves; short series are whole.
    for begin, end in itertools.pairwise(offsets):
        inside = (starts >= begin) & (starts < end)
        middle = (begin + end) // 2
        if end - begin < 12:
            assert len(set(part[inside].tolist())) <= 1
            assert -1 not in part[inside]
        else:
            crossing = (starts[inside] < middle) & (starts[inside] + 6 > middle)
            np.testing.assert_array_equal(part[inside] == -1, crossing)
            assert set(part[inside].tolist()) == {-1, 0, 1}
    assert {int(part[starts == offsets[place]][0]) for place in (0, 1, 2, 4, 5, 6)} == {0, 1}


def test_four_settings_take_the_storage_of_one(rows: Tensors) -> None:
    offsets = np.arange(0, 100_001, 1000)
    big = Tensors((np.zeros((100_000, 6), np.float32),), (np.zeros(100_000, np.int64),), 100_000, offsets=offsets)
    stored = big.inputs[0].nbytes + big.labels[0].nbytes
    views = [Windows(length, stride).apply(big) for length, stride in ((100, 1), (200, 50), (50, 1), (400, 10))]
    total = stored + sum(array.nbytes for view in views for array in (*view.inputs, *view.labels))
    assert total <= 1.05 * stored
    for view in views:
        assert view.inputs[0].source is big.inputs[0], "the rows were copied"


def test_the_first_rows_contain_the_first_windows() -> None:
    shard = Shard("train", 0, "s", sum(LENGTHS), 0, lengths=LENGTHS)
    expected = looped(None, 3, 2)  # type: ignore[arg-type]
    for count in range(1, len(expected) + 3):
        assert Windows(3, 2).rows_to_read(shard, count) == expected[min(count, len(expected)) - 1][-1] + 1
    assert Windows(99).rows_to_read(shard, 4) == 0
    (note,) = Windows(3).notes([shard])
    assert note == "2 of 5 series (3 rows) are shorter than windows of 3 rows, and are skipped"
    assert not Windows(1).notes([shard])


def test_groups_have_an_axis_of_time() -> None:
    features = TensorGroup("features", (TensorColumn("x", "float32"), TensorColumn("y", "float32", (2,))))
    label = TensorGroup("label", (TensorColumn("label", "int64"),))
    inputs, labels = Windows(8, downsample=2, label="mean").groups((features,), (label,))
    assert (inputs[0].name, inputs[0].shape, inputs[0].dtype) == ("features", (4, 3), "float32")
    assert (labels[0].shape, labels[0].dtype) == ((), "float32")
    ids = TensorGroup("ids", (TensorColumn("ids", "int64"),))
    assert Windows(8, downsample=2, method="every").groups((ids,), (label,))[0][0].shape == (4,)
    with pytest.raises(TrainerError, match=r'method must be "every" for the input \'ids\' of int64, got "mean"'):
        Windows(8, downsample=2).groups((ids,), (label,))
    with pytest.raises(TrainerError, match=r"label must be a function that returns one label for each"):
        Windows(8, label=np.max).groups((features,), (label,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length must be a whole number of at least 1, got 0"),
        ({"length": 4.0}, "length must be a whole number of at least 1, got 4.0"),
        ({"length": 4, "stride": 0}, "stride must be a whole number of at least 1, got 0"),
        ({"length": 5, "downsample": 2}, "length must be a multiple of downsample=2, got 5"),
        ({"length": 4, "method": "median"}, "method must be one of mean, every, got 'median'"),
        ({"length": 4, "label": "lst"}, "label must be one of last, middle, majority, mean, max, got 'lst'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Windows(**arguments)


def test_rows_in_random_order_have_no_windows(rows: Tensors) -> None:
    shuffled = Tensors(rows.inputs, rows.labels, rows.rows)
    with pytest.raises(TrainerError, match="rows must be series in time order"):
        Windows(2).apply(shuffled)


def test_a_view_survives_json() -> None:
    import json

    view = Windows(8, 2, downsample=4, method="every", label="majority")
    assert Windows.from_dict(json.loads(json.dumps(view.to_dict()))) == view
    counted = Windows(np.int64(8), np.int64(2), downsample=np.int64(4), method="every", label="majority")
    assert json.dumps(counted.to_dict()) == json.dumps(view.to_dict())
