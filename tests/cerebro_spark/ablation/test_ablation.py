"""Ablations on a real session, whose truth is known: one column alone determines the label."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

import searches
from searches import FEATURES, common, network, plain_loop, states

from cerebro_spark import Ablation, AblationResult, Store
from cerebro_spark.errors import InvalidArgumentError, RunError
from udfs.shards import load_shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from udfs.shards import Tensors

HYPERPARAMETERS = {"lr": 0.05, "hidden": 8}


def ablation(spark: SparkSession | None, store: Any, **settings: Any) -> Ablation:
    usual = {
        "features": ["age", "hours_per_week"],
        "hyperparameters": HYPERPARAMETERS,
        "num_epochs": 3,
        "repeats": 3,
        "controls": False,
    }
    return Ablation(**common(spark, store, **usual | settings))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    drawn = pd.DataFrame(np.random.default_rng(0).normal(size=(400, len(FEATURES))), columns=FEATURES)
    return spark.createDataFrame(drawn.assign(label=(drawn["age"] > 0).astype("int64")))


@pytest.fixture(scope="module")
def result(spark: SparkSession, table: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> AblationResult:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    parts = {"modules": {"norm": "1"}, "params": ["mistyped"]}
    fitted = ablation(spark, store, **parts).fit(table, run_id="known")
    assert isinstance(fitted, AblationResult)
    return fitted


def test_the_feature_that_determines_the_label_comes_first(result: AblationResult) -> None:
    rows = result.table.set_index("part")
    assert rows.index.tolist()[0] == "age"
    assert rows.loc[["age", "hours_per_week"], "verdict"].tolist() == ["worse without", "not distinguishable"]
    assert rows.loc["age", "rank"] == 1
    assert pd.isna(rows.loc["hours_per_week", "rank"])
    assert rows.loc["age", "low"] > 0.2
    assert "rank 1, worse without" in result.explain()
    labels = [each.get_text() for each in result.plot().axes[0].get_yticklabels()]
    assert labels[0] == "1. age"
    assert set(labels[1:]) == {"hours_per_week", "norm", "mistyped"}


def test_replacements_and_parts_without_an_effect_are_reported(result: AblationResult) -> None:
    rows = result.table.set_index("part")
    assert rows["replaced_by"].to_dict() == {"age": "", "hours_per_week": "", "norm": "identity", "mistyped": ""}
    assert result.replacements == {"norm": {"1": "identity"}}
    mistyped = next(line for line in result.explain().splitlines() if "mistyped" in line)
    assert "all scores equal those of the full model" in mistyped
    assert "norm: 1 replaced by identity" in result.explain()


def test_variants_of_a_repeat_differ_in_the_part_alone(result: AblationResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each model is that of a plain loop over rows with a column of zeros, with the seeds and visits of its repeat."""
    trained = states(result)
    visits: dict[int, set[Any]] = {}
    for trial in result.trials:
        removed, repeat = trial.params["_removed"], trial.params["repeat"]
        places = [FEATURES.index(name) for name in removed["features"]]
        visits.setdefault(repeat, set()).add(trial.visits)

        def masked(*arguments: Any, places: list[int] = places) -> Tensors:
            rows = load_shard(*arguments)
            values = rows.inputs[0].copy()
            values[:, places] = 0
            return replace(rows, inputs=(values,))

        def without(hidden: int, paths: list[str] = removed["modules"]) -> torch.nn.Module:
            net = network(hidden)
            for path in paths:
                net.set_submodule(path, torch.nn.Identity())
            return net

        monkeypatch.setattr(searches, "load_shard", masked)
        monkeypatch.setattr(searches, "network", without)
        expected = plain_loop(result.prepared, trial.params, f"repeat {repeat}", trial.visits, seed=5)
        for name, value in expected.items():
            np.testing.assert_array_equal(trained[trial.trial_id][name], value, err_msg=f"{trial.params} {name}")
    assert sorted(visits) == [0, 1, 2]
    assert all(len(orders) == 1 for orders in visits.values())


def test_a_model_without_a_feature_does_not_read_it(result: AblationResult, table: DataFrame) -> None:
    chosen = next(trial for trial in result.trials if trial.params["variant"] == "age")
    model = result.model(chosen.trial_id)
    scores = [
        np.stack([row.rawPrediction.toArray() for row in model.transform(rows).select("rawPrediction").collect()])
        for rows in (
            table,
            table.withColumn("age", -3 * table["age"]),
            table.withColumn("hours_per_week", -table["age"]),
        )
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 1}, "repeats must be a whole number of at least 2, got 1. One training of each variant"),
        ({"modules": 3}, "modules must be"),
        ({"features": ["agee"]}, "got 'agee'; did you mean 'age'"),
        ({"features": {"all": FEATURES}}, "features must leave at least one feature column"),
        ({"features": None}, "must name a part to remove, got none"),
        ({"stack": "auto"}, "stack must be 'off' in an ablation"),
        ({"confidence": 1.0}, "confidence must be a number from 0.5 to 0.9999, got 1.0"),
        ({"num_epochs": 0}, "num_epochs must be a whole number of at least 1, got 0"),
        ({"hyperparameters": {"without": 3}}, "hyperparameters must not have 'without', which the ablation sets"),
        ({"hyperparameters": 3}, "hyperparameters must be a dict, got 3"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, tmp_path: Any) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        ablation(None, tmp_path, **settings)
    assert message in str(raised.value)


def test_an_unknown_module_is_refused_before_the_rows_are_prepared(spark: SparkSession, tmp_path: Any) -> None:
    rows = spark.createDataFrame([(0.0,)], "missing double")
    with pytest.raises(InvalidArgumentError, match="modules must be modules of the network, got 'body'"):
        ablation(spark, tmp_path, modules=["body"]).fit(rows)


def test_a_resumed_ablation_has_the_same_effects(spark: SparkSession, table: DataFrame, result: AblationResult) -> None:
    parts = {"modules": {"norm": "1"}, "params": ["mistyped"]}
    again = ablation(spark, result.prepared.store, **parts).resume("known")
    assert isinstance(again, AblationResult)
    pd.testing.assert_frame_equal(again.table, result.table)
    with pytest.raises(RunError):
        ablation(spark, result.prepared.store).resume("known")


def test_a_copy_has_the_names_in_params(tmp_path: Any) -> None:
    """Spark ML's own copy takes ``params`` for Params."""
    copied = ablation(None, str(tmp_path), features=None, params=["dropout"]).copy()
    assert [variant.name for variant in copied.variants] == ["full", "dropout"]
    assert copied.explainParams() == ""
