"""Compiled ONNX models against onnxruntime: classes equal, values within 1e-5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from optimizer.compiling import UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from onnx import TensorProto, helper

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


def answers(model: Any, table: NDArray[Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    feeds = (
        {inputs[0].name: table}
        if len(inputs) == 1
        else {one.name: table[:, place : place + 1] for place, one in enumerate(inputs)}
    )
    return [_plain(one) for one in session.run(None, feeds)]


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(one.values()) for one in value])
    return np.asarray(value)


def same(model: Any, table: NDArray[Any], *, loose: float = 1e-5) -> Any:
    compiled = compile_pipeline(model)
    truth = answers(model, table)
    for method, expected in zip(compiled.outputs, truth, strict=False):
        found = getattr(compiled, method)(table)
        if expected.dtype.kind in "iUO":
            np.testing.assert_array_equal(found, expected.reshape(found.shape), err_msg=method)
        else:
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
            np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=loose, atol=loose * scale)
    return compiled


def hard(table: NDArray[Any]) -> NDArray[Any]:
    """The table, and rows with NaN, infinities, zeros and great numbers."""
    rows = np.repeat(table[:1], 6, axis=0)
    rows[0, 0], rows[1, 1], rows[2, 0] = np.nan, np.inf, -np.inf
    rows[3], rows[4], rows[5] = 0, 1e30, -0.0
    return np.concatenate([table, rows])


def near_splits(model: Any, table: NDArray[Any]) -> NDArray[Any]:
    rows = [table]
    for node in model.graph.node:
        named = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if "nodes_values" in named:
            for feature, at in list(zip(named["nodes_featureids"], named["nodes_values"], strict=True))[:60]:
                row = np.repeat(table[:1], 3, axis=0)
                limit = np.float32(at)
                row[:, feature] = [
                    np.nextafter(limit, np.float32(-np.inf)),
                    limit,
                    np.nextafter(limit, np.float32(np.inf)),
                ]
                rows.append(row)
    return np.concatenate(rows)


def converted(model: Any, table: NDArray[Any], **options: Any) -> Any:
    return skl2onnx.to_onnx(model, table[:1], **options)


TREES = (
    DecisionTreeClassifier(max_depth=4, random_state=0),
    RandomForestClassifier(7, max_depth=5, random_state=0),
    ExtraTreesClassifier(30, max_depth=2, random_state=0),
    GradientBoostingClassifier(n_estimators=4, max_depth=3, random_state=0),
    AdaBoostClassifier(n_estimators=3, random_state=0),
)


@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["iris", "cancer"])
@pytest.mark.parametrize("names", [False, True], ids=["numbers", "names"])
@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_classifiers_of_trees(model: Any, data: Any, names: bool) -> None:
    table, labels = data(return_X_y=True)
    table = table.astype(np.float32)
    model.fit(table[::2], np.array(["a", "b", "cc"])[labels[::2]] if names else labels[::2])
    proto = converted(model, table)
    same(proto, near_splits(proto, hard(table)))


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(max_depth=6),
        RandomForestRegressor(5, max_depth=5, random_state=0),
        GradientBoostingRegressor(n_estimators=5),
        VotingRegressor([("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=3))]),
        LinearRegression(),
        MLPRegressor(hidden_layer_sizes=(5, 4), max_iter=20, random_state=0),
        make_pipeline(StandardScaler(), PCA(3), Ridge()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_regressors(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    table = table.astype(np.float32)
    model.fit(table[::2], values[::2])
    proto = converted(model, table)
    same(proto, near_splits(proto, table))


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(max_iter=500),
        LinearSVC(dual=False),
        RidgeClassifier(),
        SGDClassifier(random_state=0),
        SGDClassifier(loss="log_loss", random_state=0),
        LinearDiscriminantAnalysis(),
        GaussianNB(),
        BernoulliNB(binarize=2.0),
        MultinomialNB(),
        MLPClassifier((5,), max_iter=20, random_state=0),
        make_pipeline(SimpleImputer(), MinMaxScaler(), LogisticRegression()),
        make_pipeline(SelectKBest(k=2), PolynomialFeatures(2), LogisticRegression(max_iter=500)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["iris", "cancer"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_classifiers(model: Any, data: Any) -> None:
    table, labels = data(return_X_y=True)
    table = (table / table.max(axis=0) * 5).astype(np.float32)
    model.fit(table[::2], labels[::2])
    same(converted(model, table), table, loose=2e-5)


@pytest.mark.parametrize(
    "model",
    [
        StandardScaler(),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        Normalizer("l1"),
        Normalizer("l2"),
        Normalizer("max"),
        Binarizer(threshold=0.5),
        SimpleImputer(),
        PCA(2),
        TruncatedSVD(2),
        PolynomialFeatures(2),
        PowerTransformer(),
        OrdinalEncoder(),
        KMeans(3, random_state=0, n_init=1),
        GaussianMixture(2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_featurizers(model: Any) -> None:
    table = load_iris().data.astype(np.float32)
    model.fit(table)
    same(converted(model, table), table, loose=5e-5)


def boosted(library: str, classes: int) -> Any:
    converters = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    table, labels = load_iris(return_X_y=True)
    labels = labels if classes == 3 else (labels > 0) * 1 if classes == 2 else labels + table[:, 0]
    kinds = [("X", FloatTensorType([None, 4]))]
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        model = kind(n_estimators=5, num_leaves=7, min_child_samples=3, verbose=-1).fit(table, labels)
        return converters.convert_lightgbm(model, initial_types=kinds, zipmap=False)
    xgboost = pytest.importorskip("xgboost")
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    model = kind(n_estimators=5, max_depth=3).fit(table, labels)
    return converters.convert_xgboost(model, initial_types=kinds)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters(library: str, classes: int) -> None:
    proto = boosted(library, classes)
    table = load_iris().data.astype(np.float32)
    same(proto, near_splits(proto, hard(table)))


def single(
    kind: str, given: dict[str, Any], *, domain: str = "", width: int = 3, outputs: int = 1, **attributes: Any
) -> Any:
    """A model of one operator."""
    initializers = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in given.items()]
    node = helper.make_node(kind, ["X", *given], [f"Y{place}" for place in range(outputs)], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, width])],
        [helper.make_value_info(f"Y{place}", helper.make_tensor_type_proto(0, None)) for place in range(outputs)],
        initializers,
    )
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=f"Y{place}") for place in range(outputs))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


ROW = np.float32([0.5, -2.0, 3.0])
ONE = np.float32([0.3])
ML = {"domain": "ai.onnx.ml"}
OPERATORS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((kind, {}, {}) for kind in ("Abs", "Exp", "Floor", "Neg", "Reciprocal", "Relu", "Sign")),
    *((kind, {}, {}) for kind in ("Sigmoid", "Tanh", "Sqrt", "Log", "Identity", "IsNaN")),
    *((kind, {"B": ROW}, {}) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")),
    *((kind, {"B": ROW[None]}, {}) for kind in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")),
    ("Pow", {"B": np.float32(2.0)}, {}),
    ("Pow", {"B": np.float32([2.0, 3.0, 0.5])}, {}),
    *(("ReduceSum", {"axes": np.int64([1])}, {"keepdims": keep}) for keep in (0, 1)),
    *((kind, {"axes": np.int64([1])}, {}) for kind in ("ReduceSumSquare", "ReduceProd", "ReduceLogSumExp")),
    ("Softmax", {}, {"axis": 1}),
    ("ArgMax", {}, {"axis": 1}),
    ("ArgMin", {}, {"axis": 1, "keepdims": 0}),
    ("MatMul", {"B": np.arange(6, dtype=np.float32).reshape(3, 2)}, {}),
    (
        "Gemm",
        {"B": np.arange(6, dtype=np.float32).reshape(2, 3), "C": ROW[:2]},
        {"transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    ("Gather", {"I": np.int64([2, 0, -1])}, {"axis": 1}),
    ("Slice", {"s": np.int64([1]), "e": np.int64([100]), "a": np.int64([1])}, {}),
    ("Slice", {"s": np.int64([-1]), "e": np.int64([-100]), "a": np.int64([1]), "t": np.int64([-1])}, {}),
    ("Clip", {"low": np.float32(-0.5), "high": np.float32(1.0)}, {}),
    ("Cast", {}, {"to": TensorProto.INT64}),
    ("Cast", {}, {"to": TensorProto.DOUBLE}),
    ("Reshape", {"s": np.int64([-1, 3, 1])}, {}),
    ("Flatten", {}, {}),
    ("Unsqueeze", {"a": np.int64([2])}, {}),
    ("ArrayFeatureExtractor", {"I": np.int64([1, 1, 0])}, ML),
    ("Binarizer", {}, {**ML, "threshold": 0.3}),
    ("FeatureVectorizer", {}, {**ML, "inputdimensions": [3]}),
    ("Imputer", {}, {**ML, "imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}),
    ("Imputer", {}, {**ML, "imputed_value_floats": [7.0], "replaced_value_float": 0.0}),
    *(("Normalizer", {}, {**ML, "norm": norm}) for norm in ("MAX", "L1", "L2")),
    ("Scaler", {}, {**ML, "offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, 1.0]}),
    ("Scaler", {}, {**ML, "offset": [1.0], "scale": [0.5]}),
    ("OneHotEncoder", {}, {**ML, "cats_int64s": [0, 2, 1], "zeros": 1}),
    (
        "LabelEncoder",
        {},
        {**ML, "keys_floats": [0.5, 0.0, float("nan")], "values_floats": [1.0, 2.0, 9.0], "default_float": -3.0},
    ),
    *(
        ("LinearRegressor", {}, {**ML, "coefficients": [1.0, -1.0, 0.5] * n, "intercepts": [0.25] * n, "targets": n})
        for n in (1, 2)
    ),
]


@pytest.mark.parametrize(
    ("kind", "given", "attributes"), OPERATORS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_operators_one_by_one(kind: str, given: dict[str, Any], attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 3)).astype(np.float32)
    special = np.float32([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1.0, 2.0, 1e-42, 1e30, 0.3])
    table = np.concatenate([table, rng.choice(special, size=(60, 3)).astype(np.float32)])
    if kind == "ArgMax" or (kind not in {"Cast", "ArgMin", "OneHotEncoder"} and not kind.startswith("Reduce")):
        holes = table[:20].copy()
        holes[np.arange(20), rng.integers(0, 3, 20)] = rng.choice(np.float32([np.nan, np.inf, -np.inf]), 20)
        if kind not in {
            "MatMul",
            "Gemm",
            "LinearRegressor",
            "Binarizer",
            "Normalizer",
            "Softmax",
            "LogSoftmax",
        }:
            table = np.concatenate([table, holes])
    if kind == "Cast":
        table = np.clip(table, -1e9, 1e9)
    proto = single(kind, given, **attributes)
    expected = answers(proto, table)[0]
    compiled = compile_pipeline(proto)
    (method,) = compiled.outputs
    found = getattr(compiled, method)(table)
    np.testing.assert_allclose(
        np.asarray(found, np.float64).reshape(-1), np.asarray(expected, np.float64).reshape(-1), rtol=2e-6, atol=1e-7
    )


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_linear_classifier(classes: int, post: str) -> None:
    rng = np.random.default_rng(1)
    labels = [4, 7] if classes == 1 else list(range(classes))
    proto = single(
        "LinearClassifier",
        {},
        outputs=2,
        coefficients=rng.normal(size=3 * classes).tolist(),
        intercepts=rng.normal(size=classes).tolist(),
        classlabels_ints=labels,
        post_transform=post,
        **ML,
    )
    table = np.concatenate([rng.normal(size=(50, 3)), np.zeros((1, 3))]).astype(np.float32)
    if classes == 1 and post == "SOFTMAX":
        with pytest.raises(UnsupportedOperatorError, match="one score, 2 classes and post_transform=SOFTMAX"):
            compile_pipeline(proto)
        return
    same(proto, table)


def tree_classifier(ids: list[int], weights: list[float], labels: int, post: str, base: list[float]) -> Any:
    """One split and two leaves; each leaf has a weight for each of the ids."""
    count = len(ids)
    more = {"base_values": base} if base else {}
    return single(
        "TreeEnsembleClassifier",
        {},
        outputs=2,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_values=[0.25, 0.0, 0.0],
        nodes_modes=["BRANCH_LT", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0] * (2 * count),
        class_nodeids=[1] * count + [2] * count,
        class_ids=ids * 2,
        class_weights=weights,
        classlabels_int64s=list(range(10, 10 + labels)),
        post_transform=post,
        **more,
        **ML,
    )


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize(
    ("ids", "weights", "labels"),
    [
        ([0], [0.2, 0.9], 2),
        ([0], [-0.2, 0.9], 2),
        ([1], [0.2, 0.9], 2),
        ([1], [-0.2, 0.9], 2),
        ([0, 1], [0.2, 0.8, 0.7, 0.3], 2),
        ([0, 1], [-0.2, -0.8, 0.7, -0.3], 2),
        ([0, 1, 2], [0.2, 0.3, 0.5, 0.9, 0.1, 0.0], 3),
        ([0, 1, 2], [-0.2, -0.3, -0.5, 0.9, 0.1, -0.4], 3),
    ],
)
@pytest.mark.parametrize("base", [[], [0.3], [0.1, 0.2, 0.4]], ids=["no base", "base", "bases"])
def test_every_rule_of_tree_classifiers(
    ids: list[int], weights: list[float], labels: int, post: str, base: list[float]
) -> None:
    """Equal to the runtime, or refused."""
    base = base[:labels] if len(base) > 1 else base
    if len(base) == 1 and labels > 2:
        return
    proto = tree_classifier(ids, weights, labels, post, base)
    table = np.float32([[0, 0, 0], [0, 0.25, 0], [0, 1, 0], [0, np.nan, 0]])
    try:
        compile_pipeline(proto)
    except UnsupportedOperatorError as error:
        assert "score, of class" in str(error) or "base values" in str(error)
        assert len(ids) == 1 or labels == 2
        return
    same(proto, table)


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("how", ["SUM", "AVERAGE"])
def test_every_comparison_of_a_tree(mode: str, tracks: int, how: str) -> None:
    proto = single(
        "TreeEnsembleRegressor",
        {},
        nodes_treeids=[0, 0, 0, 1],
        nodes_nodeids=[0, 1, 2, 0],
        nodes_featureids=[1, 0, 0, 0],
        nodes_values=[0.25, 0.0, 0.0, 0.0],
        nodes_modes=[mode, "LEAF", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 0],
        nodes_missing_value_tracks_true=[tracks, 0, 0, 0],
        target_treeids=[0, 0, 1],
        target_nodeids=[1, 2, 0],
        target_ids=[0, 0, 0],
        target_weights=[1.0, 2.0, 10.0],
        n_targets=1,
        aggregate_function=how,
        base_values=[0.5],
        **ML,
    )
    limit = np.float32(0.25)
    table = np.zeros((7, 3), np.float32)
    below, above = np.nextafter(limit, np.float32(-1)), np.nextafter(limit, np.float32(1))
    table[:, 1] = [below, limit, above, np.nan, np.inf, -np.inf, 0]
    if tracks and mode in {"BRANCH_EQ", "BRANCH_NEQ"}:
        with pytest.raises(UnsupportedOperatorError, match="track true"):
            compile_pipeline(proto)
        return
    same(proto, table)


def test_what_the_runtime_refuses_is_refused() -> None:
    compiled = compile_pipeline(single("Binarizer", {}, threshold=0.3, **ML))
    with pytest.raises(InvalidArgumentError, match="row 0 has NaN, which ONNX's Binarizer does not take"):
        compiled.transform(np.float32([[np.nan, 1, 2]]))


def test_classes_that_get_names() -> None:
    named = {"keys_int64s": [0, 1], "values_strings": ["no", "yes"], "default_string": "none"}
    nodes = [
        helper.make_node("ArgMax", ["X"], ["best"], axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["best"], ["label"], domain="ai.onnx.ml", **named),
    ]
    graph = helper.make_graph(
        nodes,
        "named",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("label", TensorProto.STRING, [None])],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 2)]
    same(helper.make_model(graph, opset_imports=opsets, ir_version=8), np.float32([[1, 2, 3], [3, 2, 1], [1, 3, 3]]))


def test_columns_of_their_own() -> None:
    """A model whose inputs are columns takes them by name."""
    from skl2onnx.common.data_types import FloatTensorType

    table, labels = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, labels)
    kinds = [(name, FloatTensorType([None, 1])) for name in ("a", "b", "c", "d")]
    proto = skl2onnx.convert_sklearn(model, initial_types=kinds)
    compiled = same(proto, table.astype(np.float32))
    assert compiled.columns == ("a", "b", "c", "d")


def test_bytes_and_files(tmp_path: Path) -> None:
    table, labels = load_iris(return_X_y=True)
    proto = converted(DecisionTreeClassifier(max_depth=2).fit(table, labels), table.astype(np.float32))
    path = tmp_path / "tree.onnx"
    path.write_bytes(proto.SerializeToString())
    expected = compile_pipeline(proto).predict(table)
    for one in (path, str(path), path.read_bytes()):
        assert (compile_pipeline(one).predict(table) == expected).all()
    with pytest.raises(InvalidArgumentError, match="model must be an ONNX model"):
        compile_pipeline(b"no model")


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (single("Selu", {}), "ONNX Selu cannot be compiled"),
        (single("ReduceSum", {"axes": np.int64([0])}), "which include the rows"),
        (single("Transpose", {}), "which moves the rows"),
        (single("LinearRegressor", {}, coefficients=[1.0] * 3, post_transform="PROBIT", **ML), "post_transform=PROBIT"),
    ],
)
def test_what_has_no_translation_is_refused_by_operator(proto: Any, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(proto)
