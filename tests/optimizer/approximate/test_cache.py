"""Landlord eviction, against the optimum of weighted paging by enumeration."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.approximate import Variant
from optimizer.approximate._cache import ModelCache

_SLOTS = 3


def optimum(requests: list[int], costs: list[int]) -> int:
    """Return the least cost of loads in a cache of ``_SLOTS`` equal pages."""
    states = {frozenset[int](): 0}
    for page in requests:
        grown: dict[frozenset[int], int] = {}
        for cache, cost in states.items():
            paid = cost if page in cache else cost + costs[page]
            full = cache | {page}
            for size in range(min(len(full), _SLOTS)):
                for others in combinations(sorted(full - {page}), size):
                    kept = frozenset({page, *others})
                    grown[kept] = min(grown.get(kept, paid), paid)
        states = grown
    return min(states.values())


@given(st.lists(st.integers(0, 4), max_size=25), st.lists(st.integers(1, 9), min_size=5, max_size=5))
@settings(max_examples=50)
def test_its_cost_is_at_most_k_times_the_optimum(requests: list[int], costs: list[int]) -> None:
    pages = [Variant(f"v{p}", 0.5, 10, cost, 1).options("t")[0] for p, cost in enumerate(costs)]
    cache, spent = ModelCache(10 * _SLOTS), 0
    for number in requests:
        page = pages[number]
        if page in cache:
            cache.renew(page)
            continue
        for victim in cache.victims(page.memory_bytes):
            cache.evict(victim)
        cache.insert(page)
        spent += costs[number]
        assert cache.free == cache.capacity - sum(option.memory_bytes for option in cache) >= 0
    if requests:
        assert spent <= _SLOTS * optimum(requests, costs)


def test_cheap_and_large_options_leave_first() -> None:
    small, large, dear = (
        Variant(name, 0.5, size, joules, 1).options("t")[0]
        for name, size, joules in (("s", 1, 4), ("l", 8, 4), ("d", 1, 9))
    )
    cache = ModelCache(10)
    for option in (large, small, dear):
        cache.insert(option)
    assert cache.victims(1) == [large]
    cache.protected = frozenset({large})
    assert cache.victims(1) == [small]
    recent = ModelCache(10, landlord=False)
    for option in (small, dear, large):
        recent.insert(option)
    recent.renew(small)
    assert recent.victims(1) == [dear]


def test_rent_ages_options_that_are_not_used() -> None:
    """An option that was dear once leaves after enough loads of others."""
    dear = Variant("dear", 0.5, 10, 5, 1).options("t")[0]
    cache = ModelCache(20)
    cache.insert(dear)
    loads = 0
    while dear in cache and loads < 20:
        page = Variant(f"v{loads}", 0.5, 10, 2, 1).options("t")[0]
        for victim in cache.victims(10):
            cache.evict(victim)
        cache.insert(page)
        loads += 1
    assert 3 <= loads <= 4
