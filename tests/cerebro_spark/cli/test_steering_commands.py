"""Commands that steer a search from a terminal."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")

from live_server import TOKEN, http_client, live_server
from steered_runs import FakeRunner, epoch, order, start

from cerebro_spark.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from udfs.store import Store


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRunner]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("CEREBRO_TOKEN", TOKEN)
    with live_server(tmp_path / "server.sqlite") as url, http_client(url) as client:
        monkeypatch.setenv("CEREBRO_SERVER", url)
        runner = FakeRunner(client)
        runner.begin("c000", "c001")
        runner.train("c000", 1, 0.4)
        yield runner


def start_of_three(runner: FakeRunner) -> None:
    """Start a configuration of three hyperparameters."""
    params = {"lr": 0.1, "hidden": 8, "activation": "tanh"}
    runner.report("orders", order(decisions=[start("c002", params=params)]))


def cerebro(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def carried_out(runner: FakeRunner, state: str = "applied", **result: Any) -> threading.Thread:
    """Settle the next command, as the runner of a search does."""

    def settle() -> None:
        (command,) = runner.pending(wait=60)
        runner.settle(command, state, **result)

    thread = threading.Thread(target=settle, daemon=True)
    thread.start()
    return thread


def test_ls_lists_experiments_and_configurations(runner: FakeRunner) -> None:
    listed = cerebro("ls")
    assert "r1" in listed and "running" in listed and "loss (min)" in listed and "0.4" in listed
    configurations = cerebro("ls", "r1", "--sort", "-finished")
    assert configurations.index("c000") < configurations.index("c001")
    assert "1 of 3" in configurations and "grid" in configurations
    assert [each["trial"] for each in json.loads(cerebro("ls", "r1", "--json"))] == ["c000", "c001"]


def test_stop_prints_the_effect_and_the_outcome(runner: FakeRunner) -> None:
    thread = carried_out(runner)
    output = cerebro("stop", "r1", "c000")
    thread.join(20)
    assert "c000 keeps 1 finished epoch; 2 granted epochs are not trained." in output
    assert "stop c000: applied" in output


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["pause", "r1", "c000"], {"command": "pause", "trial": "c000"}),
        (["stop", "r1", "c001"], {"command": "stop", "trial": "c001"}),
        (["prioritise", "r1", "c001"], {"command": "prioritise", "trial": "c001"}),
        (["extend", "r1", "c000", "--epochs", "3"], {"command": "extend", "trial": "c000", "epochs": 3}),
        (["stop", "r1", "--where", "status=running", "--where", "loss<0.5"], {"command": "stop", "trial": "c000"}),
        (["end", "r1"], {"command": "end"}),
        (
            ["clone", "r1", "c000", "lr=0.01", "--epoch", "1", "--epochs", "2"],
            {"command": "clone", "trial": "c000", "params": {"lr": 0.01}, "epoch": 1, "epochs": 2},
        ),
        (
            ["add", "r1", "lr=0.5", "hidden=16", "activation=relu"],
            {"command": "add", "params": {"lr": 0.5, "hidden": 16, "activation": "relu"}, "epochs": None},
        ),
    ],
)
def test_a_command_stays_pending_without_a_runner(runner: FakeRunner, words: list[str], command: Any) -> None:
    start_of_three(runner)
    output = cerebro(*words, "--wait", "0")
    (pending,) = runner.pending()
    assert pending["command"] == command
    assert f"pending as {pending['id']}; the search carries it out once it is connected" in output


def test_configurations_of_a_space_are_added(runner: FakeRunner, tmp_path: Path) -> None:
    start_of_three(runner)
    space = tmp_path / "space.json"
    space.write_text(
        '{"lr": {"kind": "loguniform", "low": 0.001, "high": 0.1}, "hidden": {"kind": "fixed", "value": 8}}'
    )
    words = ["add", "r1", "activation=relu", "--count", "3", "--space", str(space), "--epochs", "2"]
    assert cerebro(*words, "--wait", "0").count("add: pending") == 3
    params = [each["command"]["params"] for each in runner.pending()]
    assert len({each["lr"] for each in params}) == 3
    assert all(0.001 <= each.pop("lr") <= 0.1 for each in params)
    assert params == [{"hidden": 8, "activation": "relu"}] * 3
    first = runner.pending()[0]["id"]
    assert f"{first}: withdrawn" in cerebro("withdraw", first)
    assert len(runner.pending()) == 2


def test_users_are_listed_and_removed(tmp_path: Path) -> None:
    from cerebro_spark.steering.server import open_database
    from udfs.web import Accounts

    path = str(tmp_path / "server.sqlite")
    engine = open_database(tmp_path / "server.sqlite")
    Accounts(engine).set_user("ada", "editor", "correct horse")
    Accounts(engine).set_program("nightly", "runner")
    listed = cerebro("users", "ls", "--database", path)
    assert "ada" in listed and "password" in listed and "runner" in listed and "token" in listed
    assert "did you mean 'ada'?" in cerebro("users", "rm", "adda", "--database", path, code=2)
    assert cerebro("users", "rm", "ada", "--database", path) == "removed ada\n"
    assert [user.name for user in Accounts(engine).users()] == ["nightly"]
    engine.dispose()
    assert "must be the file of a server" in cerebro("users", "ls", "--database", str(tmp_path / "no"), code=2)


def test_a_paused_configuration_is_resumed(runner: FakeRunner) -> None:
    for word in ("pause", "resume"):
        thread = carried_out(runner)
        assert f"{word} c000: applied" in cerebro(word, "r1", "c000")
        thread.join(20)


def test_a_command_that_the_search_refuses_ends_with_code_1(runner: FakeRunner) -> None:
    thread = carried_out(runner, "refused", message="limit of 2 configurations")
    assert "add: refused: limit of 2 configurations" in cerebro("add", "r1", "lr=1", code=1)
    thread.join(20)


def test_wrong_values_send_nothing(runner: FakeRunner, tmp_path: Path) -> None:
    assert "where must be status=, owner= or text=" in cerebro("stop", "r1", "--where", "loss=0.5", code=2)
    assert "name configurations, or conditions" in cerebro("stop", "r1", code=2)
    assert "hyperparameters must be NAME=VALUE" in cerebro("add", "r1", "lr", code=2)
    assert "--count must be the number" in cerebro("add", "r1", "--space", "space.json", code=2)
    (tmp_path / "list.json").write_text("[1]")
    for path in (tmp_path / "none.json", tmp_path / "list.json"):
        assert "--space must be a JSON file" in cerebro("add", "r1", "--count", "2", "--space", str(path), code=2)
    done = CliRunner().invoke(app, ["stop", "r1", "c007"])
    assert "trial must be a configuration of the run, got 'c007'" in str(done.exception)
    assert runner.pending() == []


def test_watch_prints_what_happens_until_the_end(runner: FakeRunner) -> None:
    def train() -> None:
        runner.train("c000", 2, 0.3)
        runner.report("orders", order([epoch("c001", 1, 0.7)], [start("c002", reason="drawn")]))
        runner.client.post(f"{runner.place}/ended", json={})

    timer = threading.Timer(0.5, train)
    timer.start()
    output = cerebro("watch", "r1")
    timer.join()
    assert "r1: running; configurations: 2; epochs: 1 finished, 5 remain" in output
    assert "c000 epoch 2: loss 0.3" in output and "c002 start: drawn" in output
    assert output.rstrip().endswith("experiment ended")
    assert cerebro("watch", "r1").startswith("r1: ended")


def test_index_fills_a_database(tmp_path: Path, store: Store) -> None:
    assert cerebro("index", "--store", store.uri, "--database", str(tmp_path / "new" / "server.sqlite")) == ""
    assert (tmp_path / "new" / "server.sqlite").exists()
    refused = CliRunner().invoke(app, ["index", "--store", "nowhere://x", "--database", str(tmp_path / "s.sqlite")])
    assert refused.exit_code == 2


def test_serve_refuses_wrong_values_before_it_starts(tmp_path: Path) -> None:
    words = ["serve", "--database", str(tmp_path / "server.sqlite")]
    for more in (["--host", "0.0.0.0"], ["--root-path", "x/"], ["--user", "ada:admin"], ["--certificate", "a.pem"]):
        assert CliRunner().invoke(app, [*words, *more]).exit_code == 2
    assert CliRunner().invoke(app, [*words, "--user", "ada"], input="short\n").exit_code == 2
