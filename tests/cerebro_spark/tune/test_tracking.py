"""MLflow as a follower of a run: what its server refuses comes with the next event."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("mlflow")

from cerebro_spark.callbacks import EpochFinished, EventStream, RunStarted, TrialFinished, TrialState
from cerebro_spark.tune._tracking import Followers, tracked


class Server:
    """Stands for a tracking server: keeps what it gets, and refuses once."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.names: dict[str, str] = {}
        self.metrics: list[tuple[str, str, float, int]] = []
        self.ends: dict[str, str] = {}
        self.tags: dict[str, dict[str, str]] = {}

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=name)

    def create_run(self, _experiment: str, tags: dict[str, str]) -> Any:
        self._may("create_run " + tags["mlflow.runName"])
        run_id = f"r{len(self.names)}"
        self.names[run_id], self.tags[run_id] = tags["mlflow.runName"], tags
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def search_runs(self, _experiments: list[str], wanted: str, max_results: int) -> list[Any]:
        name = wanted.rpartition(" = ")[2].strip("'")
        found = [run for run, tags in self.tags.items() if tags.get("cerebro.campaign") == name]
        return [SimpleNamespace(info=SimpleNamespace(run_id=run)) for run in found[:max_results]]

    def update_run(self, run_id: str, status: str) -> None:
        self.ends[self.names[run_id]] = status

    def log_param(self, run_id: str, name: str, value: str) -> None: ...

    def set_tag(self, run_id: str, name: str, value: str) -> None: ...

    def log_metric(self, run_id: str, name: str, value: float, step: int) -> None:
        self._may(f"log_metric {self.names[run_id]} {step}")
        self.metrics.append((self.names[run_id], name, value, step))

    def set_terminated(self, run_id: str, status: str = "FINISHED") -> None:
        self.ends[self.names[run_id]] = status

    def _may(self, call: str) -> None:
        if call == self.refuses:
            self.refuses = ""
            raise ConnectionError("the server is away")


def story() -> list[Any]:
    trials = tuple(
        TrialState(trial_id=f"c00{place}", params={"lr": place}, status=status, units=0, history=({"loss": 4.0},))
        for place, status in enumerate(("running", "running", "diverged"))
    )
    start = RunStarted(
        run_id="first",
        trials=trials,
        epoch=1,
        num_epochs=3,
        num_units=8,
        seconds=0.0,
        metric="l",
        larger_is_better=False,
    )
    return [
        start,
        EpochFinished(epoch=1, metrics={"c000": {"loss": 3.0}, "c001": {"loss": 2.0}}),
        TrialFinished(trial_id="c001", status="raised"),
        EpochFinished(epoch=2, metrics={"c000": {"loss": 1.0}}),
        TrialFinished(trial_id="c000", status="finished"),
    ]


@pytest.mark.parametrize("refuses", ["", "create_run c001", "log_metric c000 0", "log_metric c001 1"])
def test_every_metric_is_logged_once(refuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(refuses)
    monkeypatch.setattr("mlflow.MlflowClient", lambda: server)
    followers = Followers(experiment="e", progress=False)
    with tracked(followers, run="first") as following, EventStream(following.callbacks) as stream:
        for event in story():
            stream.publish(event)
    assert server.refuses == ""
    assert sorted(server.metrics) == [
        ("c000", "loss", 1.0, 2),
        ("c000", "loss", 3.0, 1),
        ("c000", "loss", 4.0, 0),
        ("c001", "loss", 2.0, 1),
        ("c001", "loss", 4.0, 0),
        ("c002", "loss", 4.0, 0),
    ]
    assert server.ends == {"c000": "FINISHED", "c001": "FAILED", "c002": "FAILED"}


def test_an_error_marks_the_run_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setattr("mlflow.MlflowClient", lambda: server)
    with (
        pytest.raises(KeyboardInterrupt),
        tracked(Followers(experiment="e", progress=False), run="first"),
    ):
        raise KeyboardInterrupt
    assert server.ends == {"first": "FAILED"}


def test_a_run_whose_end_cannot_be_logged_looks_alive_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unpicturable:
        facts: ClassVar[dict[str, float]] = {}
        spec = SimpleNamespace(run="first")

        def explain(self) -> str:
            raise OSError("no space left on device")

    server = Server()
    monkeypatch.setattr("mlflow.MlflowClient", lambda: server)
    followers = Followers(experiment="e", progress=False)
    with tracked(followers, run="first") as following:
        following.finish(Unpicturable())
    assert server.ends == {"first": "FINISHED"}


def test_runs_of_a_campaign_have_one_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign's own is there once, and goes on and ends with each of its parts."""
    server = Server()
    monkeypatch.setattr("mlflow.MlflowClient", lambda: server)
    for number in range(2):
        followers = Followers(experiment="e", progress=False, campaign=("tweets", number))
        with tracked(followers, run=f"cycle {number}"):
            assert server.ends.get("tweets") == (None, "RUNNING")[number]
        with pytest.raises(KeyError), tracked(followers, run="bad"):
            raise KeyError
        assert server.ends["tweets"] == "FAILED"
    names = list(server.names.values())
    assert names == ["tweets", "cycle 0", "bad", "cycle 1", "bad"]
    parent = next(iter(server.names))
    assert [tags.get("mlflow.parentRunId") for tags in server.tags.values()] == [None, *[parent] * 4]
