"""Compiled pipelines on the backend ``"onnxruntime"``, held to those that torch runs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from tree_agreement import holes, near_thresholds, strange

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import CompiledPipeline, TensorPipeline, compile_pipeline
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RUNTIME = "onnxruntime"
MODELS = (
    GradientBoostingClassifier(n_estimators=6, max_depth=3),
    HistGradientBoostingClassifier(max_iter=6),
    make_pipeline(StandardScaler(), RandomForestClassifier(7, max_depth=6, random_state=0)),
    make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
    make_pipeline(MinMaxScaler(), PolynomialFeatures(2, include_bias=False), SelectKBest(k=5), LogisticRegression()),
    make_pipeline(StandardScaler(), MLPClassifier((5,), max_iter=30, random_state=0)),
    GaussianNB(),
    SVC(),
)


def both(model: Any) -> tuple[CompiledPipeline, CompiledPipeline]:
    return compile_pipeline(model, backend=RUNTIME), compile_pipeline(model, backend="eager")


def refusal(compiled: CompiledPipeline, table: Any) -> str:
    try:
        compiled.predict(table)
    except InvalidArgumentError as error:
        return re.sub(r" \(columns? .*?\)", "", str(error))  # ONNX Runtime marks rows alone
    return ""


def agree(model: Any, table: Any, tolerance: float = 1e-9) -> list[str]:
    """Hold all results row by row to torch's; give the refusals."""
    ours, truth = both(model)
    refusals = []
    good = np.zeros(len(table), bool)
    for row in range(len(table)):
        wanted, given = (refusal(one, table[row : row + 1]) for one in (truth, ours))
        assert given == wanted, row
        good[row] = not wanted
        refusals += [wanted] if wanted else []
    for method in truth.outputs:
        wanted, given = (getattr(one, method)(table[good]) for one in (truth, ours))
        assert np.asarray(given).dtype == np.asarray(wanted).dtype
        if np.asarray(wanted).dtype.kind == "f":
            np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=1e-2 * tolerance, err_msg=method)
        else:
            np.testing.assert_array_equal(given, wanted, err_msg=method)
    return refusals


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(getattr(model, "_final_estimator", model)).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_and_refusals_are_those_of_torch(model: Any, dtype: type) -> None:
    rows, labels = load_iris(return_X_y=True)
    named = np.array(["setosa", "versicolor", "größe"])[labels]
    model.fit(rows, named)
    with np.errstate(over="ignore"):
        odd: NDArray[Any] = np.array(
            [[np.nan, 1, 1, 1], [1, np.inf, 1, 1], [1, 1, 1e39, 1], [0.0, -0.0, 0, 1e-3]]
        ).astype(dtype)
        asked = np.concatenate([rows[::10].astype(dtype), odd])
    # Float32 has seven digits in a product of matrices, and a logarithm near nothing has fewer.
    refusals = agree(model, asked, 1e-9 if dtype is np.float64 else 1e-4)
    takes_all = isinstance(model, HistGradientBoostingClassifier)
    assert (len(refusals) == 0) == takes_all
    agree(model, rows[:0].astype(dtype))


def test_trees_at_their_thresholds() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    model = HistGradientBoostingClassifier(max_iter=9, random_state=0).fit(holes(rows), labels)
    ours, truth = both(model)
    asked = np.concatenate([holes(near_thresholds(truth, rows, 40)), strange(rows)[:40]])
    # Leaves are added in the order of the trees: the bits are the same.
    np.testing.assert_array_equal(ours.decision_function(asked), truth.decision_function(asked))


def test_more_rows_than_a_chunk_and_lists_of_arrays() -> None:
    rows, labels = load_iris(return_X_y=True)
    many = np.tile(rows, (200, 1))
    model = MultiOutputClassifier(RandomForestClassifier(20, random_state=0))
    ours, truth = both(model.fit(rows, np.column_stack([labels, labels > 0])))
    assert len(many) > ours.plan.chunk
    np.testing.assert_array_equal(ours.predict(many), truth.predict(many))
    for given, wanted in zip(ours.predict_proba(many), truth.predict_proba(many), strict=True):
        np.testing.assert_array_equal(given, wanted)


def test_texts_are_looked_up_before_it() -> None:
    frame = pd.DataFrame({"size": [1.0, 2, 3, 4] * 9, "colour": ["red", "grün", None, "red"] * 9})
    encoder = ColumnTransformer([("colour", OneHotEncoder(sparse_output=False), ["colour"])], remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(frame, np.arange(36) % 3)
    ours, truth = both(model)
    np.testing.assert_allclose(ours.predict_proba(frame), truth.predict_proba(frame), rtol=1e-9)
    unknown = frame.assign(colour="reddish")
    for compiled in (ours, truth):
        with pytest.raises(InvalidArgumentError, match="a category that OneHotEncoder does not know"):
            compiled.predict(unknown)
    only = compile_pipeline(OrdinalEncoder().fit(frame[["colour"]]), backend=RUNTIME)
    np.testing.assert_array_equal(only.transform(frame[["colour"]])[:2], [[1.0], [0.0]])


def test_what_it_cannot_run_is_refused_when_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = load_iris(return_X_y=True)
    words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["a bee", "a sea"], [0, 1])
    for model, name in ((KNeighborsClassifier().fit(rows, labels), "Neighbors"), (words, "no sparse tables")):
        with pytest.raises(UnsupportedOperatorError, match=name):
            compile_pipeline(model, backend=RUNTIME)
    forest = RandomForestClassifier(3, random_state=0).fit(rows, labels)
    with pytest.raises(UnsupportedOperatorError, match="tree_strategy must be 'auto' or 'traversal'"):
        compile_pipeline(forest, backend=RUNTIME, tree_strategy="gemm")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InvalidArgumentError, match="pip install onnx onnxruntime"):
        compile_pipeline(forest, backend=RUNTIME)


def test_the_plan_says_what_runs() -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(*load_iris(return_X_y=True))
    said = compile_pipeline(forest, backend=RUNTIME).explain()
    assert "engine onnxruntime" in said
    assert "traversal" in said
    assert "kernel" not in said


def test_a_process_without_torch_scores(tmp_path: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(rows, labels)
    compiled = compile_pipeline(model, backend=RUNTIME)
    compiled.save(tmp_path / "model.safetensors")
    np.save(tmp_path / "rows.npy", rows)
    program = (
        "import sys; sys.modules['torch'] = None; sys.modules['sklearn'] = None\n"
        "import numpy as np, pyarrow as pa\n"
        "from udfs.compiling import PipelineScoring\n"
        "from pathlib import Path\n"
        "folder = Path(sys.argv[1]); rows = np.load(folder / 'rows.npy')\n"
        "scoring = PipelineScoring((folder / 'model.safetensors').read_bytes(), 'auto', ('features',), True,\n"
        "    (('predict', 'prediction'),), backend='onnxruntime')\n"
        "batch = pa.record_batch({'features': pa.array(rows.tolist(), pa.list_(pa.float64()))})\n"
        "print(scoring.open(1)(batch).columns[0].to_pylist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(model.predict(rows).astype(float).tolist())


def test_a_stage_keeps_it(spark: SparkSession, tmp_path: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    table: NDArray[Any] = rows.copy()
    table[3, 2] = np.nan
    df = spark.createDataFrame(list(enumerate(table.tolist())), "id int, features array<double>")
    model = GradientBoostingClassifier(n_estimators=3).fit(rows, labels)
    stage = TensorPipeline(compiled=compile_pipeline(model, backend=RUNTIME), errors="null", errorCol="why")
    stage.write().save(str(tmp_path / "stage"))
    again = TensorPipeline.load(str(tmp_path / "stage"))
    assert again.getCompiled().backend == RUNTIME
    found = again.transform(df).orderBy("id").toPandas()
    assert found["why"].dropna().index.tolist() == [3]
    kept = np.delete(np.arange(len(rows)), 3)
    assert found["prediction"][kept].tolist() == model.predict(rows[kept]).tolist()
