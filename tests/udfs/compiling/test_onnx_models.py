"""Programs written as ONNX models, run by onnxruntime, against the compiled pipeline: what is refused too."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVC
from tree_agreement import holes, near_thresholds, strange

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from vista_spark import CompiledPipeline

pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ort = pytest.importorskip("onnxruntime")

BAD = "bad_rows"
MODELS = (
    GradientBoostingClassifier(n_estimators=6, max_depth=3),
    HistGradientBoostingClassifier(max_iter=6),
    RandomForestClassifier(7, max_depth=6, random_state=0),
    RandomForestClassifier(3, random_state=0),
    IsolationForest(n_estimators=5, random_state=0),
    make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
    make_pipeline(MinMaxScaler(clip=True), PolynomialFeatures(2), Ridge()),
    make_pipeline(KBinsDiscretizer(3, encode="onehot-dense"), LogisticRegression()),
    make_pipeline(PowerTransformer(), MLPClassifier((5,), max_iter=30, random_state=0)),
    PoissonRegressor(),
    GaussianNB(),
    SVC(),
    Normalizer("max"),
)


def run(compiled: CompiledPipeline, folder: Path, feed: Mapping[str, Any], dtype: str = "float64") -> dict[str, Any]:
    path = folder / f"{len(list(folder.iterdir()))}.onnx"
    compiled.to_onnx(path, dtype=dtype)
    runtime = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in runtime.get_outputs()], runtime.run(None, feed), strict=True))


def agree(compiled: CompiledPipeline, folder: Path, table: NDArray[Any]) -> NDArray[np.bool_]:
    """Hold all results for a table to the pipeline's; give the rows that both refuse."""
    given = run(compiled, folder, {"input": table}, table.dtype.name)
    bad: NDArray[np.bool_] = given.pop(BAD, np.zeros(len(table), np.bool_))
    for row in np.flatnonzero(bad)[:3]:
        with pytest.raises(InvalidArgumentError):
            getattr(compiled, compiled.outputs[0])(table[row : row + 1])
    for method in compiled.outputs:
        ours = getattr(compiled, method)(table[~bad])
        parts = ours if isinstance(ours, list) else [ours]
        names = [f"{method}_{number}" for number in range(len(parts))] if isinstance(ours, list) else [method]
        for name, own in zip(names, parts, strict=True):
            same(own, given.pop(name)[~bad], name, 1e-9 if table.dtype == np.float64 else 1e-5)
    assert not given, "an output that the pipeline has not"
    return bad


def same(ours: NDArray[Any], theirs: NDArray[Any], name: str, tolerance: float) -> None:
    assert ours.shape == theirs.shape, name
    if ours.dtype.kind != "f":
        np.testing.assert_array_equal(theirs, ours, err_msg=name)
        return
    tolerance = max(tolerance, 1e-5 if ours.dtype == np.float32 else 0)
    np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=1e-2 * tolerance, err_msg=name)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: "_".join(type(one).__name__ for one in _steps(model)))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_model_gives_what_the_pipeline_gives(model: Any, dtype: str, tmp_path: Path) -> None:
    """On the fitted rows, none of them and one; on NaN, infinities, 1e39 and other numbers that decide."""
    rows, labels = load_iris(return_X_y=True)
    compiled = compile_pipeline(model.fit(rows, labels))
    table = rows.astype(dtype)
    agree(compiled, tmp_path, table)
    agree(compiled, tmp_path, table[:0])
    agree(compiled, tmp_path, table[:1])
    odd = np.array([np.nan, np.inf, -np.inf, 1e39, 0.0, -0.0, 1e-3])
    places = np.array([[4, 5, 6, 4], [1, 3, 2, 4], [0, 4, 5, 6], [4, 3, 4, 4], [0, 0, 0, 0]])
    with np.errstate(over="ignore"):
        asked = np.concatenate([odd[places], strange(rows)[:40]]).astype(dtype)
    is_linear = any(isinstance(step, LogisticRegression | Ridge | PoissonRegressor | SVC) for step in _steps(model))
    bad = agree(compiled, tmp_path, asked[:5] if is_linear else asked)
    takes_all = isinstance(model, HistGradientBoostingClassifier | IsolationForest)
    assert bad[1] != takes_all, "a row with an infinity and 1e39"


def _steps(model: Any) -> list[Any]:
    return [step for _, step in model.steps] if hasattr(model, "steps") else [model]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_trees_at_their_thresholds_and_with_nan(dtype: str, tmp_path: Path) -> None:
    rows, target = load_diabetes(return_X_y=True)
    for model in (RandomForestRegressor(9, max_depth=7, random_state=0), HistGradientBoostingClassifier(max_iter=9)):
        compiled = compile_pipeline(model.fit(holes(rows), target > 140))
        with np.errstate(over="ignore"):
            asked = holes(near_thresholds(compiled, rows)).astype(dtype)
        asked = asked[~(np.abs(asked) > np.finfo(np.float32).max).any(axis=1)]
        given = run(compiled, tmp_path, {"input": asked}, dtype)
        for method in {"predict", "apply", "decision_function"} & set(compiled.outputs):
            # Leaves are added in the order of the trees: the bits are the same.
            np.testing.assert_array_equal(given[method], getattr(compiled, method)(asked), err_msg=method)


def test_boosters_keep_their_precision(tmp_path: Path) -> None:
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = holes(rows)
    models = (
        lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1),
        lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1),
        xgboost.XGBClassifier(n_estimators=20, n_jobs=1),
    )
    for model in models:
        compiled = compile_pipeline(model.fit(rows, labels))
        agree(compiled, tmp_path, near_thresholds(compiled, rows, 40))


def test_leaves_of_several_classes_are_laid_out_by_round_and_class(tmp_path: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=4).fit(rows, labels)
    compiled = compile_pipeline(model)
    np.testing.assert_array_equal(compiled.apply(rows), model.apply(rows))
    assert run(compiled, tmp_path, {"input": rows})["apply"].shape == (150, 4, 3)


def test_names_of_classes_and_lists_of_arrays(tmp_path: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    named = np.array(["setosa", "versicolor", "größe"])[labels]
    agree(compile_pipeline(LogisticRegression().fit(rows, named)), tmp_path, rows)
    agree(compile_pipeline(LogisticRegression().fit(rows, labels > 0)), tmp_path, rows)
    both = MultiOutputClassifier(LogisticRegression()).fit(rows, np.column_stack([labels, labels > 0]))
    agree(compile_pipeline(both), tmp_path, rows)


def test_columns_of_texts_are_inputs_of_their_own(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": [1.0, 2, 3, np.nan] * 9, "colour": ["red", "grün", "a ", "red"] * 9})
    labels = np.arange(36) % 3
    texts = make_pipeline(
        ColumnTransformer(
            [("colour", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"])],
            remainder=make_pipeline(KBinsDiscretizer(2, encode="ordinal")),
        ),
        LogisticRegression(),
    )
    frame["size"] = frame["size"].fillna(0)
    compiled = compile_pipeline(texts.fit(frame, labels))
    asked = pd.DataFrame({"size": [1.0, 5.0, 2.0], "colour": ["grün", "gr\u0075\u0308n", "reddish"]})
    feed = {"size": asked[["size"]].to_numpy(), "colour": asked[["colour"]].to_numpy(object)}
    given = run(compiled, tmp_path, feed)
    np.testing.assert_array_equal(given["predict"], texts.predict(asked))
    np.testing.assert_allclose(given["predict_proba"], texts.predict_proba(asked), rtol=1e-9)
    known = compile_pipeline(OrdinalEncoder().fit(frame[["colour"]]))
    given = run(known, tmp_path, {"colour": asked[["colour"]].to_numpy(object)})
    assert given[BAD].tolist() == [False, True, True], "an unknown category is refused, not made one of the known"


def test_what_has_no_exact_form_is_refused_by_name(tmp_path: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    refused = (
        (KNeighborsClassifier().fit(rows, labels), rows, "Neighbors"),
        (make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["a bee", "a sea"], [0, 1]), None, "Bag"),
        (OrdinalEncoder().fit(pd.DataFrame({"kind": ["a", None, "b"]})), None, "Encode with the value None"),
    )
    for model, _, name in refused:
        with pytest.raises(UnsupportedOperatorError, match=name):
            compile_pipeline(model).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir()), "nothing is written of a model that is refused"


def test_a_file_that_is_there_stays_and_types_are_two(tmp_path: Path) -> None:
    compiled = compile_pipeline(GaussianNB().fit(*load_iris(return_X_y=True)))
    (tmp_path / "model.onnx").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        compiled.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"mine"
    with pytest.raises(InvalidArgumentError, match="float16"):
        compiled.to_onnx(tmp_path / "other.onnx", dtype="float16")


@pytest.mark.extended
def test_without_onnx_the_package_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "from sklearn.naive_bayes import GaussianNB\n"
        "from vista_spark import compile_pipeline\n"
        "compiled = compile_pipeline(GaussianNB().fit([[0.0], [1.0]], [0, 1]))\n"
        "compiled.to_onnx(sys.argv[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "m.onnx")], capture_output=True, text=True, check=False
    )
    assert "pip install onnx" in done.stderr
