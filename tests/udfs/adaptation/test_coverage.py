from __future__ import annotations

import numpy as np
import pytest

from udfs.adaptation import CoreSet, Projection, farthest_first
from udfs.adaptation._coverage import flattened


def brute_force(points: np.ndarray, centres: np.ndarray, count: int) -> list[int]:
    """Greedy k-centre as it is written down: all distances, anew for each choice."""
    chosen: list[int] = []
    for _ in range(count):
        covered = [*centres, *points[chosen]]
        far = [
            -1.0 if place in chosen else min((np.linalg.norm(point - one) for one in covered), default=np.inf)
            for place, point in enumerate(points)
        ]
        chosen.append(int(np.argmax(far)))
    return chosen


def radius(points: np.ndarray, centres: np.ndarray) -> float:
    return float(np.linalg.norm(points[:, None] - centres[None], axis=2).min(axis=1).max())


@pytest.mark.parametrize("labelled", [0, 1, 7])
def test_greedy_is_that_of_the_definition(labelled: int) -> None:
    random = np.random.default_rng(labelled)
    points, centres = random.normal(size=(60, 5)), random.normal(size=(labelled, 5))
    places, distances = farthest_first(points, centres, 20)
    assert places.tolist() == brute_force(points, centres, 20)
    assert (np.diff(distances) <= 0).all()
    assert farthest_first(points, centres, 99)[0].tolist()[:20] == places.tolist()
    assert sorted(farthest_first(points, centres, 99)[0].tolist()) == list(range(60))


def test_equal_records_come_last() -> None:
    points = np.array([[1.0, 0.0]] * 3 + [[0.0, 2.0]])
    places, distances = farthest_first(points, np.zeros((1, 2)), 4)
    assert places.tolist() == [3, 0, 1, 2]
    assert distances.tolist() == [2.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("block", "factor"), [(1000, 4), (64, 6)])
def test_core_sets_of_parts_cover_the_whole(block: int, factor: int) -> None:
    """The greedy radius of the whole is at least the best one, which the bounds are multiples of.

    Each part has few of the clusters, one after the other: a core-set that misses one is far off.
    """
    random = np.random.default_rng(0)
    clusters = 100 * random.normal(size=(10, 3)).repeat(90, axis=0)
    points = (clusters + random.normal(size=(900, 3))).astype(np.float32)
    centres = np.zeros((2, 3), np.float32)
    count = 12
    whole, _ = farthest_first(points, centres, count)
    ids, vectors = [], []
    for part in np.array_split(np.arange(900), 3):
        core = CoreSet(centres, count, block)
        for some in np.array_split(part, 10):
            core.add([str(place) for place in some], points[some])
        found, found_vectors = core.records()
        assert len(found) == count
        np.testing.assert_array_equal(found_vectors, points[[int(one) for one in found]])
        ids += found
        vectors.append(found_vectors)
    places, _ = farthest_first(np.concatenate(vectors), centres, count)
    chosen = points[[int(ids[place]) for place in places]]
    assert radius(points, np.concatenate([centres, chosen])) <= factor * radius(
        points, np.concatenate([centres, points[whole]])
    )


def test_a_core_set_of_few_records_has_them_all() -> None:
    core = CoreSet(np.zeros((0, 2), np.float32), 5)
    assert core.records()[0] == []
    assert farthest_first(np.zeros((0, 0)), np.zeros((3, 2)), 5)[0].tolist() == []
    core.add(["a", "b"], np.array([[1.0, 0.0], [5.0, 0.0]], np.float32))
    assert core.records()[0] == ["a", "b"]


def test_projected_distances_are_about_the_same() -> None:
    long = np.random.default_rng(1).normal(size=(30, 4000)).astype(np.float32)
    short = Projection(3)(long)
    assert short.shape == (30, 128)
    np.testing.assert_array_equal(short, Projection(3)(long))
    exact = np.linalg.norm(long[1:] - long[:1], axis=1)
    assert np.abs(np.linalg.norm(short[1:] - short[:1], axis=1) / exact - 1).max() < 0.35


def test_padding_is_no_part_of_a_record() -> None:
    """Two records that differ in padding alone are at one place, whatever the network makes of it."""
    hidden = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)
    hidden[1, :2] = hidden[0, :2]
    hidden[1, 3] = np.nan
    present = np.array([[True, True, False, False]] * 2)
    first, second = flattened([hidden], present)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, hidden[0, :2].mean(axis=0), rtol=1e-6)
    assert flattened([hidden[:1]], None).shape == (1, 12)
