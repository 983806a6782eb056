"""The task of a session, decided by the loss, the end of the network and a few rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from torch import nn
from torch.nn import functional

from optimizer.errors import InvalidArgumentError
from udfs.handlers import ModelTrainer, open_session
from udfs.metrics import MetricError
from udfs.shards import Tensors
from udfs.training import Task, TrainerError, TrainingFunctions, decide_session_task, follow_task

if TYPE_CHECKING:
    from udfs.training import Session

WIDTH, ROWS = 4, 64
INPUTS = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
SCORE = INPUTS[:, 0] + INPUTS[:, 1]
PAIR = (SCORE > 0).astype(np.int64)
SIGNS = np.where(SCORE > 0, 1.0, -1.0).astype(np.float32)
CLASS = (SCORE > -0.5).astype(np.int64) + (SCORE > 0.7)
LABELS = (INPUTS[:, :3] > 0.2).astype(np.int64)
ONE_HOT = np.eye(3, dtype=np.float32)[CLASS]


def session_of(
    loss: Any, labels: Any, outputs: int = 1, *tail: Any, metrics: Any = (), task: Any = None, module: Any = None
) -> Session:
    """Open a network of torch, or of Keras where the loss is of it, and decide its task."""

    def make(_params: dict[str, Any]) -> ModelTrainer:
        made: dict[str, Any]
        if module is None and (isinstance(loss, (str, keras.losses.Loss)) or loss in KERAS_FUNCTIONS):
            net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(outputs, *tail)])
            made = {"model": net, "optimizer": "sgd"}
        else:
            net = nn.Sequential(nn.Linear(WIDTH, outputs), *tail) if module is None else module
            made = {"model": net, "optimizer": torch.optim.SGD(net.parameters(), lr=0.1)}
        return ModelTrainer(**made, loss=loss, metrics=metrics, task=task)

    session = open_session(make, {}, 1)
    decide_session_task(session, rows(labels), ["y"])
    return session


def rows(labels: Any) -> Tensors:
    return Tensors((INPUTS,), (labels,), ROWS)


def own_hinge(outputs: Any, labels: Any) -> Any:
    return (1 - labels * outputs.reshape(-1)).clamp(min=0).mean()


def own_squares(outputs: Any, labels: Any) -> Any:
    return ((outputs.reshape(-1) - labels) ** 2).mean()


def own_pairs(outputs: Any, labels: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype).reshape(outputs.shape))


def own_chances(outputs: Any, labels: Any) -> Any:
    return functional.binary_cross_entropy(outputs, labels.to(outputs.dtype).reshape(outputs.shape))


def own_classes(outputs: Any, labels: Any) -> Any:
    return functional.cross_entropy(outputs, labels.long())


def own_logs(outputs: Any, labels: Any) -> Any:
    return functional.nll_loss(outputs, labels.long())


def own_keras(labels: Any, outputs: Any) -> Any:
    return keras.ops.mean((outputs - labels) ** 2)


KERAS_FUNCTIONS = (own_keras, keras.losses.hinge)

SMOOTHED = partial(functional.cross_entropy, label_smoothing=0.1)
TORCH = {
    "cross-entropy": (nn.CrossEntropyLoss(), CLASS, 3, (), "multiclass/class index/logits"),
    "two classes": (nn.CrossEntropyLoss(), PAIR, 2, (), "binary/class index/logits"),
    "a function": (functional.cross_entropy, CLASS, 3, (), "multiclass/class index/logits"),
    "a partial": (SMOOTHED, CLASS, 3, (), "multiclass/class index/logits"),
    "softmax twice": (nn.CrossEntropyLoss(), CLASS, 3, (nn.Softmax(-1),), "multiclass/class index/probabilities"),
    "logs": (nn.NLLLoss(), CLASS, 3, (nn.LogSoftmax(-1),), "multiclass/class index/log-probabilities"),
    "log twice": (nn.CrossEntropyLoss(), CLASS, 3, (nn.LogSoftmax(-1),), "multiclass/class index/log-probabilities"),
    "margins of classes": (nn.MultiMarginLoss(), CLASS, 3, (), "multiclass/class index/margins"),
    "one-hot": (nn.CrossEntropyLoss(), ONE_HOT, 3, (), "multiclass/one-hot/logits"),
    "signs": (nn.SoftMarginLoss(), SIGNS, 1, (), "binary/-1/+1/logits"),
    "signs by a function": (functional.soft_margin_loss, SIGNS, 1, (), "binary/-1/+1/logits"),
    "pairs": (nn.BCEWithLogitsLoss(), PAIR, 1, (), "binary/0/1/logits"),
    "sigmoid twice": (nn.BCEWithLogitsLoss(), PAIR, 1, (nn.Sigmoid(),), "binary/0/1/probabilities"),
    "chances": (nn.BCELoss(), PAIR, 1, (nn.Sigmoid(), nn.Flatten(0)), "binary/0/1/probabilities"),
    "labels": (nn.BCEWithLogitsLoss(), LABELS, 3, (), "multilabel/multi-hot/logits"),
    "squares": (nn.MSELoss(), SCORE, 1, (), "regression/values/values"),
    "counts": (nn.PoissonNLLLoss(), CLASS, 1, (), "regression/values/log-values"),
    "counts as they are": (nn.PoissonNLLLoss(log_input=False), CLASS, 1, (nn.Softplus(),), "regression/values/values"),
    "distances": (nn.HingeEmbeddingLoss(), SIGNS, 1, (), "custom/None/None"),
    "own hinge": (own_hinge, SIGNS, 1, (), "binary/-1/+1/margins"),
    "own hinge of tanh": (own_hinge, SIGNS, 1, (nn.Tanh(),), "binary/-1/+1/margins"),
    "own logits": (own_pairs, PAIR, 1, (), "binary/0/1/logits"),
    "own logits, labels as doubles": (own_pairs, PAIR.astype(np.float32), 1, (), "binary/0/1/logits"),
    "own chances": (own_chances, PAIR, 1, (nn.Sigmoid(),), "binary/0/1/probabilities"),
    "own chances of labels": (own_chances, LABELS, 3, (nn.Sigmoid(),), "multilabel/multi-hot/probabilities"),
    "own classes": (own_classes, CLASS, 3, (), "multiclass/class index/logits"),
    "own classes, labels as doubles": (own_classes, CLASS.astype(np.float32), 3, (), "multiclass/class index/logits"),
    "own logs": (own_logs, CLASS, 3, (nn.LogSoftmax(-1),), "multiclass/class index/log-probabilities"),
    "own squares": (own_squares, SCORE, 1, (), "regression/values/values"),
    "own squares of classes": (own_squares, PAIR, 1, (), "regression/values/values"),
}


def meaning(task: Task) -> str:
    return f"{task.kind}/{task.labels}/{task.outputs}"


@pytest.mark.parametrize("name", TORCH)
def test_of_torch(name: str) -> None:
    loss, labels, outputs, tail, expected = TORCH[name]
    task = session_of(loss, labels, outputs, *tail).sums.task
    assert meaning(task) == expected
    assert (task.num_outputs, task.label_columns) == (outputs, ("y",))
    assert Task.from_dict(task.to_dict()) == task


SPARSE_OF_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
KERAS = {
    "sparse": ("sparse_categorical_crossentropy", CLASS, 3, "softmax", "multiclass/class index/probabilities"),
    "logits": (SPARSE_OF_LOGITS, CLASS, 3, None, "multiclass/class index/logits"),
    "one-hot": ("categorical_crossentropy", ONE_HOT, 3, "softmax", "multiclass/one-hot/probabilities"),
    "focal": ("binary_focal_crossentropy", PAIR, 1, "sigmoid", "binary/0/1/probabilities"),
    "focal logits": (keras.losses.BinaryFocalCrossentropy(from_logits=True), PAIR, 1, None, "binary/0/1/logits"),
    "labels": (keras.losses.BinaryCrossentropy(), LABELS, 3, "sigmoid", "multilabel/multi-hot/probabilities"),
    "signs": (keras.losses.hinge, SIGNS, 1, "tanh", "binary/-1/+1/margins"),
    "hinge of 0 and 1": (keras.losses.SquaredHinge(), PAIR, 1, None, "binary/0/1/margins"),
    "squares": ("mse", SCORE, 1, None, "regression/values/values"),
    "own": (own_keras, SCORE, 1, None, "regression/values/values"),
    "own of a sigmoid": (own_keras, PAIR, 1, "sigmoid", "binary/0/1/probabilities"),
}


@pytest.mark.parametrize("name", KERAS)
def test_of_keras(name: str) -> None:
    loss, labels, outputs, activation, expected = KERAS[name]
    assert meaning(session_of(loss, labels, outputs, *([activation] if activation else [])).sums.task) == expected


class Ended(nn.Module):
    """A network whose last operation is in its forward."""

    def __init__(self, outputs: int, end: Any) -> None:
        super().__init__()
        self.linear, self.end = nn.Linear(WIDTH, outputs), end

    def forward(self, x: Any) -> Any:
        return self.end(self.linear(x))


ENDS = {
    "sigmoid": (1, lambda x: torch.sigmoid(x).squeeze(1), own_chances, PAIR, "probabilities"),
    "by hand": (1, lambda x: 1 / (1 + torch.exp(-x)), own_chances, PAIR, "probabilities"),
    "softmax": (3, lambda x: torch.softmax(x, -1), own_classes, CLASS, "probabilities"),
    "softmax by hand": (3, lambda x: x.exp() / x.exp().sum(-1, keepdim=True), own_classes, CLASS, "probabilities"),
    "log-softmax by hand": (3, lambda x: x - x.logsumexp(-1, True), own_logs, CLASS, "log-probabilities"),
    "scaled": (1, lambda x: 3 * x, own_pairs, PAIR, "logits"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_within_forward(name: str) -> None:
    outputs, end, loss, labels, form = ENDS[name]
    assert session_of(loss, labels, module=Ended(outputs, end)).sums.task.outputs == form


def test_outputs_that_may_be_both_are_asked_for() -> None:
    flat = Ended(1, lambda x: 0.5 + 0 * x)
    with pytest.raises(TrainerError, match=r"task must be given for the loss own_pairs, because outputs from"):
        session_of(own_pairs, PAIR, module=flat)
    stated = session_of(own_pairs, PAIR, module=flat, task=Task("binary", outputs="logits"))
    assert stated.sums.task.describe() == "binary, labels 0/1 of 'y', 1 output of logits (task=)"


def test_labels_that_may_be_both_are_asked_for() -> None:
    def odd(outputs: Any, labels: Any) -> Any:
        return (outputs - labels.reshape(outputs.shape)).sum()

    with pytest.raises(TrainerError, match="task must be given for the loss odd, because its labels are two numbers"):
        session_of(odd, PAIR.astype(np.float32))
    assert session_of(odd, PAIR.astype(np.float32), task="regression").sums.task.kind == "regression"


def test_outputs_that_the_loss_does_not_take_are_refused() -> None:
    with pytest.raises(TrainerError, match="outputs must be log-probabilities for the loss NLLLoss"):
        session_of(nn.NLLLoss(), CLASS, 3)
    with pytest.raises(TrainerError, match="outputs must be probabilities from 0 to 1 for the loss"):
        session_of("binary_crossentropy", PAIR, 1)


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (
            nn.SoftMarginLoss(),
            PAIR.astype(np.float32),
            "labels of 'y' must be -1 or 1 for the loss Soft.*, got 0",
        ),
        (nn.BCEWithLogitsLoss(), CLASS, "labels of 'y' must be 0 or 1 for the loss BCEWithLogitsLoss, got 2"),
    ],
)
def test_labels_that_the_loss_does_not_take_are_refused(loss: Any, labels: Any, message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        session_of(loss, labels)


@pytest.mark.parametrize(
    "task", ["sort of binary", Task("binary"), ("binary",)], ids=["a word", "a task", "something else"]
)
def test_a_stated_task(task: Any) -> None:
    if isinstance(task, Task):
        assert session_of(nn.MSELoss(), PAIR, 1, nn.Sigmoid(), task=task).sums.task.outputs == "probabilities"
        return
    with pytest.raises((InvalidArgumentError, TrainerError), match="must be"):
        session_of(nn.MSELoss(), PAIR, task=task)


def test_words_that_do_not_fit() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"task.labels of a regression task must be one of values, got '0/1'"
    ):
        Task("regression", "0/1")
    with pytest.raises(InvalidArgumentError, match=r"task.outputs of a binary task must be one of logits"):
        Task("binary", outputs="values")
    with pytest.raises(InvalidArgumentError, match=r"task.num_outputs must be a whole number"):
        Task("binary", num_outputs=0)


METRICS = {
    "signs": (nn.SoftMarginLoss(), SIGNS, 1, (), lambda o: o[:, 0] > 0),
    "sigmoid": (own_chances, PAIR, 1, (nn.Sigmoid(),), lambda o: o[:, 0] > 0.5),
    "keras focal": ("binary_focal_crossentropy", PAIR, 1, ("sigmoid",), lambda o: o[:, 0] > 0.5),
    "keras hinge": (keras.losses.hinge, SIGNS, 1, (), lambda o: o[:, 0] > 0),
    "logs": (nn.NLLLoss(), PAIR, 2, (nn.LogSoftmax(-1),), lambda o: o[:, 1] > o[:, 0]),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_two_classes(name: str) -> None:
    loss, labels, outputs, tail, positive = METRICS[name]
    session = session_of(loss, labels, outputs, *tail, metrics=["accuracy", "f1", "auc"])
    (raw,) = session.predict((INPUTS,))
    found = session.sums.results(session.evaluate(rows(labels)))
    said, truth = positive(raw), labels > 0
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, said))
    assert found["f1"] == pytest.approx(f1_score(truth, said))
    assert found["auc"] == pytest.approx(roc_auc_score(truth, raw[:, -1] - (raw[:, 0] if outputs == 2 else 0)))
    expected = np.where(said, 1.0, -1.0 if labels.min() < 0 else 0.0)
    np.testing.assert_array_equal(session.sums.task.predictions(raw), expected)


def test_metrics_of_several_classes_and_labels() -> None:
    session = session_of(nn.CrossEntropyLoss(), CLASS, 3, metrics=["f1", "auc", "f1_micro"])
    (raw,) = session.predict((INPUTS,))
    found = session.sums.results(session.evaluate(rows(CLASS)))
    assert found["f1"] == found["f1_macro"] == pytest.approx(f1_score(CLASS, raw.argmax(1), average="macro"))
    assert found["f1_micro"] == pytest.approx(f1_score(CLASS, raw.argmax(1), average="micro"))
    chances = torch.softmax(torch.from_numpy(raw).double(), -1).numpy()
    assert found["auc"] == found["auc_macro"] == pytest.approx(roc_auc_score(CLASS, chances, multi_class="ovr"))
    several = session_of(nn.BCELoss(), LABELS, 3, nn.Sigmoid(), metrics=["accuracy", "f1"])
    (raw,) = several.predict((INPUTS,))
    found = several.sums.results(several.evaluate(rows(LABELS)))
    assert found["accuracy"] == pytest.approx(accuracy_score(LABELS, raw > 0.5))
    assert found["f1"] == pytest.approx(f1_score(LABELS, raw > 0.5, average="macro"))


def test_rows_that_the_loss_leaves_out_are_not_in_the_metrics() -> None:
    """Losses of torch leave out class -100 by default, losses of Keras the class of ``ignore_class``."""
    known = np.where(INPUTS[:, 3] > 0, CLASS, -100)
    for loss in (nn.CrossEntropyLoss(), functional.cross_entropy):
        session = session_of(loss, known, 3, metrics=["accuracy", "f1"])
        (raw,) = session.predict((INPUTS,))
        found = session.sums.results(session.evaluate(rows(known)))
        kept = known >= 0
        assert found["accuracy"] == pytest.approx(accuracy_score(known[kept], raw.argmax(1)[kept]))
        assert found["f1"] == pytest.approx(f1_score(known[kept], raw.argmax(1)[kept], average="macro"))
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)
    assert session_of(keras_loss, CLASS, 3).sums.facts.ignored == 2


def test_a_metric_that_does_not_fit_is_refused_with_those_that_do() -> None:
    with pytest.raises(MetricError, match=r"regression task with 1 output, got 'accuracy'.*mse, rmse, mae"):
        session_of(nn.MSELoss(), SCORE, metrics=["accuracy"])


class Second(nn.Module):
    """A network with two inputs that reads the second."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 1)

    def forward(self, numbers: Any, ids: Any) -> Any:
        return self.table(ids)


def test_inputs_that_the_network_does_not_read() -> None:
    def opened(model: Any, optimizer: Any) -> Any:
        return open_session(lambda _: ModelTrainer(model=model, optimizer=optimizer, loss=own_squares), {}, 0)

    net = Second()
    ids = np.arange(ROWS) % 4
    assert opened(net, torch.optim.SGD(net.parameters(), lr=0.1)).unused_inputs((INPUTS, ids)) == (0,)
    plain = nn.Bilinear(WIDTH, 2, 1)
    pairs = (INPUTS, INPUTS[:, :2])
    assert opened(plain, torch.optim.SGD(plain.parameters(), lr=0.1)).unused_inputs(pairs) == ()
    one, two = keras.Input((WIDTH,)), keras.Input((2,))
    half = keras.Model([one, two], keras.layers.Dense(1)(one))
    assert opened(half, "sgd").unused_inputs(pairs) == (1,)
    both = keras.Model([one, two], keras.layers.Dense(1)(keras.layers.Concatenate()([one, two])))
    assert opened(both, "sgd").unused_inputs(pairs) == ()


def test_a_configuration_follows_the_first_one() -> None:
    first = session_of(own_squares, SCORE).sums.decision
    same, other = (open_session(lambda _, loss=loss: plain_trainer(loss), {}, 1) for loss in (own_squares, nn.L1Loss()))
    follow_task(same, first, None)
    assert same.sums.task == first.task
    with pytest.raises(TrainerError, match="loss must be for the task of the first configuration, regression"):
        follow_task(other, first, None)
    follow_task(other, first, lambda: rows(SCORE))
    assert other.sums.task.reason == "by the loss L1Loss"


def plain_trainer(loss: Any) -> ModelTrainer:
    net = nn.Linear(WIDTH, 1)
    return ModelTrainer(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=loss)


def test_of_functions() -> None:
    def model(params: Any) -> Any:
        net = torch.nn.Linear(WIDTH, 3)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    def opened(task: Any) -> Session:
        functions = TrainingFunctions(model_fn=model, train_fn=lambda *_: {"loss": 0.0}, task=task)
        session = open_session(lambda _: functions, {}, 0)
        decide_session_task(session, rows(CLASS), ["y"])
        return session

    assert opened(None).sums.task.kind == "multiclass"
    assert opened("custom").sums.task.kind == "custom"
