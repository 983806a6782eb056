"""The plugin's optimizer rule: equal rows with and without it, and how many rows are computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from places import IMPORTS, SUPPORT
from sessions import CONNECT

from udfs.driver import plugin_jar

pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(CONNECT, reason="starts sessions of its own, also of Connect"),
    pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar"),
]


def _run(first: int, last: int, **variables: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(IMPORTS)} | variables
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "pushdown_plans.py"), str(first), str(last)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert lines, done.stdout[-2000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND"))
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return _run(0, 8)


def test_random_plans_have_equal_rows(found: dict[str, Any]) -> None:
    assert len(found["plans"]) == 8
    assert not [plan for plan in found["plans"] if not plan["same"]]


COMPUTED = {
    "null": {
        "filter on a kept column": 4,
        "filter on a result": 40,
        "filter on both": 4,
        "renamed filter": 4,
        "filter of a subquery": 3,
        "count": 0,
        "unread": 0,
        "groups": 0,
        "limit": 3,
        "first": 3,
        "semi join": 3,
        "anti join": 10,
        "inner join": 3,
        "inner join on the right": 3,
        "join with itself": 40,
        "union with itself": 40,
        "outer join": 40,
    },
    "raise": {"filter on both": 4, "count": 40, "unread": 40, "limit": 3, "first": 3, "inner join": 3},
    # A limit is of rows that are not dropped: a whole partition is computed, and for an order all of them.
    "drop": {"filter on both": 4, "count": 40, "unread": 40, "limit": 20, "first": 40, "inner join": 3},
}


@pytest.mark.parametrize("errors", COMPUTED)
def test_rows_that_are_computed(found: dict[str, Any], errors: str) -> None:
    assert found["counts"][errors] == COMPUTED[errors]


def test_raise_fails_for_rows_that_a_query_reads(found: dict[str, Any]) -> None:
    """Also where it reads no result; a row that a filter on other columns removes is not computed."""
    wanted = {"all": True, "count": True, "unread": True, "filtered": False, "filtered result": True}
    assert found["raising"] == wanted


def test_explain_shows_what_was_moved(found: dict[str, Any]) -> None:
    assert "[moved below: filter (id < 4)]" in found["explain"]
    assert found["explain"].index("(y") < found["explain"].index("MapInArrow")


def test_users_see_no_marks(found: dict[str, Any]) -> None:
    assert not [field for field in found["schema"]["fields"] if field["metadata"]]


@pytest.mark.extended
@pytest.mark.slow
def test_features_of_corrupt_images_are_equal() -> None:
    pytest.importorskip("torch")
    plans = _run(0, 0)["images"]
    assert len(plans) == 10
    assert not [plan for plan in plans if not plan["same"]]
    assert all(plan["rows"] for plan in plans)


@pytest.mark.extended
@pytest.mark.slow
def test_more_plans_through_connect() -> None:
    found = _run(100, 120, SPARK_REMOTE="local[2]")
    assert not [plan for plan in found["plans"] if not plan["same"]]
    assert found["counts"]["null"]["filter on a kept column"] == 4


@pytest.mark.slow
def test_many_plans() -> None:
    for first in range(200, 600, 100):
        assert not [plan for plan in _run(first, first + 100)["plans"] if not plan["same"]]
