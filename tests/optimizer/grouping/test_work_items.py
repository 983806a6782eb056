from __future__ import annotations

from collections import Counter

import pytest

from optimizer.grouping import Chunk, GroupPlan, WorkItem, plan_items


@pytest.mark.parametrize(("configurations", "slots"), [(1, 1), (1, 8), (5, 2), (16, 16)])
def test_items_cover_each_chunk_and_configuration_once(configurations: int, slots: int) -> None:
    chunks = [Chunk(number % 3, number, groups=1 + number % 7, rows=10 ** (number % 5)) for number in range(20)]
    items = plan_items(chunks, configurations, slots)
    covered = Counter((item.chunk, configuration) for item in items for configuration in item.configurations)
    assert covered == Counter((chunk, configuration) for chunk in chunks for configuration in range(configurations))
    firsts = Counter(item.chunk for item in items if item.is_first)
    assert firsts == Counter(chunks), "each chunk has one item that reports groups that are not trained"


def test_a_group_of_thousand_times_the_median_is_split_by_configuration_and_starts_first() -> None:
    small = [Chunk(0, place, groups=100, rows=10_000) for place in range(10)]
    large = Chunk(1, 0, groups=1, rows=100_000)
    items = plan_items([*small, large], configurations=8, slots=8)
    parts = [item for item in items if item.chunk == large]
    assert items[: len(parts)] == tuple(parts)
    assert [item.configurations for item in parts] == [(number,) for number in range(8)]
    # No item takes longer than a slot's share of all work.
    assert max(item.cost for item in items) <= sum(item.cost for item in items) / 8


def test_few_items_for_each_slot() -> None:
    chunks = [Chunk(0, place, groups=1, rows=100) for place in range(64)]
    assert len(plan_items(chunks, configurations=100, slots=2)) == 64


def test_estimated_time_is_that_of_the_longest_item_or_of_all_slots() -> None:
    def plan(items: tuple[WorkItem, ...]) -> GroupPlan:
        return GroupPlan(("a",), (1, 2), {"least": 1, "median": 1, "most": 1}, items, 1, 3, 2, 0.5)

    even = tuple(WorkItem(Chunk(0, place, 1, 100), (0,)) for place in range(4))
    assert plan(even).seconds == pytest.approx(4 * 200 / 2 * 3 * 0.5)
    long = (WorkItem(Chunk(0, 0, 1, 900), (0,)), *even[:1])
    assert plan(long).seconds == pytest.approx(1000 * 3 * 0.5)
    assert plan(()).seconds is None
