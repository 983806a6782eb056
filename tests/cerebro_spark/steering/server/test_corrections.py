"""Corrections of labels: roles, conflicts, and a file that ``relabel`` reads."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from steered_runs import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.testclient import TestClient

PATH = "/api/v1/experiments/r1/corrections"


@pytest.fixture(autouse=True)
def _run(clients: Callable[[str, Any], TestClient]) -> None:
    FakeRunner(clients("cluster", "runner")).begin("c000")


def correct(client: TestClient, row: Any, label: Any, **more: Any) -> dict[str, Any]:
    reply = client.post(PATH, json={"row": row, "label": label, **more})
    assert reply.status_code == 201, reply.text
    return dict(reply.json()["correction"])


def labels(client: TestClient) -> list[tuple[Any, Any, str]]:
    return [(each["row"], each["label"], each["user"]) for each in client.get(PATH).json()["corrections"]]


def test_the_latest_decision_on_a_row_counts(ada: TestClient, clients: Any) -> None:
    first = correct(ada, 7, 1, given_label=0)
    assert correct(ada, 7, 1, given_label=0) == first, "a repeated request is one correction"
    correct(ada, "7", 2)
    again = correct(ada, 7, 3, given_label=0, replaces=first["number"])
    assert labels(ada) == [(7, 3, "ada"), ("7", 2, "ada")]
    assert ada.delete(f"{PATH}/{again['number']}").status_code == 204
    assert ada.delete(f"{PATH}/{again['number']}").status_code == 204
    assert labels(clients("guest", "viewer")) == [("7", 2, "ada")]


def test_a_second_user_learns_of_the_first_decision(ada: TestClient, clients: Any) -> None:
    grace = clients("grace", "editor")
    seen = correct(ada, 7, 1)
    for replaces in (None, seen["number"] + 1):
        reply = grace.post(PATH, json={"row": 7, "label": 2, "replaces": replaces})
        assert reply.status_code == 409 and "ada has set it to 1" in reply.json()["error"]["message"]
    assert labels(ada) == [(7, 1, "ada")]
    assert correct(grace, 7, 2, replaces=seen["number"])["user"] == "grace"
    withdrawn = ada.post(PATH, json={"row": 8, "label": 2, "replaces": 1})
    assert withdrawn.status_code == 409 and "withdrawn" in withdrawn.json()["error"]["message"]


def test_a_viewer_cannot_relabel(ada: TestClient, clients: Any) -> None:
    number = correct(ada, 7, 1)["number"]
    guest = clients("guest", "viewer")
    assert guest.post(PATH, json={"row": 7, "label": 2, "replaces": number}).status_code == 403
    assert guest.delete(f"{PATH}/{number}").status_code == 403
    assert labels(guest) == [(7, 1, "ada")]


def test_the_file_has_the_columns_of_relabel_and_no_formula(ada: TestClient) -> None:
    correct(ada, "=cmd|' /C calc'!A0", "-1+1")
    correct(ada, -5, -1, given_label=1)
    reply = ada.get(f"{PATH}.csv", params={"id_column": "row.id"})
    assert reply.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(reply.text.splitlines()))
    assert rows[0] == ["row.id", "given_label", "corrected_label", "user", "time"]
    assert [row[:3] for row in rows[1:]] == [["-5", "1", "-1"], ["'=cmd|' /C calc'!A0", "", "'-1+1"]]


@pytest.mark.parametrize(
    "body",
    [
        {"label": 1},
        {"row": None, "label": 1},
        {"row": True, "label": 1},
        {"row": 7, "label": [1]},
        {"row": 7, "label": None},
        {"row": 1 << 60, "label": 1},
        {"row": "a" * 2000, "label": 1},
        {"row": 7, "label": 1, "user": "grace"},
    ],
)
def test_what_is_no_decision_is_refused(ada: TestClient, body: dict[str, Any]) -> None:
    assert ada.post(PATH, json=body).status_code == 422
    assert labels(ada) == []


def test_an_unknown_run_is_named(ada: TestClient) -> None:
    reply = ada.post("/api/v1/experiments/r2/corrections", json={"row": 7, "label": 1})
    assert reply.status_code == 404 and "got 'r2'" in reply.json()["error"]["message"]
