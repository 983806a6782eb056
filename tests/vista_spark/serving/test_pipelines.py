"""Compiled pipelines as models of a server: their inputs, samples, missing values and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from udfs.arrow import RowError
from udfs.serving import TensorSpec
from vista_spark import compile_pipeline
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Session
from vista_spark.serving._deployment import opened, sample_row
from vista_spark.serving._model_resolution import fetched
from vista_spark.serving._profiling import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.serving._deployment import Deployment

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(60, 2))
CITIES = RNG.choice(["Bern", "Oslo", "Rome"], 60).astype(object)
LABELS = (NUMBERS[:, 0] > 0).astype(int)
GAPS = np.where(RNG.random((60, 2)) < 0.3, np.nan, NUMBERS)
TABLE = pd.DataFrame({"age": NUMBERS[:, 0], "city": CITIES, "rooms": RNG.integers(1, 4, 60)})


def columns(*parts: Any) -> ColumnTransformer:
    return ColumnTransformer([(f"part{number}", *part) for number, part in enumerate(parts)])


def deployed(model: Any, inputs: Sequence[TensorSpec] = ()) -> Deployment:
    deployment = opened(fetched(Session("p", model=compile_pipeline(model), inputs=inputs, slo_ms=60_000), None))
    measured([deployment], threads=1, device="cpu", batches=[1, 2])
    return deployment


def mixed() -> Any:
    encoder = columns(("passthrough", ["age"]), (OneHotEncoder(), ["city", "rooms"]))
    return make_pipeline(encoder, LogisticRegression()).fit(TABLE, LABELS)


FITTED = {
    "array": (lambda: HistGradientBoostingClassifier(max_iter=3).fit(NUMBERS, LABELS), "float64 (-1, 2)"),
    "frame": (lambda: LogisticRegression().fit(TABLE[["age", "rooms"]], LABELS), "float64 (-1,), float64 (-1,)"),
    "mixed": (mixed, "float64 (-1,), str (-1,), float64 (-1,)"),
    "array of texts": (
        lambda: make_pipeline(OneHotEncoder(), LogisticRegression()).fit(CITIES[:, None].repeat(2, 1), LABELS),
        "str (-1, 2)",
    ),
    "documents": (lambda: make_pipeline(CountVectorizer(), LogisticRegression()).fit(CITIES, LABELS), "str (-1,)"),
}


@pytest.mark.parametrize("name", FITTED)
def test_inputs_are_those_that_the_pipeline_was_fitted_on(name: str) -> None:
    fit, wanted = FITTED[name]
    deployment = deployed(fit())
    specs = deployment.served.inputs
    assert ", ".join(f"{spec.dtype} {spec.shape}" for spec in specs) == wanted
    again = deployed(fit(), specs)
    assert again.served.inputs == specs
    assert sample_row(again).keys() == {spec.name for spec in specs}


@pytest.mark.parametrize(
    ("fit", "inputs", "words"),
    [
        (FITTED["array"][0], [TensorSpec("x", "float64", (-1, 3))], r'must be TensorSpec\("x", "float64", \(-1, 2\)\)'),
        (mixed, [TensorSpec("age", "float64", (-1,))], "must be the columns age, city, rooms"),
        (
            lambda: make_pipeline(columns(("passthrough", [0]), (OneHotEncoder(), [1])), LogisticRegression()).fit(
                np.stack([NUMBERS[:, 0].astype(object), CITIES], 1), LABELS
            ),
            (),
            "column 1 with texts beside columns of numbers",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(fit: Any, inputs: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        deployed(fit(), inputs)


@pytest.mark.parametrize(
    "model", [make_pipeline(SimpleImputer(), LogisticRegression()), HistGradientBoostingClassifier(max_iter=3)]
)
def test_missing_values_are_read_by_a_pipeline_that_accepts_them(model: Any) -> None:
    fitted = model.fit(GAPS, LABELS)
    deployment = deployed(fitted)
    rows = deployment.admission.rows({"x": GAPS})
    batch = {"x": np.stack([row["x"] for row in rows])}
    np.testing.assert_allclose(deployment.session.model(batch)["predict_proba"], fitted.predict_proba(GAPS), atol=1e-5)


def test_a_pipeline_refuses_the_rows_that_its_model_refuses() -> None:
    deployment = deployed(mixed())
    batch = {"age": np.array([1.0]), "city": np.array(["Bern"], object), "rooms": np.array([1.0])}
    assert deployment.session.model(batch)["predict"].shape == (1,)
    for name, value in (("age", np.array([np.nan])), ("city", np.array(["Paris"], object)), ("rooms", np.array([9.0]))):
        with pytest.raises(RowError, match="refused by the pipeline"):
            deployment.session.model({**batch, name: value})


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_null_among_texts_is_the_missing_value_of_the_pipeline(missing: Any) -> None:
    cities = CITIES.copy()
    cities[::5] = missing
    table = pd.DataFrame({"city": cities, "town": cities}, dtype=object)
    fitted = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(table, LABELS)
    deployment = deployed(fitted)
    rows = deployment.admission.rows({name: np.array(["Oslo", None], object) for name in table})
    read = [deployment.recipe.reader.read(row) for row in rows]
    batch = {name: np.stack([row[name] for row in read]) for name in table}
    asked = pd.DataFrame({name: ["Oslo", missing] for name in table}, dtype=object)
    np.testing.assert_allclose(deployment.session.model(batch)["predict_proba"], fitted.predict_proba(asked), atol=1e-6)


def test_text_labels_and_several_targets_are_outputs() -> None:
    deployment = deployed(LogisticRegression().fit(NUMBERS, CITIES))
    assert deployment.session.model({"x": NUMBERS[:5]})["predict"].tolist() == (
        LogisticRegression().fit(NUMBERS, CITIES).predict(NUMBERS[:5]).tolist()
    )
    several = RandomForestClassifier(3, max_depth=3, random_state=0).fit(NUMBERS, np.stack([LABELS, LABELS], 1))
    outputs = deployed(several).session.model({"x": NUMBERS[:5]})
    np.testing.assert_allclose(outputs["predict_proba_1"], several.predict_proba(NUMBERS[:5])[1], atol=1e-6)
