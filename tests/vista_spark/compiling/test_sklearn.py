"""Compiled models of scikit-learn against the library itself: equal classes, equal values, the same refusals."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

from optimizer.compiling import ProgramError, Trees, UnsupportedOperatorError
from vista_spark import CompiledPipeline, compile_pipeline
from vista_spark.compiling._registry import parsed_classes
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CLASSES = (
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(max_depth=2),
    RandomForestClassifier(7, max_depth=6, random_state=0),
    RandomForestClassifier(3, max_depth=12, random_state=0),
    ExtraTreesClassifier(5, max_depth=4, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_depth=3, init="zero"),
    GradientBoostingClassifier(n_estimators=6, max_leaf_nodes=9),
    HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=9),
    make_pipeline(StandardScaler(), LogisticRegression()),
    LinearSVC(dual=False),
    Perceptron(),
    RidgeClassifier(),
    make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=5, random_state=0)),
    make_pipeline(SelectKBest(k=3), MinMaxScaler(clip=True), LogisticRegression()),
    make_pipeline(FeatureUnion([("pca", PCA(2)), ("svd", TruncatedSVD(2))]), LogisticRegression()),
    GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [2, 5]}, cv=2),
)
VALUES = (
    DecisionTreeRegressor(max_depth=7),
    RandomForestRegressor(5, max_depth=6, random_state=0),
    GradientBoostingRegressor(n_estimators=15),
    HistGradientBoostingRegressor(max_iter=10),
    LinearRegression(),
    Ridge(),
    Lasso(),
    SGDRegressor(max_iter=20, tol=None),
    make_pipeline(RobustScaler(), PCA(4, whiten=True), Ridge()),
)
FEATURIZERS = (
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False),
    MinMaxScaler((-1, 2)),
    MaxAbsScaler(),
    MaxAbsScaler(clip=True),
    RobustScaler(with_centering=False),
    Normalizer("l1"),
    Normalizer("l2"),
    Normalizer("max"),
    Binarizer(threshold=0.1),
    VarianceThreshold(0.2),
    PCA(3),
    TruncatedSVD(3),
    make_pipeline("passthrough", StandardScaler()),
    FeatureUnion([("a", MaxAbsScaler()), ("b", "drop"), ("c", "passthrough")], transformer_weights={"a": 3.0}),
    ColumnTransformer(
        [("one", StandardScaler(), [2, 0]), ("two", "passthrough", slice(1, 2))], remainder=MinMaxScaler()
    ),
)


def name(model: Any) -> str:
    return type(model).__name__


def same(model: Any, compiled: CompiledPipeline, table: NDArray[Any]) -> None:
    assert compiled.outputs
    for method in compiled.outputs:
        with np.errstate(divide="ignore"):  # the logarithm of no probability
            truth, ours = getattr(model, method)(table), getattr(compiled, method)(table)
        truth = truth.toarray() if hasattr(truth, "toarray") else truth
        if isinstance(truth, list):
            truth, ours = np.concatenate(truth, axis=1), np.concatenate(ours, axis=1)
        assert ours.shape == truth.shape, method
        if truth.dtype.kind == "f":
            tolerance = 1e-5 if truth.dtype == np.float32 else 1e-9
            scale = np.abs(truth, where=np.isfinite(truth), out=np.ones_like(truth)).max(initial=1.0)
            np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(ours, truth, err_msg=method)


def near_thresholds(compiled: CompiledPipeline, table: NDArray[Any]) -> NDArray[Any]:
    """Rows whose numbers are thresholds of the trees, and the numbers just below and above."""
    rows = [table]
    for node in compiled.program.nodes:
        if isinstance(node.operator, Trees) and node.operator.features == table.shape[1]:
            inner = node.operator.left != np.arange(len(node.operator.left))
            for feature, at in zip(node.operator.feature[inner], node.operator.threshold[inner], strict=True):
                near = np.repeat(table[:1], 3, axis=0)
                near[:, feature] = [np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)]
                rows.append(near)
    return np.concatenate(rows)


@pytest.mark.parametrize("model", CLASSES, ids=name)
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["iris", "cancer"])
def test_classes_are_those_of_the_library(model: Any, data: Any) -> None:
    table, labels = data(return_X_y=True)
    names = np.array(["a", "b", "ccc"])
    model.fit(table[::2], names[labels[::2]])
    compiled = compile_pipeline(model)
    same(model, compiled, near_thresholds(compiled, table))
    same(model, compiled, table.astype(np.float32))


@pytest.mark.parametrize("model", VALUES, ids=name)
def test_values_are_those_of_the_library(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    model.fit(table[::2], values[::2])
    compiled = compile_pipeline(model)
    same(model, compiled, near_thresholds(compiled, table))


@pytest.mark.parametrize("model", FEATURIZERS, ids=name)
def test_rows_are_transformed_as_by_the_library(model: Any) -> None:
    table = load_iris().data - 2.5
    model.fit(table[::2])
    compiled = compile_pipeline(model)
    same(model, compiled, table)
    same(model, compiled, table.astype(np.float32))
    same(model, compiled, table[:1])


def every_class() -> dict[str, type]:
    """All that have a parser, of this release."""
    compile_pipeline(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))  # imports the parsers
    known = dict(all_estimators())
    own = {name.removeprefix("sklearn.") for name in parsed_classes() if name.startswith("sklearn.")}
    return {name: kind for name, kind in known.items() if name in own - ELSEWHERE}


# Fitted on other tables than the one here: test_sklearn_features_*.py has them.
ELSEWHERE = {
    *("KBinsDiscretizer", "LabelBinarizer", "LabelEncoder"),
    *("GaussianRandomProjection", "SparseRandomProjection"),
    *("CountVectorizer", "DictVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "MultiLabelBinarizer",
}


# Their constructors want models, or steps.
PAIR = [("tree", DecisionTreeClassifier(max_depth=2)), ("logistic", LogisticRegression())]
GIVEN = {
    "BaggingClassifier": {"estimator": LogisticRegression()},
    "ClassifierChain": {"estimator": LogisticRegression()},
    "FixedThresholdClassifier": {"estimator": LogisticRegression()},
    "FrozenEstimator": {"estimator": LinearRegression()},
    "HalvingGridSearchCV": {"estimator": Ridge(), "param_grid": {"alpha": [1.0, 2.0]}, "cv": 2},
    "HalvingRandomSearchCV": {"estimator": Ridge(), "param_distributions": {"alpha": [1.0, 2.0]}, "cv": 2},
    "MultiOutputClassifier": {"estimator": LogisticRegression()},
    "MultiOutputRegressor": {"estimator": Ridge()},
    "OneVsOneClassifier": {"estimator": LogisticRegression()},
    "OneVsRestClassifier": {"estimator": LogisticRegression()},
    "RegressorChain": {"estimator": Ridge()},
    "SelfTrainingClassifier": {"estimator": LogisticRegression()},
    "StackingClassifier": {"estimators": PAIR, "cv": 2},
    "StackingRegressor": {"estimators": [("ridge", Ridge())], "cv": 2},
    "TunedThresholdClassifierCV": {"estimator": LogisticRegression(), "cv": 2},
    "VotingClassifier": {"estimators": PAIR},
    "VotingRegressor": {"estimators": [("ridge", Ridge()), ("lasso", Lasso())]},
    "ColumnTransformer": {"transformers": [("all", StandardScaler(), [0, 1])]},
    "FeatureUnion": {"transformer_list": [("all", StandardScaler())]},
    "GridSearchCV": {"estimator": Ridge(), "param_grid": {"alpha": [1.0, 2.0]}, "cv": 2},
    "OneHotEncoder": {"handle_unknown": "ignore"},
    "OrdinalEncoder": {"handle_unknown": "use_encoded_value", "unknown_value": -1},
    "QuantileTransformer": {"n_quantiles": 50},
    "Pipeline": {"steps": [("all", StandardScaler())]},
    "QuadraticDiscriminantAnalysis": {"reg_param": 0.1},
    "RFE": {"estimator": Ridge()},
    "RFECV": {"estimator": Ridge(), "cv": 2},
    "RandomizedSearchCV": {"estimator": Ridge(), "param_distributions": {"alpha": [1.0, 2.0]}, "n_iter": 2, "cv": 2},
    "SelectFromModel": {"estimator": Lasso()},
    "SelectFdr": {"alpha": 0.5},
    "SelectFpr": {"alpha": 0.5},
    "SelectFwe": {"alpha": 0.5},
    "SelectKBest": {"k": 4},
    "SequentialFeatureSelector": {"estimator": Ridge(), "n_features_to_select": 2, "cv": 2},
}


@pytest.mark.parametrize("fresh", every_class().items(), ids=lambda fresh: fresh[0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning")
def test_every_class_that_has_a_parser(fresh: tuple[str, type]) -> None:
    kind, build = fresh
    model = build(**GIVEN.get(kind, {}))
    model.set_params(
        **{name: 5 for name in ("n_estimators", "max_iter") if name in model.get_params() and "Hist" in kind}
    )
    table, values = load_diabetes(return_X_y=True)
    table = table[:, :1] if kind == "IsotonicRegression" else table - table.min() if "NB" in kind else table
    classifies = kind in dict(all_estimators(type_filter="classifier"))
    target = values > 140 if classifies else values
    if kind.startswith("MultiTask"):
        target = np.stack([values, -values], axis=1)
    elif kind.startswith("MultiOutput") or kind.endswith("Chain"):
        target = np.stack([target, ~target if classifies else -target], axis=1)
    if kind == "SelfTrainingClassifier":
        target = np.where(np.arange(len(values)) % 3, target, -1)
    if kind == "FrozenEstimator":
        model.estimator.fit(table, target)
    model.fit(table[:200], target[:200])
    same(model, compile_pipeline(model), table)


def test_an_older_release_that_normalises_one_model_a_class_is_refused() -> None:
    model = LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True))
    model.multi_class = "ovr"
    with pytest.raises(UnsupportedOperatorError, match="multi_class='ovr'"):
        compile_pipeline(model)
    del model.multi_class
    model.solver = "liblinear"
    with pytest.raises(UnsupportedOperatorError, match="solver='liblinear' and 3 classes"):
        compile_pipeline(model)


def test_a_strategy_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="tree_strategy must be one of 'auto', 'gemm'"):
        compile_pipeline(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), tree_strategy="fast")


@pytest.mark.parametrize("strategy", ["gemm", "traversal", "perfect"])
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
def test_every_strategy_finds_the_same_leaves(strategy: str, missing: bool) -> None:
    table, labels = load_iris(return_X_y=True)
    if missing:
        table = np.where(np.random.default_rng(0).random(table.shape) < 0.2, np.nan, table)
    for model in (
        RandomForestClassifier(6, max_depth=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=7),
    ):
        model.fit(table, labels)
        same(model, compile_pipeline(model, tree_strategy=strategy), table)


def test_missing_goes_where_the_library_sends_it() -> None:
    """Also in a forest that saw nothing missing while it was fitted, and to an infinite threshold."""
    table, labels = load_iris(return_X_y=True)
    holes = np.where(np.random.default_rng(1).random(table.shape) < 0.3, np.nan, table)
    forest = RandomForestClassifier(9, random_state=0).fit(table, labels)
    same(forest, compile_pipeline(forest), holes)
    only = np.where(labels == 2, np.nan, 1.0)[:, None]
    histogram = HistGradientBoostingClassifier(max_iter=3).fit(only, labels == 2)
    same(histogram, compile_pipeline(histogram), np.array([[np.nan], [1.0], [np.inf], [-np.inf], [5.0]]))


def test_ties_go_to_the_first_class_as_sums_of_the_library_do() -> None:
    """Leaves of thirds add up to all but equal shares: only the library's order gives the library's class."""
    rows = np.random.default_rng(3).integers(0, 3, (300, 2)).astype(float)
    labels = np.random.default_rng(4).integers(0, 3, 300)
    forest = RandomForestClassifier(30, max_depth=2, random_state=0).fit(rows, labels)
    assert (forest.predict_proba(rows) == compile_pipeline(forest).predict_proba(rows)).all()


def test_several_outputs_of_a_forest() -> None:
    table, values = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(4, max_depth=5, random_state=0).fit(table, np.stack([values, -values], axis=1))
    same(forest, compile_pipeline(forest), table)


def test_trees_take_nan_in_a_dense_table_alone() -> None:
    """A step before them may have made the table a sparse one, as by few categories of many."""
    words = np.array([f"word {number % 12}" for number in range(60)], object)
    table = pd.DataFrame({"word": words, "x": np.arange(60.0)})
    labels = np.arange(60) % 2
    row = pd.DataFrame({"word": ["word 1"], "x": [np.nan]})
    for threshold, takes in ((0.0, True), (1.0, False)):
        columns = [("word", OneHotEncoder(), ["word"]), ("x", StandardScaler(), ["x"])]
        features = ColumnTransformer(columns, sparse_threshold=threshold)
        model = make_pipeline(features, VarianceThreshold(), RandomForestClassifier(3, random_state=0))
        model.fit(table, labels)
        compiled = compile_pipeline(model)
        assert compiled.predict(table).tolist() == model.predict(table).tolist()
        if takes:
            assert compiled.predict(row).tolist() == model.predict(row).tolist()
            continue
        with pytest.raises(ValueError, match="contains NaN"):
            model.predict(row)
        with pytest.raises(InvalidArgumentError, match="which RandomForestClassifier of a sparse table"):
            compiled.predict(row)


def test_what_the_library_refuses_is_refused() -> None:
    table, labels = load_iris(return_X_y=True)
    boosted = compile_pipeline(GradientBoostingClassifier(n_estimators=2).fit(table, labels))
    for wrong in (np.nan, np.inf, 1e39):
        bad = table.copy()
        bad[3, 1] = wrong
        with pytest.raises(InvalidArgumentError, match=r"row 3 has .*GradientBoostingClassifier does not take"):
            boosted.predict(bad)
    histogram = compile_pipeline(HistGradientBoostingClassifier(max_iter=2).fit(table, labels))
    assert len(histogram.predict(np.full((2, 4), np.inf))) == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NMF(2), r"NMF \(sklearn.NMF\) cannot be compiled: it solves a problem for each row"),
        (make_pipeline(StandardScaler(), FunctionTransformer(np.gradient)), "FunctionTransformer"),
        (GaussianProcessRegressor(alpha=1.0, optimizer=None), "GaussianProcessRegressor .* is rarely used"),
        (GradientBoostingClassifier(n_estimators=1, init=LogisticRegression(max_iter=500)), "GradientBoosting.*init="),
    ],
    ids=name,
)
def test_what_has_no_translation_is_refused_by_name(model: Any, message: str) -> None:
    table, labels = load_iris(return_X_y=True)
    model.fit(np.round(np.abs(table)), labels)
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(model)


def test_a_model_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Fit it on a table"):
        compile_pipeline(RandomForestClassifier())
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    pipeline[0].fit(load_iris().data)
    with pytest.raises(InvalidArgumentError, match=r"must be fitted, got a LogisticRegression without coef_|classes_"):
        compile_pipeline(pipeline)


def test_a_users_own_subclass_is_another_model() -> None:
    class Mine(RandomForestClassifier):
        def predict(self, X: Any) -> Any:
            return super().predict(X)[::-1]

    with pytest.raises(UnsupportedOperatorError, match="Mine"):
        compile_pipeline(Mine(2).fit(*load_iris(return_X_y=True)))


def test_columns_are_taken_by_name() -> None:
    frame = load_iris(as_frame=True).frame.iloc[:, :4]
    model = LogisticRegression(max_iter=500).fit(frame, load_iris().target)
    compiled = compile_pipeline(model)
    assert (compiled.predict(frame[frame.columns[::-1]]) == model.predict(frame)).all()
    with pytest.raises(ColumnError, match=r"got none of .'petal width \(cm\)'"):
        compiled.predict(frame.iloc[:, :3])
    with pytest.raises(ColumnError, match="must hold numbers, got 'five'"):
        compiled.predict(frame.assign(**{frame.columns[0]: "five"}))
    with pytest.raises(ColumnError, match=r"got \(150, 3\)"):
        compiled.predict(frame.to_numpy()[:, :3])
    with pytest.raises(AttributeError, match="has no transform; it has predict"):
        compiled.transform(frame)


def test_whole_numbers_that_float64_has_not_are_refused() -> None:
    compiled = compile_pipeline(DecisionTreeRegressor().fit([[0], [2]], [0.0, 1.0]))
    with pytest.raises(InvalidArgumentError, match="integers up to"):
        compiled.predict([[2**53 + 2]])
    assert compiled.predict(np.empty((0, 1))).shape == (0,)


def test_it_pickles_as_its_own_bytes_and_is_saved_without_code(tmp_path: Path) -> None:
    table, labels = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(table, labels)
    compiled = compile_pipeline(model, tree_strategy="traversal")
    data = pickle.dumps(compiled)
    assert b"sklearn" not in data
    again = pickle.loads(data)
    assert again.tree_strategy == "traversal"
    same(model, again, table)
    compiled.save(tmp_path / "model.safetensors")
    same(model, CompiledPipeline.load(tmp_path / "model.safetensors"), table)
    with pytest.raises(FileExistsError):
        compiled.save(tmp_path / "model.safetensors")


def test_an_altered_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    compile_pipeline(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])).save(path)
    whole = path.read_bytes()
    for wrong in (whole[:-3], b"", whole[:-1] + bytes([whole[-1] ^ 1]), whole.replace(b"predict", b"predikt")):
        path.write_bytes(wrong)
        with pytest.raises(ProgramError):
            CompiledPipeline.load(path)


def test_a_frame_of_pandas_without_names_in_the_model() -> None:
    table, labels = load_iris(return_X_y=True)
    model = DecisionTreeClassifier().fit(table, labels)
    assert (compile_pipeline(model).predict(pd.DataFrame(table)) == model.predict(table)).all()


def test_tables_of_arrow_and_sparse_ones() -> None:
    frame = load_iris(as_frame=True).data
    model = LogisticRegression(max_iter=500).fit(frame, load_iris().target)
    compiled = compile_pipeline(model)
    table = pa.Table.from_pandas(frame[frame.columns[::-1]])
    for rows in (table, table.to_batches()[0]):
        assert (compiled.predict(rows) == model.predict(frame)).all()
    with pytest.raises(ColumnError, match="got none of"):
        compiled.predict(table.drop_columns(table.column_names[:1]))
    for rows in (sparse.csr_matrix(frame), sparse.coo_array(frame.to_numpy())):
        with pytest.raises(ColumnError, match=r"must be a dense table, got a c.*Pass X.toarray\(\)"):
            compiled.predict(rows)
