"""Models of scikit-learn that are made of models, against the library: every method, ties, names of classes, depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compiled_models import agree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.decomposition import NMF, PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from optimizer.compiling import Interpolate, Trees, UnsupportedOperatorError
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning")

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
GROWN = DecisionTreeRegressor(max_depth=3, random_state=0)
LOGISTIC = LogisticRegression(max_iter=300)
SVM = LinearSVC(dual=False)
PAIR = [("tree", TREE), ("logistic", LOGISTIC)]
MIXED = [("tree", TREE), ("svm", SVM), ("ridge", RidgeClassifier())]
REGRESSORS = [("tree", GROWN), ("ridge", Ridge()), ("gone", "drop")]

CLASSIFIERS = (
    AdaBoostClassifier(TREE, n_estimators=6, random_state=0),
    AdaBoostClassifier(n_estimators=9, random_state=0),
    BaggingClassifier(TREE, n_estimators=5, max_features=0.5, random_state=0),
    BaggingClassifier(SVM, n_estimators=5, random_state=0),
    BaggingClassifier(LOGISTIC, n_estimators=4, max_samples=6, random_state=1),
    BaggingClassifier(make_pipeline(TREE), n_estimators=6, max_samples=3, random_state=1),  # some lack a class
    VotingClassifier(MIXED),
    VotingClassifier([*MIXED, ("gone", "drop")], weights=[1, 3, 2, 9]),
    VotingClassifier(PAIR, voting="soft"),
    VotingClassifier([*PAIR, ("gone", "drop")], voting="soft", weights=[2, 1, 7]),
    StackingClassifier(MIXED, cv=2),
    StackingClassifier(PAIR, final_estimator=TREE, passthrough=True, cv=2),
    StackingClassifier(PAIR, stack_method="predict", cv=2),
    OneVsRestClassifier(LOGISTIC),
    OneVsRestClassifier(TREE),
    OneVsRestClassifier(Ridge()),
    OneVsOneClassifier(LOGISTIC),
    OneVsOneClassifier(TREE),
    OneVsOneClassifier(Ridge()),
    DummyClassifier(),
    DummyClassifier(strategy="most_frequent"),
    RFE(LOGISTIC, n_features_to_select=2, step=0.5),
    RFECV(TREE, step=0.5, cv=2),
    GridSearchCV(LOGISTIC, {"C": [1, 0.1]}, cv=2),
    RandomizedSearchCV(make_pipeline(StandardScaler(), SVM), {"linearsvc__C": [1, 0.1]}, n_iter=2, cv=2),
    make_pipeline(None, "passthrough", SelectFromModel(TREE), VotingClassifier(PAIR, voting="soft"), SVM),
)
VALUES = (
    AdaBoostRegressor(GROWN, n_estimators=7, random_state=0),
    BaggingRegressor(GROWN, n_estimators=5, max_features=0.6, random_state=0),
    VotingRegressor(REGRESSORS),
    VotingRegressor(REGRESSORS, weights=[1, 2.5, 4]),
    StackingRegressor(REGRESSORS, cv=2),
    StackingRegressor(REGRESSORS, cv=2, passthrough=True, final_estimator=GROWN),
    TransformedTargetRegressor(Ridge()),
    TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    TransformedTargetRegressor(
        GROWN, transformer=make_pipeline(MinMaxScaler(), RobustScaler(), StandardScaler(with_std=False), MaxAbsScaler())
    ),
    DummyRegressor(),
    DummyRegressor(strategy="median"),
    RFE(Ridge(), n_features_to_select=4),
)


def name(model: Any) -> str:
    return type(model).__name__


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name)
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["iris", "cancer"])
def test_classifiers_agree_with_the_library(model: Any, data: Any) -> None:
    table, labels = data(return_X_y=True)
    model.fit(table[::2], np.array(["b", "a", "ccc"])[labels[::2]])
    agree(model, table)
    agree(model, table[:40].astype(np.float32))


@pytest.mark.parametrize("model", VALUES, ids=name)
def test_regressors_agree_with_the_library(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    model.fit(table[::2], values[::2])
    agree(model, table)


@pytest.mark.parametrize("inner", [TREE, SVM, LOGISTIC], ids=name)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False], ids=["ensemble", "one"])
def test_calibrated_probabilities(inner: Any, method: str, ensemble: bool) -> None:
    for data in (load_iris, load_breast_cancer):
        table, labels = data(return_X_y=True)
        model = CalibratedClassifierCV(inner, method=method, ensemble=ensemble, cv=3)
        agree(model.fit(table[::2], np.array(["b", "a", "ccc"])[labels[::2]]), table)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_probabilities_of_ten_classes_and_of_one_that_a_fold_has_not(method: str) -> None:
    table, labels = load_digits(return_X_y=True)
    model = CalibratedClassifierCV(TREE, method=method, cv=2).fit(table[:400], labels[:400])
    agree(model, table)
    rare = [(np.arange(0, 30), np.arange(30, 60)), (np.arange(30, 60), np.arange(0, 30))]
    wanting = CalibratedClassifierCV(TREE, method=method, cv=rare)
    wanting.fit(table[:60], np.where((labels[:60] == 3) & (np.arange(60) < 30), 4, labels[:60]))
    assert {len(one.estimator.classes_) for one in wanting.calibrated_classifiers_} == {9, 10}
    agree(wanting, table)


@pytest.mark.parametrize(("dtype", "side"), [(np.float64, "right"), (np.float32, "left")])
def test_isotonic_calibration_takes_the_line_of_the_librarys_type_at_a_knot(dtype: Any, side: str) -> None:
    draw = np.random.default_rng(0)
    table = draw.integers(-9, 9, (200, 1)).astype(dtype)  # of one column: a score is one product and one sum
    labels = draw.random(200) < 1 / (1 + np.exp(-table[:, 0]))
    model = CalibratedClassifierCV(FrozenEstimator(LOGISTIC.fit(table, labels)), method="isotonic").fit(table, labels)
    compiled = agree(model, table)
    np.testing.assert_array_equal(compiled.predict_proba(table), model.predict_proba(table))
    knots = [node.operator for node in compiled.program.nodes if isinstance(node.operator, Interpolate)]
    assert {(knot.side, knot.x.dtype) for knot in knots} == {(side, np.dtype(dtype))}


SEVERAL = (
    MultiOutputClassifier(TREE),
    MultiOutputClassifier(LOGISTIC),
    ClassifierChain(LOGISTIC, order=[2, 0, 1]),
    ClassifierChain(TREE, chain_method="predict_proba", order=[1, 2, 0]),
    ClassifierChain(SVM, chain_method="decision_function"),
    OneVsRestClassifier(LOGISTIC),
    OneVsRestClassifier(TREE),
    RandomForestClassifier(4, max_depth=3, random_state=0),
    DecisionTreeClassifier(max_depth=3, random_state=0),
    DummyClassifier(),
    DummyClassifier(strategy="most_frequent"),
)


@pytest.mark.parametrize("model", SEVERAL, ids=name)
def test_several_labels_a_row(model: Any) -> None:
    table, labels = load_iris(return_X_y=True)
    several = np.stack([labels == 0, (labels > 0) & (table[:, 0] > 5.5), table[:, 1] > 3], axis=1).astype(int)
    without = ("predict_proba", "predict_log_proba") if "SVC" in str(model) else ()  # SVC raises: it has none
    if isinstance(model, RandomForestClassifier | DecisionTreeClassifier):
        without = ("apply",)
    compiled = agree(model.fit(table[::2], several[::2]), table, without=without)
    assert compiled.predict(table[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    "model",
    [MultiOutputClassifier(TREE), SEVERAL[7], SEVERAL[8], DummyClassifier(strategy="constant", constant=["b", "yyyy"])],
    ids=name,
)
def test_several_outputs_with_names_of_their_own(model: Any) -> None:
    table, labels = load_iris(return_X_y=True)
    named = np.stack([np.array(["b", "a", "ccc"])[labels], np.array(["x", "yyyy"])[(table[:, 0] > 6).astype(int)]], 1)
    trees = isinstance(model, RandomForestClassifier | DecisionTreeClassifier)
    agree(model.fit(table[::2], named[::2]), table, without=("apply",) if trees else ())


@pytest.mark.parametrize(
    "model",
    [
        MultiOutputRegressor(GROWN),
        RegressorChain(Ridge(), order=[1, 2, 0]),
        TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
        BaggingRegressor(GROWN, n_estimators=3, random_state=0),
        DummyRegressor(),
    ],
    ids=name,
)
def test_several_values_a_row(model: Any) -> None:
    table, values = load_diabetes(return_X_y=True)
    agree(model.fit(table[::2], np.stack([values, -values, values**2], axis=1)[::2]), table)


@pytest.mark.parametrize("inner", [TREE, SVM, LOGISTIC], ids=name)
@pytest.mark.parametrize("positive", [None, "no", "yes"])
def test_another_threshold(inner: Any, positive: str | None) -> None:
    table, labels = load_breast_cancer(return_X_y=True)
    named = np.array(["yes", "no"])[labels]
    inner = inner.fit(table[::2], named[::2])
    for threshold in ("auto", 0.25, -0.5):
        model = FixedThresholdClassifier(FrozenEstimator(inner), threshold=threshold, pos_label=positive)
        agree(model.fit(table[::2], named[::2]), table)
    tuned = TunedThresholdClassifierCV(inner, thresholds=20, cv=2).fit(table[::2], named[::2])
    agree(tuned, table)


def test_a_stacking_gives_codes_of_classes_as_whole_numbers() -> None:
    table, labels = load_iris(return_X_y=True)
    for passthrough, kind in ((False, "i"), (True, "f")):
        model = StackingClassifier(PAIR, stack_method="predict", cv=2, passthrough=passthrough).fit(table, labels)
        given, ours = model.transform(table), compile_pipeline(model).transform(table)
        assert given.dtype.kind == ours.dtype.kind == kind
        np.testing.assert_array_equal(ours, given)


def test_a_positive_label_that_is_no_class() -> None:
    inner = LogisticRegression().fit([[0.0], [1.0]], [2, 10])
    model = FixedThresholdClassifier(FrozenEstimator(inner), pos_label=False).fit([[0.0], [1.0]], [2, 10])
    with pytest.raises(UnsupportedOperatorError, match=r"pos_label=False .*the classes are \[2, 10\]"):
        compile_pipeline(model)


def test_a_score_at_the_threshold_is_of_the_positive_class() -> None:
    table = np.arange(8.0)[:, None]
    model = FixedThresholdClassifier(DecisionTreeClassifier(max_depth=1), threshold=0.75)
    compiled = agree(model.fit(table, [0, 1, 0, 0, 1, 1, 1, 0]), table)
    assert (compiled.predict_proba(table)[:, 1] == 0.75).any()


def test_self_training() -> None:
    table, labels = load_iris(return_X_y=True)
    some = np.where(np.arange(150) % 3, labels, -1)
    agree(SelfTrainingClassifier(LOGISTIC).fit(table, some), table)


HISTOGRAM = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=5)


@pytest.mark.parametrize(
    "model",
    [
        VotingClassifier([("tree", TREE), ("histogram", HISTOGRAM)]),
        StackingClassifier([("tree", TREE)], final_estimator=HISTOGRAM, passthrough=True, cv=2),
        BaggingClassifier(HISTOGRAM, n_estimators=2, max_features=0.5, random_state=0),
        OneVsRestClassifier(TREE),
        OneVsOneClassifier(TREE),
        CalibratedClassifierCV(HISTOGRAM, cv=2),
        GridSearchCV(TREE, {"max_depth": [1, 2]}, cv=2),
        AdaBoostClassifier(TREE, n_estimators=2),
        ClassifierChain(TREE),
        VotingClassifier([("tree", TREE), ("logistic", LOGISTIC)]),
    ],
    ids=name,
)
def test_missing_numbers_and_infinities_pass_where_the_library_lets_them(model: Any) -> None:
    table, labels = load_iris(return_X_y=True)
    target = np.stack([labels == 0, labels == 1], axis=1) if isinstance(model, ClassifierChain) else labels
    model.fit(table, target)
    compiled = compile_pipeline(model)
    for wrong in (np.nan, np.inf, -np.inf):
        holes = table.copy()
        holes[::7, 1] = wrong
        try:
            with np.errstate(invalid="ignore"):
                truth = model.predict(holes)
        except ValueError:
            with pytest.raises(InvalidArgumentError, match="row 0 and 21 more have"):
                compiled.predict(holes)
        else:
            np.testing.assert_array_equal(compiled.predict(holes), truth)


@pytest.mark.parametrize("search", ["HalvingGridSearchCV", "HalvingRandomSearchCV"])
def test_the_best_of_halving(search: str) -> None:
    from sklearn import model_selection  # these are there after an import of their own
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401

    table, labels = load_iris(return_X_y=True)
    model = getattr(model_selection, search)(TREE, {"max_depth": range(1, 30)}, cv=2, random_state=0)
    agree(model.fit(table, labels), table)


def test_votes_that_tie_go_to_the_first_class() -> None:
    """Members that disagree one against one, and weights whose sums are equal only in the order of the members."""
    rows = np.random.default_rng(0).integers(0, 3, (200, 2)).astype(float)
    labels = np.random.default_rng(1).integers(0, 4, 200)
    members = [(str(depth), DecisionTreeClassifier(max_depth=depth, random_state=depth)) for depth in range(1, 7)]
    for weights in (None, [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [1, 2, 3, 3, 2, 1]):
        for voting in ("hard", "soft"):
            agree(VotingClassifier(members, voting=voting, weights=weights).fit(rows, labels), rows)


def test_medians_whose_weights_reach_just_half() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (60, 2)).astype(float)
    model = AdaBoostRegressor(DecisionTreeRegressor(max_depth=1), n_estimators=6, random_state=0)
    model.fit(rows, rows.sum(axis=1))
    for weights in ([1.0] * 6, [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [3.0, 1.0, 1.0, 1.0, 0.0, 0.0]):
        model.estimator_weights_ = np.array(weights)[: len(model.estimators_)]
        agree(model, rows)


def test_pairs_that_tie_are_broken_by_confidence() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    labels = np.random.default_rng(1).integers(0, 5, 300)
    compiled = agree(OneVsOneClassifier(LOGISTIC).fit(rows, labels), rows)
    votes = np.sort(np.round(compiled.decision_function(rows)), axis=1)
    assert (votes[:, -1] == votes[:, -2]).any()


def test_a_class_that_every_row_has() -> None:
    table, labels = load_iris(return_X_y=True)
    several = np.stack([np.ones(150), np.zeros(150), labels == 1], axis=1).astype(int)
    with pytest.warns(UserWarning, match="present in all training examples"):
        model = OneVsRestClassifier(LOGISTIC).fit(table, several)
    agree(model, table)


def test_models_three_deep() -> None:
    table, labels = load_iris(return_X_y=True)
    named = np.array(["b", "a", "ccc"])[labels]
    bagged = BaggingClassifier(CalibratedClassifierCV(TREE, cv=2), n_estimators=2, random_state=0)
    inner = VotingClassifier([("bagged", bagged), ("each", OneVsRestClassifier(LOGISTIC))], voting="soft")
    stacked = StackingClassifier([("voting", inner), ("boosted", AdaBoostClassifier(n_estimators=3))], cv=2)
    model = GridSearchCV(make_pipeline(StandardScaler(), stacked), {"standardscaler__with_std": [True]}, cv=2)
    agree(model.fit(table[::2], named[::2]), table)


def test_what_members_have_in_common_runs_once() -> None:
    """Each pipeline inside has a scaler of its own, fitted on the same rows: so their numbers are equal."""
    table, labels = load_iris(return_X_y=True)
    members = [
        ("one", make_pipeline(StandardScaler(), PCA(2), LOGISTIC)),
        ("two", make_pipeline(StandardScaler(), PCA(2), TREE)),
        ("three", make_pipeline(StandardScaler(), TREE)),
    ]
    model = VotingClassifier(members, voting="soft").fit(table, labels)
    compiled = agree(model, table)
    names = [type(node.operator).__name__ for node in compiled.program.nodes]
    assert names.count("Arithmetic") == 2
    assert names.count("Finite") == 5  # of the table twice, for two models; of its scaled rows for each that reads them
    again = VotingClassifier([("one", TREE), ("two", TREE)], voting="soft").fit(table, labels)
    assert sum(isinstance(node.operator, Trees) for node in agree(again, table).program.nodes) == 1


def test_steps_of_a_column_transformer() -> None:
    frame = load_iris(as_frame=True).data
    mask = np.array([True, False, False, True])
    for steps in (
        [("names", StandardScaler(), ["petal width (cm)", "sepal length (cm)"]), ("all", "passthrough", slice(None))],
        [("mask", MinMaxScaler(), mask), ("call", MaxAbsScaler(), make_column_selector("petal"))],
        [("gone", "drop", [0, 1]), ("none", StandardScaler(), [])],
        [("slice", make_pipeline(None, PCA(1)), slice("sepal length (cm)", "sepal width (cm)"))],
    ):
        for remainder in ("drop", "passthrough", StandardScaler()):
            weights = {steps[0][0]: 2.5}
            model = ColumnTransformer(steps, remainder=remainder, transformer_weights=weights, sparse_threshold=1.0)
            agree(model.fit(frame), frame)


def test_unions() -> None:
    table = load_iris().data
    parts = [("gone", "drop"), ("as it is", "passthrough"), ("scaled", StandardScaler())]
    agree(FeatureUnion(parts, transformer_weights={"as it is": 2.0, "scaled": 0.5}).fit(table), table)
    nothing = compile_pipeline(FeatureUnion([("gone", "drop")]).fit(table), example=table[:1])
    assert nothing.transform(table).shape == (150, 0)
    agree(make_pipeline(FeatureUnion(parts), clone(FeatureUnion(parts)), memory=None).fit(table), table)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DummyClassifier(strategy="uniform"), "strategy='uniform' cannot be compiled: it draws random numbers"),
        (DummyClassifier(strategy="stratified"), "strategy='stratified' cannot be compiled: it draws random numbers"),
        (VotingClassifier(PAIR, weights=[1, -1]), "a weight is negative"),
        (VotingClassifier([("nmf", make_pipeline(NMF(2, max_iter=20), LOGISTIC))]), "NMF"),
        (TransformedTargetRegressor(Ridge(), transformer=PowerTransformer()), r"transformer=PowerTransformer\(\)"),
        (
            CalibratedClassifierCV(TREE, method="temperature", cv=2),
            "method='temperature' cannot be compiled",
        ),
        (GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=2, refit=False), "refit=False"),
    ],
    ids=lambda value: name(value) if not isinstance(value, str) else "",
)
def test_what_has_no_translation_is_refused(model: Any, message: str) -> None:
    table, labels = load_iris(return_X_y=True)
    model.fit(table, labels)
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_pipeline(model)


def test_names_of_classes_that_are_no_numbers_cannot_be_features() -> None:
    table, labels = load_iris(return_X_y=True)
    named = np.array(["b", "a", "ccc"])[labels]
    members = [("one", TREE.fit(table, named))]
    model = StackingClassifier(members, cv="prefit", stack_method="predict_proba").fit(table, named)
    agree(model, table)
    model.stack_method_ = ["predict"]
    with pytest.raises(UnsupportedOperatorError, match="the classes must be numbers"):
        compile_pipeline(model)


def test_an_example_tells_the_columns() -> None:
    frame = load_iris(as_frame=True).data
    model = LOGISTIC.fit(frame.to_numpy(), load_iris().target)
    compiled = compile_pipeline(model, example=frame[:1])
    assert compiled.columns == tuple(frame.columns)
    assert (compiled.predict(frame[frame.columns[::-1]]) == model.predict(frame.to_numpy())).all()
    stateless = FunctionTransformer().fit([[1.0, 2.0]])
    del stateless.n_features_in_
    with pytest.raises(InvalidArgumentError, match="pass example="):
        compile_pipeline(stateless)
    assert compile_pipeline(stateless, example=[[1.0, 2.0, 3.0]]).transform([[4, 5, 6]]).tolist() == [[4, 5, 6]]
    with pytest.raises(
        InvalidArgumentError, match=r"example must have the shape \(rows, 4\) .*LogisticRegression, got \(1, 3\)"
    ):
        compile_pipeline(model, example=[[1.0, 2.0, 3.0]])


def test_methods_that_are_not_there_are_named() -> None:
    compiled = compile_pipeline(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    for method in ("score_samples", "apply", "predict_log_proba"):
        with pytest.raises(AttributeError, match=f"has no {method}; it has predict"):
            getattr(compiled, method)([[1.0]])


LEAVES = st.sampled_from(
    [
        TREE,
        DecisionTreeClassifier(max_depth=1),
        LOGISTIC,
        SVM,
        GradientBoostingClassifier(n_estimators=2, max_depth=2),
        RandomForestClassifier(2, max_depth=2, random_state=0),
        make_pipeline(StandardScaler(), LOGISTIC),
    ]
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Models around drawn models."""
    pair = st.tuples(inner, inner).map(lambda two: [("a", two[0]), ("b", two[1])])
    return st.one_of(
        inner.map(lambda one: BaggingClassifier(one, n_estimators=2, max_features=0.8, random_state=0)),
        inner.map(lambda one: CalibratedClassifierCV(one, cv=2)),
        inner.map(lambda one: CalibratedClassifierCV(one, cv=2, method="isotonic", ensemble=False)),
        inner.map(OneVsRestClassifier),
        inner.map(OneVsOneClassifier),
        inner.map(lambda one: make_pipeline(MinMaxScaler(), one)),
        st.tuples(pair, st.sampled_from([None, [1, 2]])).map(lambda two: VotingClassifier(two[0], weights=two[1])),
        st.tuples(pair, LEAVES, st.booleans()).map(
            lambda drawn: StackingClassifier(drawn[0], drawn[1], cv=2, passthrough=drawn[2])
        ),
    )


@pytest.mark.filterwarnings("ignore:Since .* does not appear to accept sample_weight")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.recursive(LEAVES, nested, max_leaves=3), st.sampled_from([2, 3]), st.booleans())
def test_drawn_nestings_agree_with_the_library(model: Any, classes: int, texts: bool) -> None:
    draw = np.random.default_rng(classes)
    table: NDArray[np.float64] = np.round(draw.normal(size=(80, 3)), 1)
    labels = (table @ [1.0, -1.0, 0.5] + draw.normal(size=80) > 0).astype(int) + (classes == 3) * (table[:, 0] > 0.3)
    try:
        model.fit(table, np.array(["x", "yy", "z"])[labels] if texts else labels)
        model.predict(table)
    except (ValueError, AttributeError):  # the library itself does not nest these
        return
    compiled = compile_pipeline(model)
    agree(model, table, without=tuple({"predict_log_proba", "apply", "transform"} - set(compiled.outputs)))
