"""Optuna's own functions on an experiment of a server: they agree with what the server and the search say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")
optuna = pytest.importorskip("optuna")

from live_server import TOKEN, http_client, live_server
from steered_runs import FakeRunner, order, start

from cerebro_spark.steering import Client
from cerebro_spark.steering.studies import ExperimentStorage, ReadOnlyStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """An experiment: the loss depends on the rate alone; c007 runs, c008 has failed, c009 has diverged."""
    with live_server(tmp_path / "server.sqlite") as url, http_client(url) as requests:
        FakeRunner(requests, "first").begin("c000")
        runner = FakeRunner(requests)
        runner.register()
        params = [
            {"lr": 0.1 / 4**n, "width": 8 * (1 + n * 7 % 3), "net": ["a", "b"][n % 2], "sizes": [n]} for n in range(10)
        ]
        runner.report("orders", order(decisions=[start(f"c{n:03d}", params=each) for n, each in enumerate(params)]))
        for number in range(10):
            for epoch in (1, 2):
                runner.train(f"c{number:03d}", epoch, "nan" if number == 9 else abs(number - 4) + 1 / epoch)
        ends = [{"decision": "stop", "trial": f"c{n:03d}", "reason": "finished its 2 epochs"} for n in range(7)]
        diverged = {"decision": "stop", "trial": "c009", "reason": "diverged: loss is nan"}
        runner.report("orders", order([{"result": "ended", "trial": "c008", "status": "raised"}], [*ends, diverged]))
        yield Client(url, token=TOKEN)


def test_optuna_finds_what_the_server_says(client: Client) -> None:
    storage = ExperimentStorage(client)
    assert optuna.get_all_study_names(storage) == ["first", "r1"]
    study = optuna.load_study(study_name="r1", storage=storage)
    configurations = client.configurations("r1", sort="loss")
    assert study.best_trial.user_attrs["trial"] == configurations[0]["trial"] == "c004"
    assert study.best_value == client.experiment("r1")["best"] == 0.5
    assert study.best_params == {**configurations[0]["params"], "sizes": "[4]"}
    table = study.trials_dataframe()
    assert list(table["state"]) == ["COMPLETE"] * 7 + ["RUNNING", "FAIL", "FAIL"]
    assert list(table["user_attrs_trial"]) == [f"c{n:03d}" for n in range(10)]
    assert study.trials[3].intermediate_values == {1: 2.0, 2: 1.5}
    assert storage.get_trial(study.trials[3]._trial_id) == study.trials[3]
    importances = optuna.importance.get_param_importances(study, params=["lr", "width", "net"])
    assert next(iter(importances)) == "lr"
    assert [study.direction.name, study.metric_names] == ["MINIMIZE", ["loss"]]


def test_nothing_is_written(client: Client) -> None:
    study = optuna.load_study(study_name="r1", storage=ExperimentStorage(client))
    for write in (
        study.ask,
        lambda: study.set_user_attr("a", 1),
        lambda: study.tell(7, 1.0),
        lambda: optuna.create_study(study_name="new", storage=ExperimentStorage(client)),
        lambda: optuna.delete_study(study_name="r1", storage=ExperimentStorage(client)),
    ):
        with pytest.raises(ReadOnlyStorageError, match="storage must be read only"):
            write()
    with pytest.raises(KeyError, match="study_name must be an experiment of the server, got 'r2'"):
        optuna.load_study(study_name="r2", storage=ExperimentStorage(client))
    assert len(client.configurations("r1")) == 10
