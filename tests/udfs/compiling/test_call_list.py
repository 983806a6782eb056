"""Tables of few rows, which run as a list of calls, against the eager program: the same bits, the same rows refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from udfs.compiling.torch import Engine
from udfs.compiling.torch._call_list import CallList
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEATURES = 5
DRAW = np.random.default_rng(0)
TABLE = DRAW.normal(size=(120, FEATURES))
CLASSES = np.array(["no", "perhaps", "yes"])[(TABLE[:, 0] > 0).astype(int) + (TABLE[:, 1] > 0.5)]
HARD = [0.0, -0.0, 5e-324, 1e19, -1e30, 1e39, 1e300, np.inf, -np.inf, np.nan, 1.0]


def _xgboost() -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=3)


def _lightgbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, min_child_samples=5, verbose=-1)


MODELS: dict[str, Any] = {
    "forest of three classes": lambda: (RandomForestClassifier(7, random_state=0), CLASSES),
    "scaled forest": lambda: (make_pipeline(StandardScaler(), RandomForestRegressor(4, random_state=0)), TABLE[:, 0]),
    "two classes, float64, NaN": lambda: (HistGradientBoostingClassifier(max_iter=4), CLASSES == "yes"),
    "LightGBM": lambda: (_lightgbm(), CLASSES == "yes"),
    "XGBoost": lambda: (_xgboost(), CLASSES == "yes"),
    "no trees": lambda: (make_pipeline(StandardScaler(), LogisticRegression()), CLASSES),
}


def hard_rows(dtype: Any) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return np.concatenate([TABLE[:8], DRAW.choice(HARD, (12, FEATURES))]).astype(dtype)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_one_row_gives_the_bits_of_the_eager_program(model: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, target = model()
    compiled = compile_pipeline(fitted.fit(TABLE, target))
    engine = compiled._scorer.engine(np.dtype(dtype).name)
    rows = hard_rows(dtype)
    rows.flags.writeable = False
    names = tuple(name for name in compiled.outputs if name != "apply")
    assert engine._call_list(names) is not None
    found = [engine.run(rows[at : at + count], (), names) for count in (1, 2, 7) for at in range(len(rows) - count + 1)]
    turned = engine.run(np.asfortranarray(rows)[5:8], (), names)
    monkeypatch.setattr(CallList, "takes", staticmethod(lambda _: False))
    eager = Engine(engine.program, plan=engine.plan)
    assert eager._call_list(names) is None
    spans = [(at, count) for count in (1, 2, 7) for at in range(len(rows) - count + 1)]
    for ours, (at, count) in zip([*found, turned], [*spans, (5, 3)], strict=True):
        truth = eager.run(rows[at : at + count], (), names)
        np.testing.assert_array_equal(ours.bad, truth.bad)
        assert ours.reasons == truth.reasons
        for name in names:
            good = ~truth.bad
            np.testing.assert_array_equal(ours.outputs[name][good], truth.outputs[name][good], err_msg=name)
            assert ours.outputs[name].dtype == truth.outputs[name].dtype


def test_threads_do_not_share_the_row_that_they_ask_for() -> None:
    compiled = compile_pipeline(RandomForestRegressor(30, random_state=0).fit(TABLE, TABLE[:, 0]))
    truth = compiled.predict(TABLE)
    compiled.predict(TABLE[:1])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: compiled.predict(TABLE[at : at + 1])[0], list(range(len(TABLE))) * 20))
    np.testing.assert_array_equal(found, np.tile(truth, 20))


def test_an_answer_is_not_overwritten_by_the_next_one() -> None:
    compiled = compile_pipeline(RandomForestClassifier(3, random_state=0).fit(TABLE, CLASSES))
    first = compiled.predict_proba(TABLE[:1])
    kept = first.copy()
    compiled.predict_proba(TABLE[1:2])
    np.testing.assert_array_equal(first, kept)
