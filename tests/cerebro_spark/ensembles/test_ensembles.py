"""Ensembles of a real search, whose members a plain loop chooses again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from searches import adult, network, search
from sklearn.metrics import accuracy_score

from cerebro_spark import EnsembleModel
from cerebro_spark.errors import InvalidArgumentError
from udfs.handlers.torch._session import as_tensor
from udfs.packing import unpack
from udfs.shards import load_shard
from udfs.training import Folds

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark import Selection

K = 3


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, 400).cache()


@pytest.fixture(scope="module")
def selection(spark: SparkSession, table: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Selection:
    space = {"lr": [0.03, 0.001], "hidden": [4, 8]}
    return search(spark, tmp_path_factory.mktemp("store"), search_space=space, keep="epochs", test_fraction=0.5).fit(
        table
    )


def states(selection: Selection) -> dict[tuple[str, int], torch.nn.Module]:
    """The network of each configuration after each epoch, restored with nothing of ours but the format."""
    networks = {}
    for trial in selection.trials:
        for epoch, read in selection.epoch_states(trial.trial_id).items():
            net = network(trial.params["hidden"])
            net.load_state_dict(unpack(read(), as_tensor)["model"])
            networks[trial.trial_id, epoch] = net.eval()
    return networks


def chances(net: torch.nn.Module, rows: NDArray[Any]) -> NDArray[Any]:
    with torch.no_grad():
        return torch.softmax(net(torch.from_numpy(rows)).double(), 1).numpy()


def test_the_members_are_those_of_a_plain_loop(selection: Selection, table: DataFrame) -> None:
    model = selection.ensemble(K, seed=2)
    shards = [load_shard(selection.prepared, "validation", partition) for partition in selection.prepared.partitions]
    rows = np.concatenate([shard.inputs[0] for shard in shards])
    labels = np.concatenate([shard.labels[0] for shard in shards])
    first = np.concatenate([Folds(2, 2).assign(shard.inputs) for shard in shards]) == 0
    assert 0 < first.sum() < len(rows)
    predicted = {name: chances(net, rows) for name, net in states(selection).items()}
    assert len(predicted) == 8

    def score(names: list[tuple[str, int]], part: NDArray[Any]) -> float:
        mean = np.mean([predicted[name][part] for name in names], axis=0)
        return float(accuracy_score(labels[part], mean.argmax(axis=1)))

    chosen: list[tuple[str, int]] = []
    for step in model.steps.itertuples():
        scores = {name: score([*chosen, name], first) for name in predicted}
        name = (step.trial_id, step.epoch)
        assert step.selection_score == pytest.approx(max(scores.values()))
        assert scores[name] == max(scores.values())
        chosen.append(name)
        assert step.report_score == pytest.approx(score(chosen, ~first))
    assert len(chosen) == K
    assert model.scores["report"] == pytest.approx(score(chosen, ~first))
    assert model.members.choices.sum() == K
    assert model.members.weight.sum() == pytest.approx(1.0)
    # The Transformer predicts what was scored.
    out = model.transform(table).toPandas()
    features = np.array(out[[column.name for column in selection.prepared.inputs[0].columns]], np.float32)
    networks = states(selection)
    expected = np.mean([chances(networks[name], features) for name in chosen], axis=0)
    np.testing.assert_allclose(np.stack(out["probability"]), expected, atol=1e-5)
    assert out["prediction"].tolist() == expected.argmax(axis=1).tolist()


def test_a_majority_of_different_stable_members_is_saved(
    selection: Selection, table: DataFrame, tmp_path: Path
) -> None:
    model = selection.ensemble(2, ["accuracy"], vote="majority", replace=False)
    assert len(model.members) == 2
    assert model.candidates.reason.str.contains("and the best has|varies by").any()
    chosen = {(row.trial_id, row.epoch) for row in model.members.itertuples()}
    assert chosen <= {(row.trial_id, row.epoch) for row in model.candidates.itertuples() if not row.reason}
    model.save(str(tmp_path / "ensemble"))
    loaded = EnsembleModel.load(str(tmp_path / "ensemble"))
    assert loaded.explain() == model.explain()
    part = table.limit(20)
    first, other = (each.transform(part).select("prediction", "rawPrediction").collect() for each in (model, loaded))
    assert first == other
    assert {number for row in first for number in row["rawPrediction"]} <= {0.0, 1.0, 2.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 5}, r"k must be at most the number of configurations with a model, 4, got 5"),
        ({"k": 0}, r"k must be a whole number of at least 1, got 0"),
        ({"k": 2, "vote": "median"}, r"vote must be one of mean, majority, weighted, got 'median'"),
        ({"k": 2, "metrics": "accuracy"}, r"metrics must be a list of texts, got 'accuracy'"),
        ({"k": 2, "metrics": ["acuracy"]}, r"metrics must be one of .*, got 'acuracy'; did you mean 'accuracy'"),
        ({"k": 2, "metrics": ["log_loss"], "vote": "majority"}, r"metrics must be one of .*, got 'log_loss'"),
    ],
)
def test_arguments_that_are_not_allowed(
    selection: Selection, arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerebro_spark.ensembles._build.uses_slots", lambda _: pytest.fail("a job was started"))
    with pytest.raises(InvalidArgumentError, match=message):
        selection.ensemble(**arguments)
