"""A backend without Spark, network or connection: units in, answers out."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from udfs.serving import Backend, BackendSpec, GroupRecipe, Placed
from udfs.serving._link import _units as link_units
from udfs.serving._messages import Adopt, Collect, Stop, Submit, Unit
from udfs.serving._pending_requests import Joined, Pending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.serving import Row

SLO = 60_000.0


class Doubling:
    """A group of two sessions that notes what it reads."""

    def __init__(self) -> None:
        self.readers = {"cats": self, "dogs": self}
        self.reads: list[float] = []
        self.batches: list[list[str]] = []

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.reads.append(float(inputs["x"]))
        return {"x": 2 * inputs["x"]}

    def run(self, rows: Sequence[Row]) -> list[dict[str, NDArray[Any]]]:
        self.batches.append([row.session for row in rows])
        return [row.arrays for row in rows]


def adoption(batch: int) -> Adopt:
    return Adopt((Placed("cats+dogs", batch, np.array([0.0, 1.0, 1.0, 1.0, 1.0])),))


@pytest.fixture
def group() -> Doubling:
    return Doubling()


@pytest.fixture
def backend(group: Doubling) -> Iterator[Backend]:
    members: Any = {"cats": None, "dogs": None}
    recipe = GroupRecipe("cats+dogs", members, sample={"x": np.float64(0)})
    backend = Backend({"cats+dogs": recipe})
    backend._models.open = lambda _: group  # type: ignore[method-assign,assignment,return-value]
    serving = threading.Thread(target=backend.serve)
    serving.start()
    backend.answer(adoption(4))
    group.reads.clear()
    yield backend
    backend.answer(Stop())
    serving.join()


def answers(backend: Backend, units: Sequence[tuple[str, str, float]]) -> list[float]:
    sent = tuple(
        Unit(number, session, "cats+dogs", SLO, key, {"x": np.float64(x)})
        for number, (session, key, x) in enumerate(units, 1)
    )
    backend.answer(Submit(sent, ()))
    found: dict[int, float] = {}
    last = 0
    while len(found) < len(sent):
        results = backend.answer(Collect(last))
        last = results.last
        found |= {one.number: float(one.outputs["x"]) for one in results.answers}
    return [found[unit.number] for unit in sent]


def test_one_content_for_two_sessions_is_read_once(backend: Backend, group: Doubling) -> None:
    units = [("cats", "k1", 1.0), ("dogs", "k1", 1.0), ("dogs", "k2", 2.0), ("cats", "k1", 1.0)]
    assert answers(backend, units) == [2.0, 2.0, 4.0, 2.0]
    assert group.reads == [1.0, 2.0]


def test_rows_without_a_key_are_all_read(backend: Backend, group: Doubling) -> None:
    assert answers(backend, [("cats", "", 1.0), ("cats", "", 3.0)]) == [2.0, 6.0]
    assert group.reads == [1.0, 3.0]


def test_few_contents_are_kept(backend: Backend, group: Doubling) -> None:
    units = [("cats", f"k{number}", float(number)) for number in range(200)]
    assert answers(backend, units) == [2.0 * number for number in range(200)]
    assert len(group.reads) == 200
    assert len(backend._read_before) == 16


def test_a_group_is_warm_before_it_is_served_and_once_alone(backend: Backend, group: Doubling) -> None:
    backend.answer(adoption(2))
    assert group.batches == [["cats", "dogs"], ["cats", "dogs", "cats", "dogs"]]


class Meeting:
    """A group whose batches wait for a batch of another group."""

    def __init__(self, session: str, barrier: threading.Barrier) -> None:
        self.readers = {session: self}
        self.barrier = barrier
        self.threads: list[str] = []

    def read(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return dict(inputs)

    def run(self, rows: Sequence[Row]) -> list[dict[str, NDArray[Any]]]:
        self.threads.append(threading.current_thread().name)
        self.barrier.wait()
        return [row.arrays for row in rows]


@pytest.mark.parametrize("parallel", [False, True])
def test_groups_run_beside_each_other_if_asked(parallel: bool) -> None:
    barrier = threading.Barrier(2, timeout=SLO / 1000 if parallel else 0.2)
    groups = {name: Meeting(name, barrier) for name in ("a", "b")}
    unopened: Any = None
    recipes = {name: GroupRecipe(name, {name: unopened}) for name in groups}
    backend = Backend(recipes, BackendSpec(parallel=parallel))
    backend._models.open = lambda recipe: groups[recipe.name]  # type: ignore[method-assign,assignment,return-value]
    serving = threading.Thread(target=backend.serve)
    serving.start()
    placed = {name: Placed(name, 1, np.array([0.0, 1.0])) for name in groups}
    backend.answer(Adopt(tuple(placed.values())))

    def ask(first: int) -> set[str]:
        units = [Unit(first + n, name, name, SLO, "", {"x": np.float64(n)}) for n, name in enumerate(groups)]
        backend.answer(Submit(tuple(units), ()))
        found: dict[int, str] = {}
        while len(found) < len(units):
            results = backend.answer(Collect(first - 1))
            found |= {one.number: one.failure for one in results.answers if one.number >= first}
        return set(found.values())

    if parallel:
        assert ask(1) == {""}
        # A group that goes and comes again is served by one thread.
        backend.answer(Adopt((placed["a"],)))
        backend.answer(Adopt(tuple(placed.values())))
        assert ask(3) == {""}
        assert all(group.threads == [f"runner of {name}"] * 2 for name, group in groups.items())
    else:
        assert ask(1) == {"failed"}
    backend.answer(Stop())
    serving.join(SLO / 1000)
    assert not serving.is_alive()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("runner of")]


def test_a_content_travels_once_in_a_message(backend: Backend, group: Doubling) -> None:
    """Later units of its group and key have no inputs; one whose content did not come is sent again by the router."""
    first = Unit(1, "cats", "cats+dogs", SLO, "a", {"x": np.float64(3)})
    backend.answer(Submit((first, replace(first, number=2, session="dogs", inputs={})), ()))
    results = collected(backend, 2)
    assert {(answer.number, float(answer.outputs["x"])) for answer in results} == {(1, 6.0), (2, 6.0)}
    backend.answer(Submit((replace(first, number=3, key="b", inputs={}),), ()))
    assert [(answer.number, answer.failure) for answer in collected(backend, 3)[2:]] == [(3, "absent")]
    assert group.reads == [3.0]


def collected(backend: Backend, count: int) -> list[Any]:
    by_number: dict[int, Any] = {}
    while len(by_number) < count:
        by_number |= {answer.number: answer for answer in backend.answer(Collect(0)).answers}
    return list(by_number.values())


def test_rows_of_the_same_content_and_group_are_described_once() -> None:
    row = Pending(1, "cats", "pets", 10.0, {"x": np.ones(2)}, "a", 0, Joined(1, lambda: None))
    rows = [
        row,
        replace(row, number=2, session="dogs"),
        replace(row, number=3, group="birds"),
        replace(row, number=4, suspect=True),
        replace(row, number=5, deadline=0.5),
        replace(row, number=6, key=""),
        replace(row, number=7, key=""),
    ]
    units = link_units(rows, 1.0)
    with_inputs = {unit.number: bool(unit.inputs) for unit in units}
    assert with_inputs == {1: True, 2: False, 3: True, 4: True, 6: True, 7: True}
    assert units[0].remaining_ms == pytest.approx(9000)
