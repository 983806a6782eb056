"""A backend that refuses every row of a group gets no rows of it for a while, and is tried again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from played_links import played

from udfs.serving import LiveRouter, OverloadedError, _refusals
from udfs.serving._messages import Answer

SECONDS = 30.0
ROW: dict[str, Any] = {"x": np.ones((1, 2), np.float32)}


def refuse(router: LiveRouter, link: Any) -> int:
    """Answer the waiting rows of a backend as one does that has no time; return their number."""
    units, link.units = link.units, []
    router.answered([Answer(unit.number, "overloaded", "later", {}) for unit in units])
    return len(units)


def answer(router: LiveRouter, link: Any) -> int:
    units, link.units = link.units, []
    router.answered([Answer(unit.number, "", "", {"y": np.ones(2)}) for unit in units])
    return len(units)


def test_rows_go_to_the_backend_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    router, links = played("a", "b")
    router.route({"m": {"a": 10.0, "b": 1.0}})
    futures = [router.submit("m", ROW) for _ in range(22)]
    assert refuse(router, links["a"]) == 20
    assert answer(router, links["b"]) == 22
    assert all(future.result(SECONDS)["y"].tolist() == [[1, 1]] for future in futures)
    later = [router.submit("m", ROW) for _ in range(10)]
    assert (len(links["a"].units), answer(router, links["b"])) == (0, 10)
    monkeypatch.setattr(_refusals, "_PAUSE_S", 0.0)
    router._refusals._until = dict.fromkeys(router._refusals._until, 0.0)
    later += [router.submit("m", ROW) for _ in range(11)]
    assert answer(router, links["a"]) > 5, "it is tried again, and gets its share once it answers"
    answer(router, links["b"])
    assert all(future.exception(SECONDS) is None for future in later)
    router.stop()


def test_rows_are_refused_where_every_backend_refuses() -> None:
    router, links = played("a", "b", "c")
    future = router.submit("m", ROW)
    assert sum(refuse(router, link) for _ in range(3) for link in links.values()) == 3
    with pytest.raises(OverloadedError, match="later"):
        future.result(SECONDS)
    for _ in range(9):
        router.submit("m", ROW)
    assert [len(link.units) for link in links.values()] == [3, 3, 3]
    router.stop()


def test_a_backend_that_refuses_some_rows_keeps_its_share() -> None:
    """It has more requests than it can answer in time, and so might the others."""
    router, links = played("a", "b")
    futures = [router.submit("m", ROW) for _ in range(8)]
    one, *rest = links["a"].units
    router.answered([Answer(one.number, "", "", {"y": np.ones(2)})])
    links["a"].units = rest
    assert refuse(router, links["a"]) == 3
    assert answer(router, links["b"]) == 4
    assert sum(isinstance(future.exception(SECONDS), OverloadedError) for future in futures) == 3
    router.submit("m", ROW)
    router.submit("m", ROW)
    assert [len(link.units) for link in links.values()] == [1, 1]
    router.stop()
