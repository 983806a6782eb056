"""Folds of rows: the same for the rows of a shard and for the rows that a network reads."""

from __future__ import annotations

import numpy as np

from udfs.training import HELD_OUT_FOLD, Folds


def drawn(rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.normal(size=(rows, 4)).astype(np.float32), random.integers(0, 9, (rows, 2))]


def test_each_row_is_in_a_fold_of_about_equal_size() -> None:
    counts = np.bincount(Folds(5).assign(drawn(2000)), minlength=5)
    assert counts.sum() == 2000 and counts.min() > 330 and counts.max() < 470


def test_a_fold_depends_on_the_values_alone() -> None:
    inputs = drawn(700)
    folds = Folds(4, seed=7).assign(inputs)
    picked = np.random.default_rng(0).permutation(700)[:300]
    assert (Folds(4, seed=7).assign([array[picked] for array in inputs]) == folds[picked]).all()
    assert (Folds(4, seed=8).assign(inputs) != folds).any()
    assert (Folds(4, seed=7).assign([inputs[0], inputs[1] + 1]) != folds).any(), "every input counts"


def test_pixels_of_a_shard_and_as_a_network_reads_them_are_in_one_fold() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (300, 3, 4, 4)).astype(np.uint8)
    read = pixels.astype(np.float32) / 255.0
    assert (Folds(3).assign([pixels]) == Folds(3).assign([read])).all()


def test_zero_has_one_fold_whatever_its_sign() -> None:
    zeros = np.array([[0.0], [-0.0]], np.float32)
    assert len(set(Folds(1000).assign([zeros]).tolist())) == 1


def test_the_order_of_a_unit_keeps_its_order_without_the_held_out_rows() -> None:
    folds = np.array([0, 1, 2, 1, 0])
    order = np.array([3, 0, 4, 2, 1])
    assert Folds(3).training_order(order, folds, {HELD_OUT_FOLD: 1}).tolist() == [0, 4, 2]
