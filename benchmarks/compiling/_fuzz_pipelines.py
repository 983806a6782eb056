"""Pipelines that a seed draws, from whatever has a parser: featurizers, models, and models of models."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils import all_estimators

from benchmarks.compiling._fuzz_options import draw_options
from vista_spark.compiling import _registry
from vista_spark.compiling._registry import parsed_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Draw", "Kind", "draw_pipeline", "known_kinds"]

_LIBRARIES = ("sklearn", "lightgbm", "xgboost", "catboost")
# Of these a Booster is taken once they are fitted.
_BOOSTERS = {"lightgbm.Booster": "LGBM", "xgboost.Booster": "XGB", "catboost.CatBoost": "CatBoost"}
_ONNX = 0.12
_UFUNCS = (None, np.abs, np.exp, np.log1p, np.sqrt, np.tanh, np.square, np.sign)
_OWN = frozenset({"Pipeline", "FeatureUnion", "ColumnTransformer"})
_TEXTS = frozenset({"CountVectorizer", "TfidfVectorizer", "HashingVectorizer"})
_CATEGORIES = frozenset({"OneHotEncoder", "OrdinalEncoder", "TargetEncoder"})
# Libraries that number the categories of a DataFrame themselves, the table for it, and the options.
_NUMBERING: dict[str, tuple[str, dict[str, Any]]] = {
    "LGBM": ("categoricals", {}),
    "XGB": (
        "categoricals in ASCII",
        {"enable_categorical": True, "tree_method": "hist", "booster": "gbtree", "missing": np.nan},
    ),
    "CatBoost": ("mixed", {"cat_features": ["word", "größe", "count"], "one_hot_max_size": 20}),
    "HistGradientBoosting": ("categoricals", {"categorical_features": "from_dtype"}),
}
# They take no table of numbers: their tables are of other kinds, or of labels.
_NO_TABLE = frozenset(
    {"LabelEncoder", "LabelBinarizer", "MultiLabelBinarizer", "DictVectorizer", "FeatureHasher", "IsotonicRegression"}
    | {"TfidfTransformer", "KernelCenterer", "FrozenEstimator", "SparseCoder", "PatchExtractor"}
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A class that has a parser.

    Parameters
    ----------
    name : str
        With its library, as ``"sklearn.PCA"``.
    build : type
    role : str
        ``"classifier"``, ``"regressor"``, ``"featurizer"``, ``"texts"``, ``"categories"``, ``"meta"`` or ``"other"``.
    """

    name: str
    build: type
    role: str


@dataclass(frozen=True, slots=True)
class Draw:
    """A pipeline that is not fitted, and what it is to be fitted on.

    Parameters
    ----------
    model : object
    task : str
        ``"classify"`` or ``"regress"``.
    table : str
        ``"numbers"``, ``"mixed"``, ``"categoricals"``, ``"categoricals in ASCII"`` or ``"documents"``.
    focus : str
        The class that the draw began with.
    form : str
        What is compiled once the model is fitted: ``"itself"``, its ``"booster"``, or what it becomes as ``"onnx"``.
    """

    model: Any
    task: str
    table: str
    focus: str
    form: str = "itself"


@cache
def known_kinds() -> tuple[Kind, ...]:
    """Find every class that has a parser and is installed, in alphabetical order."""
    for library in _LIBRARIES:
        try:
            importlib.import_module(library)
            importlib.import_module(f"vista_spark.compiling.{library}")
        except ImportError:
            continue
    own = dict(all_estimators())
    kinds = []
    for name in parsed_classes():
        library, _, short = name.partition(".")
        if library not in _LIBRARIES or "." in short or name in _BOOSTERS or _refuses(name):
            continue
        build = own.get(short) if library == "sklearn" else getattr(importlib.import_module(library), short, None)
        if build is not None and short not in _NO_TABLE and "Ranker" not in short:
            kinds.append(Kind(name, build, _role(short, build)))
    return tuple(kinds)


def _refuses(name: str) -> bool:
    """Whether all that a parser does is to say why: such a class is no draw."""
    return _registry._PARSERS[name].__name__.startswith("refuse")  # noqa: SLF001 - one line, for one program


def _role(name: str, build: type) -> str:  # noqa: PLR0911 - a role a line
    if name in _TEXTS:
        return "texts"
    if name in _CATEGORIES:
        return "categories"
    if name in _OWN or _wanted(build) or "estimator" in inspect.signature(build).parameters:
        return "meta"
    if name.startswith(("LGBM", "XGB", "CatBoost")):
        return "classifier" if name.endswith("Classifier") else "regressor"
    fresh = build()
    if is_classifier(fresh):
        return "classifier"
    if is_regressor(fresh):
        return "regressor"
    return "featurizer" if hasattr(build, "transform") and not hasattr(build, "predict") else "other"


def _wanted(build: type) -> list[str]:
    parameters = inspect.signature(build).parameters.values()
    kinds = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    return [one.name for one in parameters if one.default is one.empty and one.kind not in kinds]


def draw_pipeline(random: np.random.Generator) -> Draw:
    """Draw a pipeline around a class that is drawn first, so that each has its turn."""
    kinds = known_kinds()
    focus = kinds[int(random.integers(len(kinds)))]
    return _Drawer(random, kinds).draw(focus)


class _Drawer:
    """Draws of one pipeline."""

    def __init__(self, random: np.random.Generator, kinds: Sequence[Kind]) -> None:
        self._random = random
        self._of: dict[str, list[Kind]] = {}
        for kind in kinds:
            self._of.setdefault(kind.role, []).append(kind)

    def draw(self, focus: Kind) -> Draw:
        task = {"classifier": "classify", "regressor": "regress"}.get(focus.role)
        if task is None:
            task = "classify" if self._likely(0.5) else "regress"
        task = _task_of(focus.build.__name__, task) if focus.role == "meta" else task
        numbering = self._numbering(focus)
        if focus.role == "texts":
            table, steps = "documents", [self._build(focus)]
        elif numbering is not None:
            table, steps = numbering[0], [focus.build(**draw_options(focus.build, self._random) | numbering[1])]
        elif focus.role == "categories" or (focus.role in {"classifier", "featurizer"} and self._likely(0.1)):
            table, steps = "mixed", [self._columns(focus if focus.role == "categories" else None)]
            steps += [self._build(focus)] if focus.role != "categories" else []
        else:
            table, steps = "numbers", self._featurizers(2) if self._likely(0.6) else []
            steps.append(self._meta(focus, task) if focus.role == "meta" else self._build(focus))
        ends = focus.role in {"classifier", "regressor", "other"}
        if focus.role in {"featurizer", "texts", "categories"} and self._likely(0.7):
            steps += self._featurizers(1) if self._likely(0.3) else []
            steps.append(self._model(task))
        elif ends and self._likely(0.12) and focus.role != "other":
            metas = [kind for kind in self._of.get("meta", []) if _task_of(kind.build.__name__, "") == task]
            if metas:
                steps[-1] = self._meta(self._one(metas), task, steps[-1])
        model = steps[0] if len(steps) == 1 else Pipeline([(f"s{place}", step) for place, step in enumerate(steps)])
        library = focus.name.partition(".")[0]
        form = "itself"
        if table == "numbers" and self._likely(_ONNX):
            form = "onnx"
        elif model is steps[-1] and library in {"lightgbm", "xgboost"} and self._likely(0.25):
            form = "booster"
        return Draw(model, task, table, focus.name, form)

    def _numbering(self, focus: Kind) -> tuple[str, dict[str, Any]] | None:
        """A table with categories, and options, for a class that numbers them itself: now and then."""
        found = next((own for name, own in _NUMBERING.items() if focus.build.__name__.startswith(name)), None)
        return found if found is not None and self._likely(0.2) else None

    def _model(self, task: str) -> Any:
        return self._build(self._one(self._of["classifier" if task == "classify" else "regressor"]))

    def _featurizers(self, most: int) -> list[Any]:
        steps = [self._build(self._one(self._of["featurizer"])) for _ in range(int(self._random.integers(1, most + 1)))]
        draw = self._random.random()
        if draw < 0.2:
            other = self._build(self._one(self._of["featurizer"]))
            both = [("a", steps[-1]), ("b", self._one([other, "passthrough", "drop"]))]
            steps[-1] = FeatureUnion(both, transformer_weights=self._one([None, None, {"a": 2.5}]))
        elif draw < 0.4:
            remainder = self._one(["passthrough", "drop", StandardScaler()])
            columns = self._one([[0, 2], [2, 0, 1], slice(0, 2), [True, False, True]])
            if isinstance(columns, list) and isinstance(columns[0], bool):
                columns = [0, 2, 1]
            steps[0] = ColumnTransformer([("a", steps[0], columns)], remainder=remainder)
        elif draw < 0.5:
            steps.append(FunctionTransformer(self._one(_UFUNCS)))
        return steps

    def _columns(self, encoder: Kind | None) -> ColumnTransformer:
        """Two columns of texts and one of whole numbers to an encoder, the numbers scaled."""
        own = self._build(encoder) if encoder else OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        return ColumnTransformer(
            [("a", own, ["word", "größe", "count"]), ("b", self._one([StandardScaler(), "passthrough"]), ["x", "y"])]
        )

    def _meta(self, kind: Kind, task: str, inner: Any = None) -> Any:
        name, options = kind.build.__name__, draw_options(kind.build, self._random)
        if name == "Pipeline":
            return Pipeline([("a", self._featurizers(2)[0]), ("b", inner or self._model(task))])
        if name == "FeatureUnion":
            return FeatureUnion([("a", self._featurizers(1)[0]), ("b", self._featurizers(1)[0])])
        if name == "ColumnTransformer":
            return ColumnTransformer([("a", self._featurizers(1)[0], [0, 1])], remainder="passthrough")
        inner = inner if inner is not None else self._model(task)
        if self._likely(0.2):
            inner = Pipeline([("s", self._build(self._one(self._of["featurizer"]))), ("m", inner)])
        for option in inspect.signature(kind.build).parameters:
            if option in {"estimator", "regressor", "classifier"}:
                options[option] = inner
            if option == "estimators":
                options[option] = [("a", inner), ("b", self._model(task)), ("c", self._model(task))]
            if option in {"param_grid", "param_distributions"}:
                options[option] = _grid(inner)
        options |= {"n_iter": 1} if name.startswith("Randomized") else {}
        options |= {"cv": 2} if "Search" in name else {}
        options |= {"min_resources": 30} if name.startswith("Halving") else {}
        if name == "TransformedTargetRegressor":
            options |= self._one([{}, {"transformer": MinMaxScaler()}, {"func": np.log1p, "inverse_func": np.expm1}])
        return kind.build(**options)

    def _build(self, kind: Kind) -> Any:
        if kind.build is FunctionTransformer:
            return FunctionTransformer(self._one(_UFUNCS))
        return kind.build(**draw_options(kind.build, self._random))

    def _one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def _likely(self, chance: float) -> bool:
        return bool(self._random.random() < chance)


def _task_of(name: str, otherwise: str) -> str:
    if name.endswith(("Classifier", "ClassifierCV")) or name == "ClassifierChain":
        return "classify"
    return "regress" if name.endswith("Regressor") or name == "RegressorChain" else otherwise


def _grid(inner: Any) -> dict[str, list[Any]]:
    """One option at its own value: what is searched is not the question here."""
    known = inner.get_params(deep=False)
    name = next((name for name in sorted(known) if isinstance(known[name], (int, float, bool))), None)
    return {} if name is None else {name: [known[name]]}


def with_imputer(model: BaseEstimator) -> Pipeline:
    """Fill what is missing before a model that does not take it."""
    return Pipeline([("fill", SimpleImputer()), ("rest", model)])
