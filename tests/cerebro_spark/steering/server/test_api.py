"""REST API: what runners report is what viewers read, and commands reach the runner once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from steered_runs import SETTINGS, FakeRunner, epoch, order, origin, start, unit

from optimizer.steering import document_digest

if TYPE_CHECKING:
    from starlette.testclient import TestClient

RUN = "/api/v1/experiments/r1"


@pytest.fixture
def runner(clients: Any) -> FakeRunner:
    return FakeRunner(clients("cluster", "runner"))


def send(client: TestClient, document: dict[str, Any], **headers: str) -> dict[str, Any]:
    reply = client.post(f"{RUN}/commands", json=document, headers=headers)
    assert reply.status_code == 201, reply.text
    return dict(reply.json()["command"])


def refused(client: TestClient, document: dict[str, Any], status: int, message: str, path: str = "commands") -> None:
    before = client.get(f"{RUN}/commands").json()
    reply = client.post(f"{RUN}/{path}", json=document)
    assert reply.status_code == status and message in reply.json()["error"]["message"], reply.text
    assert client.get(f"{RUN}/commands").json() == before


def test_what_a_runner_reports_is_what_viewers_read(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000", "c001")
    runner.train("c000", 1, 0.7)
    runner.train("c000", 2, "nan")
    listed = ada.get("/api/v1/experiments").json()["experiments"]
    assert [(each["run"], each["state"], each["configurations"], each["best"]) for each in listed] == [
        ("r1", "running", 2, 0.7)
    ]
    experiment = ada.get(RUN).json()["experiment"]
    assert (experiment["workers"], experiment["metrics"], experiment["statuses"]) == (2, ["loss"], {"running": 2})
    first, second = ada.get(f"{RUN}/configurations").json()["configurations"]
    assert (first["trial"], first["finished"], first["granted"], first["metrics"]) == ("c000", 2, 3, {"loss": "nan"})
    assert (first["revision"], first["seconds"], second["metrics"]) == (1, 4.0, {})
    curves = ada.get(f"{RUN}/metrics").json()
    assert curves["curves"] == {"c000": {"epochs": [1, 2], "values": [0.7, "nan"]}}
    assert ada.get(f"{RUN}/units").json()["units"] == [unit("c000", 0), unit("c000", 1)]


def test_a_cursor_leaves_out_what_the_client_has(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    runner.train("c000", 1, 0.7)
    curves, units = ada.get(f"{RUN}/metrics").json()["next"], ada.get(f"{RUN}/units").json()["next"]
    runner.train("c000", 2, 0.6)
    assert ada.get(f"{RUN}/metrics?since={curves}").json()["curves"] == {"c000": {"epochs": [2], "values": [0.6]}}
    assert ada.get(f"{RUN}/units?since={units}").json()["units"] == [unit("c000", 1)]


def test_an_event_counts_once(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    document = order([epoch("c000", 1)])
    body = {"stream": "orders", "documents": [[1, document]]}
    for _ in range(3):
        assert runner.client.post(f"{runner.place}/events", json=body).json() == {"next": {"orders": 2, "units": 0}}
    assert ada.get(RUN).json()["experiment"]["finished"] == 1
    assert runner.register() == {"next": {"orders": 2, "units": 0}}


@pytest.mark.parametrize(
    ("numbers", "status", "message"),
    [
        ([2], 409, "numbers of orders must ascend by 1 from at most 1, got [2]. Send the missing documents first."),
        ([1, 3], 409, "numbers of orders must ascend by 1 from at most 1"),
        ([0], 409, "document 0 of orders must be the one that the server has, got another"),
    ],
)
def test_a_gap_or_another_journal_is_refused(
    ada: TestClient, runner: FakeRunner, numbers: list[int], status: int, message: str
) -> None:
    runner.begin("c000")
    body = {"stream": "orders", "documents": [[number, order([epoch("c000", 1)])] for number in numbers]}
    reply = runner.client.post(f"{runner.place}/events", json=body)
    assert reply.status_code == status and message in reply.json()["error"]["message"]
    assert ada.get(RUN).json()["experiment"]["finished"] == 0


def test_an_invalid_document_leaves_no_trace(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    body = {"stream": "orders", "documents": [[1, order([epoch("c000", 1)])], [2, {"results": 3}]]}
    reply = runner.client.post(f"{runner.place}/events", json=body)
    assert reply.status_code == 422 and "results of an order must be a list, got 3" in reply.json()["error"]["message"]
    assert ada.get(RUN).json()["experiment"]["finished"] == 0
    assert runner.register()["next"] == {"orders": 1, "units": 0}


def test_a_command_waits_for_the_runner_and_its_order_settles_it(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    first = send(ada, {"command": "stop", "trial": "c000", "revision": 1})
    assert (first["state"], first["user"], first["revision"]) == ("pending", "ada", 1)
    assert ada.get(f"{RUN}/configurations").json()["configurations"][0]["pending"] == ["stop"]
    (received,) = runner.pending()
    assert received == first
    runner.stop(received)
    runner.stop(received)  # a runner that restarted may say so again
    (settled,) = ada.get(f"{RUN}/commands").json()["commands"]
    assert (settled["state"], settled["result"]) == ("applied", {"message": "", "trial": "c000"})
    assert runner.pending() == []
    (configuration,) = ada.get(f"{RUN}/configurations").json()["configurations"]
    assert (configuration["status"], configuration["reason"]) == ("stopped", "stopped by the user")


def test_an_added_configuration_names_its_owner(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    runner.train("c000", 1)
    send(ada, {"command": "clone", "trial": "c000", "params": {"lr": 0.01}})
    (command,) = runner.pending()
    source = {"trial": "c000", "epoch": 1}
    request = {"result": "added", "params": {"lr": 0.01}, "epochs": 3, "source": source, "origin": origin(command)}
    runner.report("orders", order([request], [start("c001", source=source, reason="added by the user")]))
    (settled,) = ada.get(f"{RUN}/commands").json()["commands"]
    assert settled["result"]["trial"] == "c001"
    (cloned,) = ada.get(f"{RUN}/configurations?owner=ada").json()["configurations"]
    assert (cloned["trial"], cloned["parent"], cloned["parent_epoch"]) == ("c001", "c000", 1)


def test_a_pause_is_settled_by_the_runner(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    send(ada, {"command": "pause", "trial": "c000"})
    (command,) = runner.pending()
    for _ in range(2):
        assert runner.settle(command).json()["command"]["state"] == "applied"
    assert runner.settle(command, "refused").status_code == 409
    (paused,) = ada.get(f"{RUN}/configurations?status=paused").json()["configurations"]
    assert (paused["reason"], paused["revision"]) == ("paused by ada", 3)
    # Another process of the runner has no pauses.
    runner.register(session="second process")
    assert ada.get(f"{RUN}/configurations?status=paused").json()["configurations"] == []
    runner.register(session="second process")
    assert ada.get(f"{RUN}/configurations").json()["configurations"][0]["revision"] == 4


def test_a_refused_command_says_why(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    send(ada, {"command": "add", "params": {"lr": 1}})
    runner.settle(runner.pending()[0], "refused", message="limit of 1 configurations")
    (settled,) = ada.get(f"{RUN}/commands").json()["commands"]
    assert (settled["state"], settled["result"]["message"]) == ("refused", "limit of 1 configurations")


def test_the_second_of_two_users_gets_a_conflict(clients: Any, ada: TestClient, runner: FakeRunner) -> None:
    bob = clients("bob", "editor")
    runner.begin("c000")
    revision = bob.get(f"{RUN}/configurations").json()["configurations"][0]["revision"]
    send(ada, {"command": "pause", "trial": "c000", "revision": revision})
    message = "c000 has changed since revision 1: ada asked to pause it. Load it again before you stop it"
    refused(bob, {"command": "stop", "trial": "c000", "revision": revision}, 409, message)
    refused(bob, {"command": "stop", "trial": "c000", "revision": revision}, 409, message, "effects")
    send(bob, {"command": "stop", "trial": "c000", "revision": revision + 1})


def test_epochs_cause_no_conflict(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    runner.train("c000", 1)
    send(ada, {"command": "stop", "trial": "c000", "revision": 1})


def test_a_repeated_request_is_one_command(clients: Any, ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000", "c001")
    key = {"Idempotency-Key": "k1"}
    document = {"command": "stop", "trial": "c000", "revision": 1}
    assert send(ada, document, **key) == send(ada, document, **key)
    # The reply stays the same after the command was carried out.
    runner.stop(runner.pending()[0])
    assert send(ada, document, **key)["state"] == "applied"
    assert len(ada.get(f"{RUN}/commands").json()["commands"]) == 1
    other = ada.post(f"{RUN}/commands", json={"command": "stop", "trial": "c001"}, headers=key)
    assert other.status_code == 422 and "Idempotency-Key must be new for another command" in other.text
    bob = clients("bob", "editor")
    assert send(bob, {"command": "stop", "trial": "c001"}, **key)["user"] == "bob"


def test_a_pending_command_can_be_withdrawn(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    command = send(ada, {"command": "stop", "trial": "c000"})
    for _ in range(2):
        reply = ada.delete(f"/api/v1/commands/{command['id']}")
        assert (reply.status_code, reply.json()["command"]["state"]) == (200, "withdrawn")
    assert runner.pending() == []
    # The journal is the truth: the runner had it already.
    runner.stop(command)
    assert ada.get(f"{RUN}/commands").json()["commands"][0]["state"] == "applied"
    reply = ada.delete(f"/api/v1/commands/{command['id']}")
    assert reply.status_code == 409 and "command must be pending, got one that was applied" in reply.text
    assert ada.delete("/api/v1/commands/none").status_code == 404


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"command": "stop", "trial": "c01"}, "trial must be a configuration of the run, got 'c01'; did you mean"),
        ({"command": "stop", "trial": "c001"}, "which has ended (finished: rank 2). Clone it instead"),
        ({"command": "clone", "trial": "c002"}, "trial must have finished an epoch, got c002, which has none"),
        ({"command": "clone", "trial": "c000", "epoch": 9}, "epoch must be a finished epoch of c000, 1 to 1, got 9"),
        ({"command": "clone", "trial": "c000", "params": {"lrr": 1}}, "did you mean 'lr'?"),
        ({"command": "clone", "trial": "c000", "epochs": 0}, "epochs"),
        ({"command": "clone", "trial": "c000", "epochs": True}, "epochs"),
        ({"command": "halt", "trial": "c000"}, "command must be one of add, clone"),
        ({"command": "stop"}, "trial must be the id of a configuration"),
        ({"command": "stop", "trial": "c000", "force": True}, "force"),
        ({"trial": "c000"}, "command"),
        ({"command": "add", "params": {}}, "params must be a mapping"),
    ],
)
def test_an_impossible_command_changes_nothing(
    ada: TestClient, runner: FakeRunner, document: dict[str, Any], message: str
) -> None:
    runner.begin("c000", "c001", "c002")
    runner.report("orders", order([epoch("c000", 1), epoch("c001", 1)]))
    runner.report("orders", order(decisions=[{"decision": "stop", "trial": "c001", "reason": "rank 2"}]))
    refused(ada, document, 422, message)
    refused(ada, document, 422, message, "effects")


def test_a_command_that_is_no_json_or_too_large_changes_nothing(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    assert ada.post(f"{RUN}/commands", content=b"{", headers={"Content-Type": "application/json"}).status_code == 422
    nan = b'{"command": "add", "params": {"lr": NaN}}'
    assert ada.post(f"{RUN}/commands", content=nan, headers={"Content-Type": "application/json"}).status_code == 422
    refused(ada, {"command": "add", "params": {"lr": "x" * 10_000_000}}, 413, "The body must have at most")


def test_an_effect_changes_nothing(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000", "c001")
    runner.train("c000", 1)
    reply = ada.post(f"{RUN}/effects", json={"command": "stop", "trial": "c000"})
    effect = reply.json()["effect"]
    assert (reply.status_code, effect["epochs"], effect["seconds"], effect["end_seconds"]) == (200, -2, -4.0, -2.0)
    assert runner.pending() == [] and ada.get(f"{RUN}/commands").json() == {"commands": []}


def test_an_ended_run_refuses_commands_until_it_is_resumed(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    send(ada, {"command": "pause", "trial": "c000"})
    assert runner.client.post(f"{runner.place}/ended", json={"error": "OSError: disk full"}).status_code == 200
    assert ada.get(RUN).json()["experiment"]["state"] == "failed"
    refused(ada, {"command": "stop", "trial": "c000"}, 422, "run must be running, got one that is over")
    runner.register()
    assert [each["command"]["command"] for each in runner.pending()] == ["pause"]
    runner.client.post(f"{runner.place}/ended", json={})
    assert ada.get(RUN).json()["experiment"]["state"] == "ended"
    (command,) = ada.get(f"{RUN}/commands").json()["commands"]
    assert (command["state"], command["result"]["message"]) == (
        "refused",
        "The search was over before the command arrived.",
    )


def test_a_journal_that_began_anew_replaces_the_first(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000", "c001")
    runner.train("c001", 1)
    anew = order(decisions=[start("c000", 9)])
    assert runner.register(fingerprint=document_digest(order(decisions=[start("c000"), start("c001")])))["next"] == {
        "orders": 2,
        "units": 1,
    }
    assert runner.register(fingerprint=document_digest(anew))["next"] == {"orders": 0, "units": 1}
    runner.report("orders", anew)
    assert [each["granted"] for each in ada.get(f"{RUN}/configurations").json()["configurations"]] == [9]


def test_a_run_belongs_to_one_store(runner: FakeRunner) -> None:
    runner.begin("c000")
    reply = runner.client.put(runner.place, json={**SETTINGS, "store": "file:///other"})
    assert reply.status_code == 409 and "store of r1 must be 'file:///data/cerebro', got 'file:///other'" in reply.text
    reply = runner.client.put("/api/v1/runner/experiments/.hidden", json=SETTINGS)
    assert reply.status_code == 422 and "the name of a run has letters" in reply.text


@pytest.mark.parametrize("sort", ["loss", "-loss", "trial", "-finished"])
def test_configurations_are_sorted(ada: TestClient, runner: FakeRunner, sort: str) -> None:
    runner.begin("c000", "c001", "c002", "c003")
    runner.report("orders", order([epoch("c000", 1, 0.9), epoch("c001", 1, "nan"), epoch("c002", 1, 0.1)]))
    listed = ada.get(f"{RUN}/configurations?sort={sort}").json()["configurations"]
    expected = {
        "loss": ["c002", "c000", "c001", "c003"],
        "-loss": ["c000", "c002", "c001", "c003"],
        "trial": ["c000", "c001", "c002", "c003"],
        "-finished": ["c000", "c001", "c002", "c003"],
    }
    assert [each["trial"] for each in listed] == expected[sort]
    reply = ada.get(f"{RUN}/configurations?sort=los")
    assert reply.status_code == 422 and "sort must be a field of a configuration or a metric, got 'los'" in reply.text


def test_an_unknown_run_is_404(ada: TestClient, runner: FakeRunner) -> None:
    runner.begin("c000")
    for path in ("", "/configurations", "/metrics", "/units", "/commands"):
        reply = ada.get(f"/api/v1/experiments/r11{path}")
        assert reply.status_code == 404 and "got 'r11'; did you mean 'r1'?" in reply.json()["error"]["message"]
    assert runner.client.get("/api/v1/runner/experiments/r11/commands").status_code == 404


@pytest.mark.parametrize(
    ("role", "method", "path"),
    [
        ("viewer", "POST", f"{RUN}/commands"),
        ("viewer", "POST", f"{RUN}/effects"),
        ("viewer", "DELETE", "/api/v1/commands/x"),
        ("runner", "POST", f"{RUN}/commands"),
        ("runner", "DELETE", "/api/v1/commands/x"),
        ("editor", "PUT", "/api/v1/runner/experiments/r1"),
        ("editor", "GET", "/api/v1/runner/experiments/r1/commands"),
        ("editor", "POST", "/api/v1/runner/experiments/r1/events"),
        ("editor", "POST", "/api/v1/runner/experiments/r1/commands/x"),
        ("editor", "POST", "/api/v1/runner/experiments/r1/ended"),
    ],
)
def test_a_role_is_required(clients: Any, role: str, method: str, path: str) -> None:
    assert clients("eve", role).request(method, path, json={}).status_code == 403
    anonymous = clients("eve", role)
    del anonymous.headers["Authorization"]
    assert anonymous.request(method, path, json={}).status_code in {401, 403}


def test_every_route_refuses_anonymous_requests(clients: Any, ada: TestClient) -> None:
    anonymous = clients("eve", "viewer")
    del anonymous.headers["Authorization"]
    paths = ada.get("/api/v1/openapi.json").json()["paths"]
    assert len(paths) > 10
    for path, methods in paths.items():
        for method in methods:
            assert anonymous.request(method, re.sub("{[a-z0-9]+}", "x", path)).status_code in {401, 403}, path
