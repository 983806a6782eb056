"""Windows that configurations of several windows predict, and configurations that cannot take part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from udfs.ensembles._held_out_rows import held_out_rows
from udfs.sequences import Windows
from udfs.shards import Tensors
from udfs.training import Folds, InputColumns, TrainerError


@pytest.fixture
def shard() -> Tensors:
    values = np.arange(51, dtype=np.float32)[:, None]
    return Tensors((values,), (np.arange(51) // 7,), 51, names=("x",), offsets=np.array([0, 40, 51]))


def test_each_configuration_reads_its_part_of_the_windows(shard: Tensors) -> None:
    rows = held_out_rows(shard, Windows(6, 3, label="middle"), Folds(2), 10**9)
    (first,) = rows.batches(Windows(4, 1, label="middle"), 100)
    # Windows of 6 rows that begin at 0, 3, ... but none that reads rows 19 and 20. The second series is short.
    starts = [*range(0, 15, 3), *range(21, 35, 3), 40, 43]
    short = [[start + 1 + row for row in range(4)] for start in starts]
    np.testing.assert_array_equal(first[0][..., 0], short)
    assert rows.labels.tolist() == [(start + 3) // 7 for start in starts]
    assert len(set(rows.part[:5].tolist())) == 1
    assert len(set(rows.part[5:10].tolist())) == 1
    assert rows.part[0] == 1 - rows.part[5]


def test_windows_are_evenly_spaced_if_there_are_too_many(shard: Tensors) -> None:
    rows = held_out_rows(shard, Windows(6, 3, label="middle"), Folds(2), 5)
    (inputs,) = rows.batches(Windows(6, 3, label="middle"), 100)
    assert inputs[0][:, 0, 0].tolist() == [0, 6, 21, 30, 43]


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (None, "view must be Windows for all members of an ensemble or for none, got None"),
        (InputColumns(["x"]), "view must be Windows for all members"),
        (Windows(4, label="last"), "view must label windows as that of the best configuration does"),
        (Windows(8, label="middle"), "view must label windows as that of the best configuration does"),
    ],
)
def test_other_views_are_refused(shard: Tensors, view: Any, message: str) -> None:
    rows = held_out_rows(shard, Windows(6, 3, label="middle"), Folds(2), 10**9)
    with pytest.raises(TrainerError, match=message):
        list(rows.batches(view, 4))
