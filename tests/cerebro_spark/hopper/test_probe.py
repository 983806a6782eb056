"""Trial of a search's configurations on the driver, before a worker starts."""

from __future__ import annotations

import copy
import json
import logging
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forty_rows import BACKEND, prepared

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import LabelError, TrainerError
from cerebro_spark.hopper import LabelSample, check_label_samples, probe
from udfs.shards import PreparedData
from udfs.training import Task, TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def trainer(params: dict[str, Any]) -> ModelTrainer:
    if params.get("raises"):
        raise params["raises"]
    net = params.get("net", lambda: torch.nn.Linear(1, 2))()
    optimizer = params.get("optimizer", torch.optim.SGD)(net.parameters(), lr=params.get("lr", 0.1))
    loss = params.get("loss", torch.nn.CrossEntropyLoss())
    return ModelTrainer(model=net, optimizer=optimizer, loss=loss, batch_size=params.get("batch", 8))


BAD: list[dict[str, Any]] = [
    {"raises": ValueError("too large")},
    {"raises": TrainerError("no such network")},
    {"net": lambda: torch.nn.Linear(3, 2)},  # other inputs
    {"optimizer": torch.optim.SparseAdam},  # its step fails
    {"batch": 39, "net": lambda: torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2))},
    {"net": lambda: torch.nn.Linear(1, 1)},  # one class
]


READERS: dict[str, tuple[Callable[[dict[str, Any]], Any], list[str]]] = {
    "item": (lambda params: params["lr"], ["width", "depth"]),
    "get": (lambda params: (params.get("lr"), params.get("width")), ["depth"]),
    "setdefault": (lambda params: params.setdefault("lr", 1.0), ["width", "depth"]),
    "pop": (lambda params: params.pop("lr"), ["width", "depth"]),
    "unpacked": (lambda params: {**params}, []),
    "arguments": (lambda params: dict(**params), []),
    "copied": (dict, []),
    "a method": (lambda params: params.copy(), []),
    "merged": (lambda params: {"a": 1} | params, []),
    "items": (lambda params: [value for _, value in params.items()], []),
    "compared": (lambda params: params == {"lr": 0.25}, []),
    "JSON": (json.dumps, []),
    "a deep copy": (copy.deepcopy, []),
    "nothing": (lambda _: None, ["lr", "width", "depth"]),
}


@pytest.mark.parametrize("name", READERS)
def test_parameters_that_the_function_does_not_read_are_noted(name: str, tmp_path: Path) -> None:
    read, unread = READERS[name]
    configurations = [{"lr": 0.25, "width": width, "depth": (width, 1), "constant": 3} for width in (1, 2)]
    configurations.append({"lr": 0.5, "width": 1, "depth": (1, 1), "constant": 3})

    def reading(params: dict[str, Any]) -> ModelTrainer:
        read(params)
        return trainer({})

    notes = probe(reading, configurations, prepared(tmp_path), 0, BACKEND).session.sums.decision.notes
    assert [note.split("'")[1] for note in notes] == unread


@pytest.mark.parametrize("bad", BAD)
def test_a_configuration_that_cannot_be_trained_is_passed_over_wherever_it_is(
    bad: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, good = prepared(tmp_path), {"lr": 0.25}
    for configurations in ([bad, good], [good, bad], [bad, bad, good]):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert probe(trainer, configurations, data, 0, BACKEND).params == good
        assert "\n".join(caplog.messages).count("cannot be trained and ends as failed") == configurations.index(good)
    with pytest.raises((TrainerError, LabelError)) as alone:
        probe(trainer, [bad], data, 0, BACKEND)
    with pytest.raises(type(alone.value)) as first:
        probe(trainer, [bad, {"raises": KeyError("another")}], data, 0, BACKEND)
    assert str(first.value) == str(alone.value)


def functional(outputs: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(outputs, labels.long())


@pytest.mark.parametrize("loss", [torch.nn.CrossEntropyLoss(), torch.nn.NLLLoss(), functional])
@pytest.mark.parametrize(
    ("samples", "kind", "wrong"),
    [((0.0, 2.0), "int64", "2"), ((-1.0, 1.0), "int64", "-1"), ((0.0, 7.0), "float32", "7"), ((0.0, 1.0), "int64", "")],
)
def test_labels_of_all_rows_are_tried(
    loss: Any, samples: tuple[float, ...], kind: str, wrong: str, tmp_path: Path
) -> None:
    data, params = prepared(tmp_path, samples, kind), {"loss": loss}
    if isinstance(loss, torch.nn.NLLLoss):
        params["net"] = lambda: torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.LogSoftmax(1))
    if not wrong:
        probe(trainer, [params], data, 0, BACKEND)
        return
    with pytest.raises(LabelError, match=rf"label 'y' must be in 0\.\.1, the classes of the model, got {wrong} "):
        probe(trainer, [params], data, 0, BACKEND)


def test_fractions_values_and_ignored_labels(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"got 0\.5 "):
        probe(trainer, [{}], prepared(tmp_path, (0.0, 1.0, 0.5), "float32"), 0, BACKEND)
    regression = {"net": lambda: torch.nn.Linear(1, 1), "loss": torch.nn.MSELoss()}
    probe(trainer, [regression], prepared(tmp_path, (-1e3, 1e3, 0.5), "float32"), 0, BACKEND)
    probe(trainer, [{}], prepared(tmp_path, (-100.0, 1.0)), 0, BACKEND)  # the loss ignores -100


@pytest.mark.parametrize(
    ("task", "shape", "requirement"),
    [
        (Task("multilabel"), (3,), r"must be in 0\.\.1, the classes of the model"),
        (Task("multiclass"), (4, 3), r"must be a class of the model, whose output has shape \(4, 3\)"),
    ],
)
def test_a_label_without_an_output_is_named_with_its_record(
    task: Task, shape: tuple[int, ...], requirement: str, tmp_path: Path
) -> None:
    def evaluate(rows: Any) -> None:
        if rows.labels[0].max() > 1:
            raise IndexError("out of bounds")

    sums = SimpleNamespace(is_settled=True, task=task)
    session: Any = SimpleNamespace(sums=sums, predict=lambda _: [np.zeros((1, *shape))], evaluate=evaluate)
    samples = [LabelSample("y", 1.0, "a"), LabelSample("y", 5.0, "b")]
    with pytest.raises(LabelError, match=rf"label 'y' {requirement}, got 5 in record 'b' \(IndexError"):
        check_label_samples(samples, prepared(tmp_path), session)


def test_label_samples_are_stored_with_the_data(tmp_path: Path) -> None:
    data = prepared(tmp_path, (0.0, 3.0, 1.5))
    data.save()
    assert PreparedData.load(data.store, "d").label_samples == {"y": (0.0, 3.0, 1.5)}


def functions(params: dict[str, Any]) -> TrainingFunctions:
    def model_fn(params: dict[str, Any]) -> Any:
        net = torch.nn.Linear(1, 2, dtype=torch.float32)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    def train_fn(data: Any, model: Any, optimizer: Any, params: Any) -> dict[str, float]:
        random.random()
        return {"loss": 0.5}

    return TrainingFunctions(model_fn=model_fn, train_fn=train_fn)  # type: ignore[arg-type]


@pytest.mark.parametrize("trainer_fn", [trainer, functions])
def test_the_drivers_process_is_as_it_was(trainer_fn: Callable[..., Any], tmp_path: Path) -> None:
    def changes(params: dict[str, Any]) -> Any:
        torch.set_default_dtype(torch.float64)
        np.seterr(all="ignore")
        made = trainer_fn(params)
        if isinstance(made, ModelTrainer):
            made.model.float()
        return made

    def state() -> Any:
        return (
            random.getstate(),
            np.random.get_state()[1].tolist(),  # the generator in question
            torch.get_rng_state().tolist(),
            torch.get_default_dtype(),
            np.geterr(),
        )

    before = state()
    probe(changes, [{}], prepared(tmp_path), 0, BACKEND)
    assert state() == before
