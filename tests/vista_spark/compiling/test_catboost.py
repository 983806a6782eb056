"""Compiled models of CatBoost against the library: equal classes and leaves, equal values."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

catboost = pytest.importorskip("catboost")

from sklearn.datasets import load_iris
from tree_agreement import agree, holes, near_thresholds, strange

from optimizer.compiling import STRATEGIES, UnsupportedOperatorError
from vista_spark.compiling import CompiledPipeline, compile_pipeline, read_model
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DRAW = np.random.default_rng(0)
IRIS, SPECIES = (np.concatenate([part] * 2) for part in load_iris(return_X_y=True))
TABLE = IRIS + DRAW.normal(size=IRIS.shape) * 0.3
MISSING = holes(TABLE)
ASKED = np.concatenate([MISSING, strange(TABLE, more=(np.inf, -np.inf, 1e39))])
SMALL = {"iterations": 8, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
Classifier = partial(catboost.CatBoostClassifier, **SMALL)
Regressor = partial(catboost.CatBoostRegressor, **SMALL)


def held(model: Any, table: NDArray[Any] = ASKED, **options: Any) -> CompiledPipeline:
    compiled = compile_pipeline(model)
    rows = near_thresholds(compiled, table)
    return agree(model, rows, truth={"apply": model.calc_leaf_indexes}, compiled=compiled, **options)


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("missing", ["Min", "Max"])
def test_every_policy_and_every_place_of_missing(policy: str, missing: str) -> None:
    options = {"grow_policy": policy, "nan_mode": missing}
    for labels in (SPECIES, SPECIES > 0, np.array(["no", "yes"])[(SPECIES > 0) * 1], np.array(list("cab"))[SPECIES]):
        held(Classifier(**options).fit(MISSING, labels))
    held(Regressor(**options).fit(MISSING, SPECIES))
    held(Regressor(**options).fit(TABLE, SPECIES))  # nothing was missing while it was fitted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy(strategy: str) -> None:
    held(Classifier(nan_mode="Max").fit(MISSING, SPECIES), strategies=(strategy,))


def test_every_loss_of_classes() -> None:
    labels = np.stack([SPECIES > 0, SPECIES > 1], axis=1)
    held(Classifier(loss_function="MultiClassOneVsAll").fit(MISSING, SPECIES))
    held(Classifier(loss_function="CrossEntropy").fit(MISSING, SPECIES / 2))
    held(Classifier(loss_function="MultiLogloss").fit(MISSING, labels * 1))
    held(Classifier(loss_function="MultiCrossEntropy").fit(MISSING, labels * 0.5))


@pytest.mark.parametrize(
    "loss",
    [
        "MAE",
        "Quantile:alpha=.3",
        "Poisson",
        "Tweedie:variance_power=1.5",
        "RMSEWithUncertainty",
        "LogCosh",
        "MultiRMSE",
        "MultiQuantile:alpha=0.1,0.5",
    ],
)
def test_every_loss_of_values(loss: str) -> None:
    target = np.stack([SPECIES, SPECIES * 2], axis=1) if loss == "MultiRMSE" else SPECIES
    held(Regressor(loss_function=loss).fit(MISSING, target))


def test_rankers_plain_models_and_a_threshold_of_ones_own() -> None:
    ranker = catboost.CatBoostRanker(**SMALL, bootstrap_type="No")
    held(ranker.fit(MISSING, SPECIES, group_id=np.repeat(np.arange(30), 10)))
    held(catboost.CatBoost({**SMALL, "loss_function": "Logloss"}).fit(MISSING, SPECIES > 0))
    model = Classifier().fit(MISSING, SPECIES > 0)
    before = held(model).predict(ASKED)
    model.set_probability_threshold(0.7)
    assert (held(model).predict(ASKED) != before).any()


def test_early_stopping_and_shallow_trees() -> None:
    model = Classifier(early_stopping_rounds=3, learning_rate=0.9).set_params(iterations=60)
    model.fit(MISSING[:200], SPECIES[:200], eval_set=(MISSING[200:], SPECIES[:100]))
    assert held(model).apply(ASKED).shape[1] == model.tree_count_ < 60
    held(Regressor().set_params(iterations=1, depth=1).fit(TABLE, SPECIES))


def test_scale_and_bias_of_a_model() -> None:
    model = Regressor().fit(MISSING, SPECIES)
    model.set_scale_and_bias(2.5, -1 / 3)
    held(model)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model = Classifier().fit(MISSING, SPECIES)
    model.save_model(str(path), format="json")
    compiled = compile_pipeline(read_model(path))
    np.testing.assert_allclose(
        compiled.predict(ASKED), model.predict(ASKED, prediction_type="RawFormulaVal"), rtol=1e-9
    )
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnsupportedOperatorError, match="model of CatBoost must be complete"):
        read_model(path)


def test_names_of_columns() -> None:
    frame = pd.DataFrame(MISSING, columns=list("abcd"))
    compiled = compile_pipeline(Classifier().fit(frame, SPECIES))
    assert compiled.columns == tuple("abcd")
    assert compile_pipeline(Classifier().fit(MISSING, SPECIES)).columns is None


def test_what_is_refused() -> None:
    coded = TABLE.astype(int)
    with pytest.raises(UnsupportedOperatorError, match=r"cat_features=\['0'\] cannot be compiled"):
        compile_pipeline(Regressor(cat_features=[0]).fit(coded, SPECIES))
    with pytest.raises(InvalidArgumentError, match="Fit it on a table"):
        compile_pipeline(Classifier())


@pytest.mark.filterwarnings("error")
def test_a_table_that_the_library_made_read_only() -> None:
    table = TABLE.copy()
    model = Classifier().fit(table, SPECIES)
    table.setflags(write=False)
    assert (compile_pipeline(model).predict(table) == model.predict(table)[:, 0]).all()


def test_two_numbers_do_not_fill_one_column() -> None:
    import_module("sklearn.experimental.enable_iterative_imputer")
    imputer = import_module("sklearn.impute").IterativeImputer
    table = load_iris().data
    both = Regressor(loss_function="RMSEWithUncertainty", iterations=1)
    with pytest.raises(UnsupportedOperatorError, match="IterativeImputer with estimator="):
        compile_pipeline(imputer(both, max_iter=1, tol=10).fit(table))
