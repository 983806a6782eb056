"""Which worker holds which partitions, however workers attach and detach."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from cerebro_spark.hopper import Holdings

if TYPE_CHECKING:
    from collections.abc import Callable


def shares(workers: int, partitions: int, copies: int) -> dict[str, list[int]]:
    return {
        f"w{place}": [number for number in range(partitions) if (place - number) % workers < copies]
        for place in range(workers)
    }


def present(holdings: Holdings) -> dict[str, set[int]]:
    return holdings._present


@st.composite
def histories(draw: st.DrawFn) -> tuple[Holdings, int, int]:
    workers = draw(st.integers(1, 5))
    partitions = draw(st.integers(workers, 9))
    copies = draw(st.integers(1, workers))
    holdings = Holdings(shares(workers, partitions, copies))
    names = [f"w{number}" for number in range(workers + 2)]
    for name in names[:workers]:
        holdings.attach(name)
    for step in range(draw(st.integers(0, 12))):
        here = sorted(present(holdings))
        away = sorted(set(names) - set(here))
        what: list[Callable[[], object]] = [lambda step=step: holdings.expired(step - 3.0), holdings.level]
        what += [lambda name=name: holdings.attach(name) for name in away]
        what += [lambda name=name, step=step: holdings.detach(name, float(step)) for name in here]
        what += [lambda name=name: holdings.give_up(name) for name in away]
        draw(st.sampled_from(what))()
        holdings.adopt()
    return holdings, partitions, copies


@settings(max_examples=500, deadline=None)
@given(histories())
def test_no_partition_is_ever_orphaned(history: tuple[Holdings, int, int]) -> None:
    holdings, partitions, _ = history
    if not present(holdings):
        return
    awaited = [each.partitions for each in holdings._awaited.values()]
    assert set(range(partitions)) <= set().union(*present(holdings).values(), *awaited)


@settings(max_examples=500, deadline=None)
@given(histories())
def test_after_levelling_copies_and_loads_are_even(history: tuple[Holdings, int, int]) -> None:
    holdings, partitions, copies = history
    if not present(holdings):
        return
    for name in list(holdings._awaited):
        holdings.give_up(name)
    holdings.level()
    here = present(holdings)
    counts = Counter(number for held in here.values() for number in held)
    assert counts == dict.fromkeys(range(partitions), min(copies, len(here)))
    loads = [len(held) for held in here.values()]
    assert max(loads) - min(loads) <= 1
    before = {name: set(held) for name, held in here.items()}
    holdings.level()
    assert present(holdings) == before, "moved what lay well"


def test_a_worker_that_comes_back_soon_has_its_partitions() -> None:
    holdings = Holdings({"w0": [0, 2], "w1": [1, 3]})
    holdings.attach("w0")
    assert not holdings.complete
    holdings.attach("w1")
    assert holdings.complete
    holdings.detach("w1", 10.0)
    assert holdings.adopt() == []
    assert holdings.expired(9.0) == []
    holdings.attach("w1")
    assert holdings["w1"] == {1, 3}


def test_a_worker_that_comes_back_late_gets_its_share_between_epochs() -> None:
    holdings = Holdings({"w0": [0, 2], "w1": [1, 3]})
    holdings.attach("w0")
    holdings.attach("w1")
    holdings.detach("w1", 10.0)
    assert holdings.expired(11.0) == ["w1"]
    assert holdings.adopt() == ["w0"]
    assert holdings["w0"] == {0, 1, 2, 3}
    holdings.attach("w1")
    assert holdings.adopt() == []
    assert holdings["w1"] == set()
    holdings.level()
    assert {len(holdings["w0"]), len(holdings["w1"])} == {2}


def test_a_spare_takes_the_place_of_a_lost_worker_at_once() -> None:
    holdings = Holdings({"w0": [0], "w1": [1]})
    for name in ("w0", "w1", "w2"):
        holdings.attach(name)
    holdings.detach("w0", 1.0)
    assert holdings.adopt() == ["w2"]
    assert holdings["w2"] == {0}
    holdings.attach("w0")
    assert holdings["w0"] == set()
