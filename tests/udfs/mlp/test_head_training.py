"""Heads of several attributes, trained together, against a head of plain torch for each."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch.nn import functional

from udfs.gang import Gang
from udfs.mlp import HeadTraining
from udfs.mlp._shares import batch_shares
from udfs.mlp.heads import FittedHeads, fit_heads

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS, SIZE = 40, 5
CLASSES = (2, 3, 2)
TRAINING = HeadTraining(CLASSES, epochs=3, step_size=0.05, batch_size=16, l2=0.02, seed=4)


def table() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    features = (draw.normal(size=(ROWS, SIZE)) * [1, 3, 0.1, 1, 0] + [0, 9, 0, 1, 7]).astype(np.float32)
    labels = np.stack([draw.integers(0, size, ROWS) for size in CLASSES], axis=1)
    labels[draw.random((ROWS, len(CLASSES))) < 0.3] = -1
    labels[:16, 2] = -1
    return features, labels


def trained(counts: Sequence[int], columns: Sequence[int], training: HeadTraining = TRAINING) -> FittedHeads:
    features, labels = table()
    training = replace(training, classes=tuple(CLASSES[column] for column in columns))
    ends = np.cumsum([0, *counts])
    barrier, messages = threading.Barrier(len(counts), timeout=60), [""] * len(counts)

    def member(rank: int) -> FittedHeads:
        def exchange(message: str) -> list[str]:
            messages[rank] = message
            barrier.wait()
            return list(messages)

        part = slice(ends[rank], ends[rank + 1])
        gang = Gang.connect(rank, len(counts), "127.0.0.1", exchange, 60)
        return fit_heads(gang, features[part].copy(), labels[part][:, list(columns)], training, counts)

    with ThreadPoolExecutor(len(counts)) as pool:
        first, *others = pool.map(member, range(len(counts)))
    for other in others:
        np.testing.assert_array_equal(other.weight, first.weight)
        np.testing.assert_array_equal(other.bias, first.bias)
    return first


def plain(column: int, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Train one head by torch's own loss and optimizer, on the batches of the tasks."""
    features, labels = table()
    mean, scale = features.astype(float).mean(0), features.astype(float).std(0)
    scale[scale < 1e-6] = 1
    data, wanted = torch.tensor((features - mean) / scale), torch.tensor(labels[:, column])
    known = np.bincount(labels[labels[:, column] >= 0, column], minlength=CLASSES[column]) + 1
    weight = torch.zeros(CLASSES[column], SIZE, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(np.log(known / known.sum()), requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [weight], "weight_decay": TRAINING.l2}, {"params": [bias]}], lr=0.05)
    starts = np.cumsum([0, *counts])
    for epoch in range(TRAINING.epochs):
        orders = [np.random.default_rng([TRAINING.seed, epoch, rank]).permutation(n) for rank, n in enumerate(counts)]
        done = np.zeros(len(counts), int)
        for shares in batch_shares(counts, TRAINING.batch_size):
            rows = np.concatenate(
                [starts[rank] + orders[rank][done[rank] :][:share] for rank, share in enumerate(shares)]
            )
            done += shares
            optimizer.zero_grad()
            logits = data[rows] @ weight.T + bias
            functional.cross_entropy(logits, wanted[rows], ignore_index=-1).backward()
            optimizer.step()
    raw = weight.detach().numpy() / scale
    return raw, bias.detach().numpy() - raw @ mean


@pytest.mark.parametrize("counts", [[40], [25, 0, 15]], ids=str)
def test_heads_are_those_that_plain_torch_trains_one_by_one(counts: list[int]) -> None:
    """Rows without a label of a head count for the other heads only."""
    found = trained(counts, range(len(CLASSES)))
    weight, bias = (np.concatenate(parts) for parts in zip(*(plain(head, counts) for head in range(3)), strict=True))
    np.testing.assert_allclose(found.weight, weight, atol=2e-5)
    np.testing.assert_allclose(found.bias, bias, atol=2e-4)


def test_a_head_does_not_depend_on_its_company() -> None:
    together, alone = trained([40], [0, 1, 2]), trained([40], [1])
    np.testing.assert_allclose(together.weight[2:5], alone.weight, atol=1e-6)
    np.testing.assert_allclose(together.bias[2:5], alone.bias, atol=1e-5)
    np.testing.assert_allclose([losses[1] for losses in together.losses], np.ravel(alone.losses), rtol=1e-5)


def test_a_training_that_diverges_ends_early() -> None:
    found = trained([40], [0], replace(TRAINING, step_size=1e30, l2=1e30))
    assert np.isnan(found.losses).tolist() == [[True]]
