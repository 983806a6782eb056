"""A backend without Spark, network or connection: units in, answers out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.serving import sliding_window
from udfs.serving import Backend, GroupRecipe, Placed
from udfs.serving._messages import Adopt, Collect, Stop, Submit, Unit

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
    backend = Backend({"cats+dogs": recipe}, sliding_window, device="cpu", threads=1)
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
