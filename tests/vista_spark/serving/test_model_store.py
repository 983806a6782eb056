"""Models by name and version; versions swapped while requests come; aliases followed."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler

from optimizer.serving import BatchingProfile
from udfs.serving import Deliveries, FunctionRecipe, GroupRecipe, TensorReader, TensorSpec
from udfs.store import Store, StoreError
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Api, ModelStore, Server, Session
from vista_spark.serving._model_reference import Reference
from vista_spark.serving._model_resolution import fetched, newest

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from torch import nn

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SLO = 60_000
SECONDS = 120.0
SIZE = 16
X = TensorSpec("x", "float32", (-1, 2))
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})


def times(factor: float) -> Callable[[Any], Any]:
    return lambda arrays: {"y": factor * arrays["x"]}


def network(seed: int) -> nn.Module:
    torch.manual_seed(0)
    trunk = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()]
    torch.manual_seed(seed)
    return torch.nn.Sequential(*trunk, torch.nn.Linear(32, 3)).eval()


def image() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(3, SIZE, SIZE)).astype(np.float32)


def own(model: nn.Module) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        result: np.ndarray[Any, Any] = model(torch.from_numpy(image()[None]))[0].numpy()
    return result


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    made = ModelStore(str(tmp_path_factory.mktemp("models")))
    made.save(Session("cats", model=network(1), image_size=SIZE), alias="champion")
    return made


@pytest.fixture(scope="module")
def api(spark: SparkSession, models: ModelStore) -> Iterator[Api]:
    server = Server(spark, backends=1, epoch_s=1.0, store=models._store)
    server.deploy(Session("times", model=times(2.0), inputs=[X], profile=PROFILE, slo_ms=SLO))
    server.deploy(Session("dogs", model=network(9), image_size=SIZE, profile=PROFILE, slo_ms=SLO))
    server.deploy(Session("cats", model="store:/cats@champion", profile=PROFILE, slo_ms=SLO))
    with server.start(timeout_s=600.0) as running:
        yield running


@pytest.mark.connect_slow
def test_a_swap_under_load_loses_no_request(api: Api) -> None:
    over = threading.Event()
    asked: list[tuple[float, Any]] = []

    def ask() -> None:
        for number in itertools.count(1):
            if over.is_set():
                return
            asked.append((float(number), api["times"].execute(np.full(2, number, np.float32))))
            time.sleep(0.002)

    before = api["cats"].execute(image()).result(SECONDS)
    thread = threading.Thread(target=ask)
    thread.start()
    api.deploy(Session("times", model=times(3.0), inputs=[X], profile=PROFILE, slo_ms=SLO, version="2"))
    # What is asked from here on is the new one's.
    swapped = len(asked) + 1
    while len(asked) < swapped + 20:
        time.sleep(0.01)
    over.set()
    thread.join()
    factors = [float(future.result(SECONDS)[0]) / number for number, future in asked]
    assert set(factors) == {2.0, 3.0}
    assert factors == sorted(factors), "once the new version has answered, the old one does not"
    assert factors[swapped:] == [3.0] * len(factors[swapped:])
    assert api["times"].served.version == "2"
    assert api.plan is not None
    assert sorted(one.session for one in api.plan.nodes[0].placements) == ["dogs+cats", "times@2"]
    np.testing.assert_array_equal(api["cats"].execute(image()).result(SECONDS), before)


@pytest.mark.connect_slow
def test_an_alias_that_moves_is_followed(api: Api, models: ModelStore) -> None:
    np.testing.assert_allclose(api["cats"].execute(image()).result(SECONDS), own(network(1)), rtol=1e-5, atol=1e-6)
    dogs = api["dogs"].execute(image()).result(SECONDS)
    assert models.save(Session("cats", model=network(2), image_size=SIZE)) == "2"
    assert api["cats"].served.version == "1", "a version without an alias is not served"
    models.alias("cats", "champion", "2")
    end = time.monotonic() + SECONDS
    while api["cats"].served.version != "2":
        assert time.monotonic() < end
        time.sleep(0.05)
    np.testing.assert_allclose(api["cats"].execute(image()).result(SECONDS), own(network(2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(api["dogs"].execute(image()).result(SECONDS), dogs, rtol=1e-5, atol=1e-6)


@pytest.mark.connect_slow
def test_a_version_that_cannot_be_opened_leaves_the_old_one(api: Api) -> None:
    class Broken:
        def __call__(self, arrays: Any) -> Any:
            return {"y": arrays["x"]}

        def __reduce__(self) -> Any:
            return eval, ("1 / 0",)

    version = api["times"].served.version
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        api.deploy(Session("times", model=Broken(), inputs=[X], profile=PROFILE, slo_ms=SLO, version="9"))
    assert api["times"].served.version == version
    assert api["times"].execute(np.ones(2, np.float32)).result(SECONDS).tolist() in ([2, 2], [3, 3])
    with pytest.raises(InvalidArgumentError, match="must differ from the deployed one"):
        api.deploy(Session("times", model=times(4.0), inputs=[X], profile=PROFILE, slo_ms=SLO, version=version))


def test_a_store_that_is_gone_leaves_what_is_served(api: Api, models: ModelStore, tmp_path: Path) -> None:
    """An alias is followed again once it is back."""
    served, before = api["cats"].served.version, api["cats"].execute(image()).result(SECONDS)
    folder = Path(models._store.path())
    away = tmp_path / "away"
    folder.rename(away)
    folder.write_text("no folder any more")
    try:
        with pytest.raises(StoreError):
            api.deploy(Session("late", model=times(5.0), inputs=[X], profile=PROFILE, slo_ms=SLO))
        time.sleep(2.5)  # two looks at the alias
        np.testing.assert_array_equal(api["cats"].execute(image()).result(SECONDS), before)
        assert api["cats"].served.version == served
    finally:
        folder.unlink()
        away.rename(folder)
    version = models.save(Session("cats", model=network(5), image_size=SIZE), alias="champion")
    end = time.monotonic() + SECONDS
    while api["cats"].served.version != version:
        assert time.monotonic() < end
        time.sleep(0.05)
    api.deploy(Session("late", model=times(5.0), inputs=[X], profile=PROFILE, slo_ms=SLO))
    assert api["late"].execute(np.ones(2, np.float32)).result(SECONDS).tolist() == [5, 5]


@pytest.mark.connect_slow
def test_a_session_is_added_while_the_server_runs(api: Api) -> None:
    api.deploy(Session("added", model=times(7.0), inputs=[X], profile=PROFILE, slo_ms=SLO))
    assert api["added"].execute(np.ones(2, np.float32)).result(SECONDS).tolist() == [7, 7]


def test_a_recipe_that_was_changed_in_the_store_is_not_opened(tmp_path: Path) -> None:
    deliveries = Deliveries(Store.from_uri(str(tmp_path)))
    digest = deliveries.send(GroupRecipe("f", {"f": FunctionRecipe(times(2.0), TensorReader((X,)))}))
    deliveries.store.write(deliveries.store.read("recipes", digest) + b"!", "recipes", digest)
    with pytest.raises(StoreError, match="was changed in the store"):
        deliveries.fetch(digest)


@pytest.mark.connect_slow
def test_versions_and_aliases(tmp_path: Path) -> None:
    models = ModelStore(str(tmp_path))
    assert models.save(Session("f", model=times(2.0), inputs=[X])) == "1"
    assert models.save(Session("f", model=times(3.0), inputs=[X]), alias="best") == "2"
    assert (models.names(), models.versions("f"), models.version("f", "best")) == (["f"], ["1", "2"], "2")
    store = Store.from_uri(str(tmp_path))
    session = fetched(Session("mine", model="store:/f@best"), store)
    assert (session.version, session.model({"x": np.ones(1)})["y"].tolist()) == ("2", [3.0])
    assert newest(Session("mine", model="store:/f/1"), store) is None, "a version never moves"
    for text, words in (
        ("store:/f@worst", "got 'worst'"),
        ("store:/f/3", "got '3'"),
        ("store:/g", "got 'g'"),
        ("store:/", "model must be models:/name@alias"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            fetched(Session("mine", model=text), store)
    with pytest.raises(InvalidArgumentError, match="store must be set"):
        fetched(Session("mine", model="store:/f"), None)
    store.write(b"nothing", "models", "f", "2", "model.pickle")
    with pytest.raises(StoreError, match="damaged"):
        fetched(Session("mine", model="store:/f@best"), store)


def test_references() -> None:
    assert str(Reference.read("models:/a@b")) == "models:/a@b"
    assert Reference.read("models:/a/latest").moves
    for text in ("models:/a@", "models:/@b", "models:/a/b/c", "other:/a"):
        with pytest.raises(InvalidArgumentError):
            Reference.read(text)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.slow
def test_a_network_and_another_model_of_mlflow(tracking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for the artifacts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow's own type hints
        for module in ("models", "pyfunc", "pytorch"):
            importlib.import_module(f"mlflow.{module}")

    class Halving(tracking.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            del context, params
            return np.asarray(model_input) / 2

    # Older releases know no other.
    known = inspect.signature(tracking.pytorch.log_model).parameters
    options = {"serialization_format": "pickle"} if "serialization_format" in known else {}
    with tracking.start_run():
        for seed in (1, 2):
            tracking.pytorch.log_model(network(seed), name="model", registered_model_name="cats", **options)
        signature = tracking.models.infer_signature(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32))
        tracking.pyfunc.log_model(
            name="halves", python_model=Halving(), signature=signature, registered_model_name="halves"
        )
    client = tracking.MlflowClient()
    client.set_registered_model_alias("cats", "champion", "1")
    asked = Session("cats", model="models:/cats@champion", image_size=SIZE)
    assert newest(asked, None) == "1"
    loaded = fetched(asked, None)
    assert loaded.version == "1"
    np.testing.assert_allclose(own(loaded.model), own(network(1)), rtol=1e-6)
    client.set_registered_model_alias("cats", "champion", "2")
    assert newest(asked, None) == "2"
    halves = fetched(Session("halves", model="models:/halves/1"), None)
    assert halves.inputs == (replace(X, missing=True),), "the model itself decides on NaN"
    assert halves.model({"x": np.array([[2, 4]], np.float32)})["output"].tolist() == [[1, 2]]
    with pytest.raises(InvalidArgumentError, match="dogs"):
        fetched(Session("dogs", model="models:/dogs@champion"), None)


def test_a_pipeline_of_spark_ml_is_compiled(spark: SparkSession) -> None:
    rows = [(float(n), float(n % 3), float(n > 4)) for n in range(10)]
    table = spark.createDataFrame(rows, "a double, b double, label double")
    stages = [VectorAssembler(inputCols=["a", "b"], outputCol="features"), LogisticRegression(maxIter=3)]
    fitted = Pipeline(stages=stages).fit(table)
    session = fetched(Session("p", model=fitted), None)
    assert [spec.name for spec in session.inputs] == ["a", "b"]
    found = session.model({"a": np.array([1.0, 9.0]), "b": np.array([1.0, 0.0])})
    wanted = fitted.transform(table.where("a in (1, 9)")).orderBy("a").collect()
    assert found["predict"].tolist() == [row["prediction"] for row in wanted]
    np.testing.assert_allclose(found["predict_proba"], [row["probability"].toArray() for row in wanted], rtol=1e-6)
