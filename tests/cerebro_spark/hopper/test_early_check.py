"""Wrong trainers and metrics are refused before data are prepared, with what to return instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend
from cerebro_spark.errors import CerebroError, InvalidArgumentError, TrainerError
from cerebro_spark.hopper import check_trainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from cerebro_spark import Store


def trainer(params: dict[str, Any], **settings: Any) -> ModelTrainer:
    net = torch.nn.Linear(1, 2)
    sgd = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        **{"model": net, "optimizer": sgd, "loss": torch.nn.CrossEntropyLoss(), "metrics": ["accuracy", "f1"]}
        | settings
    )


def raising(params: dict[str, Any]) -> ModelTrainer:
    return trainer({"lr": params["learning_rate"]})


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "nothing": (lambda _: None, "got None. The function has no return statement"),
    "a model": (lambda _: torch.nn.Linear(1, 2), "got a Linear. Return ModelTrainer"),
    "a tuple": (lambda _: (1, 2), "got a tuple. Return ModelTrainer"),
    "a class": (lambda _: torch.nn.Linear, "It returns the class Linear itself: return an instance"),
    "an error": (raising, "got KeyError: 'learning_rate'"),
    "an unknown metric": (lambda params: trainer(params, metrics=["acuracy"]), "did you mean 'accuracy'"),
    "no model": (lambda params: trainer(params, model="resnet18"), "give a torch.nn.Module"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_function_that_returns_no_trainer(name: str) -> None:
    function, message = WRONG[name]
    with pytest.raises(CerebroError, match=message):
        check_trainer(function, [{"lr": 0.1}, {"lr": 0.2}], 0, "loss")


def test_a_compiled_model_names_its_parts() -> None:
    keras = pytest.importorskip("keras")

    def compiled(_: dict[str, Any]) -> Any:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        return model

    with pytest.raises(TrainerError, match=r"got a Sequential. It is a compiled model: .*optimizer=model.optimizer"):
        check_trainer(compiled, [{}], 0, "loss")


@pytest.mark.parametrize("metric", ["loss", "val_loss", "accuracy", "val_f1", "f1_macro", ["accuracy", "f1_weighted"]])
def test_metrics_of_the_trainer_pass(metric: str | list[str]) -> None:
    check_trainer(trainer, [{"lr": 0.1}], 0, metric)


@pytest.mark.parametrize("metric", ["auc", "val_auc", ["loss", "auc"], "acc"])
def test_a_metric_that_the_trainer_does_not_have(metric: str | list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="metric must be one of the trainer's, loss, accuracy, f1, got"):
        check_trainer(trainer, [{"lr": 0.1}], 0, metric)


def test_one_configuration_that_can_be_built_is_enough() -> None:
    """The others end as failed in the run."""
    check_trainer(trainer, [{"wrong": 1}, {"lr": 0.1}], 0, "loss")


def test_a_search_refuses_before_it_prepares(
    spark: SparkSession, store: Store, no_job: Callable[[], AbstractContextManager[None]]
) -> None:
    df = spark.createDataFrame([(float(n), n % 2) for n in range(40)], "a double, label int")
    settings = SimpleNamespace(backend=SparkBackend(spark, num_workers=1), store=store, search_space={"lr": [0.1]})
    for function, metric in ((lambda _: None, "loss"), (trainer, "auc")):
        search = GridSearch(
            **vars(settings), trainer_fn=function, num_epochs=1, feature_columns=["a"], label_columns=["label"],
            metric=metric, progress=False,
        )  # fmt: skip
        with no_job(), pytest.raises(CerebroError, match=r"must return a ModelTrainer|metric must be one of"):
            search.fit(df)
    assert store.list() == []
