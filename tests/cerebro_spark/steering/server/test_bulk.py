"""Commands to many configurations: which ones a filter selects, all or none, and one request once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from steered_runs import FakeRunner, order, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.testclient import TestClient

BULK = "/api/v1/experiments/r1/commands/bulk"
EFFECT = "/api/v1/experiments/r1/effects/bulk"


@pytest.fixture
def client(clients: Callable[[str, Any], TestClient]) -> TestClient:
    return clients("ada", "owner")


@pytest.fixture
def runner(client: TestClient) -> FakeRunner:
    """Report c000 to c003 with the losses 0, 0.1, 0.2 and 0.3, and c004 without one; c003 has ended."""
    runner = FakeRunner(client)
    runner.begin("c000", "c001", "c002", "c003")
    runner.report("orders", order(decisions=[start("c004", params={"lr": 0.5, "activation": "ReLU"})]))
    for number in range(4):
        runner.train(f"c{number:03d}", 1, number / 10)
    runner.report("orders", order(decisions=[{"decision": "stop", "trial": "c003", "reason": "rank 4"}]))
    return runner


def pending(runner: FakeRunner) -> list[str]:
    return [each["command"].get("trial", "") for each in runner.pending()]


@pytest.mark.parametrize(
    ("where", "trials", "left_out"),
    [
        ({}, ["c000", "c001", "c002", "c004"], ["c003"]),
        ({"status": "running"}, ["c000", "c001", "c002", "c004"], []),
        ({"metric": {"name": "loss", "above": 0.05, "below": 0.2}}, ["c001"], []),
        ({"metric": {"above": 0.15}}, ["c002"], ["c003"]),
        ({"text": "relu"}, ["c004"], []),
        ({"trials": ["c001", "c003", "c009"], "owner": ""}, ["c001"], ["c003"]),
    ],
)
def test_a_filter_selects_and_the_effect_says_what(
    client: TestClient, runner: FakeRunner, where: Any, trials: list[str], left_out: list[str]
) -> None:
    predicted = client.post(EFFECT, json={"command": "stop", "where": where}).json()
    assert predicted["trials"] == trials
    assert [each["trial"] for each in predicted["left_out"]] == left_out
    assert predicted["effect"]["sentences"][0].startswith(f"stop {len(trials)} configuration")
    assert pending(runner) == []
    reply = client.post(BULK, json={"command": "stop", "where": where})
    assert reply.status_code == 201
    assert pending(runner) == trials == [each["command"]["trial"] for each in reply.json()["commands"]]


def test_a_repeated_request_is_one_and_another_body_is_refused(client: TestClient, runner: FakeRunner) -> None:
    key = {"Idempotency-Key": "k_1%"}
    body = {"command": "extend", "epochs": 2, "where": {"status": "running"}}
    first = client.post(BULK, json=body, headers=key).json()
    # c004 would not be part of it any more.
    runner.report("orders", order(decisions=[{"decision": "stop", "trial": "c004", "reason": "rank 4"}]))
    assert client.post(BULK, json=body, headers=key).json()["commands"] == first["commands"]
    assert len(pending(runner)) == 4
    reply = client.post(BULK, json={**body, "epochs": 3}, headers=key)
    assert reply.status_code == 422 and "Idempotency-Key must be new" in reply.json()["error"]["message"]
    assert client.post(BULK, json=body, headers={"Idempotency-Key": "k_12"}).status_code == 201
    assert len(pending(runner)) == 7


def test_a_change_of_one_refuses_all(client: TestClient, runner: FakeRunner) -> None:
    revisions = {
        each["trial"]: each["revision"]
        for each in client.get("/api/v1/experiments/r1/configurations").json()["configurations"]
    }
    client.post("/api/v1/experiments/r1/commands", json={"command": "pause", "trial": "c001"})
    for path in (EFFECT, BULK):
        reply = client.post(path, json={"command": "stop", "where": {"trials": revisions}})
        assert reply.status_code == 409 and "c001 has changed since revision 1" in reply.json()["error"]["message"]
    assert pending(runner) == ["c001"]


def test_configurations_are_added_together(client: TestClient, runner: FakeRunner) -> None:
    body = {"command": "add", "configurations": [{"lr": 0.1}, {"lr": 0.2}], "epochs": 2}
    assert client.post(EFFECT, json=body).json()["effect"]["epochs"] == 4
    assert client.post(BULK, json=body).status_code == 201
    assert [each["command"]["params"] for each in runner.pending()] == [{"lr": 0.1}, {"lr": 0.2}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"command": "stop", "where": {"status": "finished"}},
            "where must match a configuration, got none. trial must",
        ),
        ({"command": "stop", "where": {"owner": "bob"}}, "where must match a configuration, got none."),
        ({"command": "stop", "where": {"stat": "running"}}, "got 'stat'; did you mean 'status'?"),
        ({"command": "stop", "where": {"metric": {"over": 1}}}, "metric must be a mapping such as"),
        ({"command": "stop", "where": {"trials": "c000"}}, "trials must be a list of ids"),
        ({"command": "stp"}, "did you mean 'stop'?"),
        ({"command": "extend"}, "epochs must be a whole number"),
        ({"command": "add", "configurations": [{"lr": 0.1}, {}]}, "params must be a mapping of names"),
        ({"command": "add"}, "configurations must be a list of hyperparameters"),
    ],
)
def test_an_impossible_request_changes_nothing(
    client: TestClient, runner: FakeRunner, body: dict[str, Any], message: str
) -> None:
    reply = client.post(BULK, json=body)
    assert reply.status_code == 422 and message in reply.json()["error"]["message"], reply.text
    assert pending(runner) == []
