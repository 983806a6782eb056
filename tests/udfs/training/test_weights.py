"""Weights of rows: the loss of a batch is the weighted mean of its rows' losses, and so are the metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

from udfs.handlers import ModelTrainer, open_session
from udfs.metrics import METRICS, Metric, MetricError, Sums, merge_sums, metric
from udfs.shards import Tensors
from udfs.training import TrainerError, TrainingFunctions

ROWS, WIDTH, BATCH = 40, 5, 16


def rows(classes: int = 3) -> Tensors:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    labels = draw.integers(0, classes, ROWS)
    return Tensors((inputs,), (labels,), ROWS, draw.uniform(0.1, 4, ROWS).astype(np.float32))


def relative(weights: np.ndarray) -> np.ndarray:
    exact = weights.astype(np.float64)
    return (exact * (len(exact) / exact.sum())).astype(np.float32)


def torch_session(loss: Any, data: Tensors, metrics: Any = (), outputs: int = 3) -> Any:
    del data

    def make(_params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Linear(WIDTH, outputs)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        return ModelTrainer(model=net, optimizer=optimizer, loss=loss, metrics=metrics, batch_size=BATCH)

    return open_session(make, {}, 1, weighted=True)


def test_torch_trains_as_a_plain_loop_does_bit_for_bit() -> None:
    data, order = rows(), np.random.default_rng(5).permutation(ROWS)
    session = torch_session(torch.nn.CrossEntropyLoss(), data)
    torch.manual_seed(1)
    net = torch.nn.Linear(WIDTH, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    each = torch.nn.CrossEntropyLoss(reduction="none")
    total = 0.0
    for start in range(0, ROWS, BATCH):
        picked = order[start : start + BATCH]
        weights = torch.from_numpy(relative(data.weights[picked]))
        optimizer.zero_grad()
        losses = each(net(torch.from_numpy(data.inputs[0][picked])), torch.from_numpy(data.labels[0][picked]))
        loss = (weights * losses).sum() / weights.sum()
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * float(data.weights[picked].sum(dtype=np.float64))
    found = session.train(data, order, ends_epoch=True)
    for name, value in net.state_dict().items():
        assert torch.equal(session.model.state_dict()[name], value), name
    assert found["loss"].tolist() == pytest.approx([total, data.weights.sum(dtype=np.float64)], rel=1e-12)


def test_keras_trains_as_a_plain_loop_does() -> None:
    data, order = rows(), np.random.default_rng(5).permutation(ROWS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def net() -> Any:
        return keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(3, kernel_initializer="ones")])

    def make(_params: dict[str, Any]) -> ModelTrainer:
        return ModelTrainer(model=net(), optimizer=keras.optimizers.SGD(0.1), loss=loss, batch_size=BATCH)

    session = open_session(make, {}, 1, weighted=True)
    session.train(data, order, ends_epoch=True)
    plain, means = net(), net()
    plain.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss, jit_compile=False)
    own = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    means.compile(optimizer=keras.optimizers.SGD(0.1), loss=own, jit_compile=False)
    for start in range(0, ROWS, BATCH):
        picked = order[start : start + BATCH]
        given = data.inputs[0][picked], data.labels[0][picked]
        plain.train_on_batch(*given, relative(data.weights[picked]))
        means.train_on_batch(*given, data.weights[picked])
    for place, found in enumerate(session.model.get_weights()):
        np.testing.assert_array_equal(found, plain.get_weights()[place])
        np.testing.assert_allclose(found, means.get_weights()[place], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "outputs", "classes"),
    [
        pytest.param(torch.nn.CrossEntropyLoss(), 3, 3, id="classes"),
        pytest.param(torch.nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 5.0])), 3, 3, id="weighted classes"),
        pytest.param(torch.nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1), 3, 3, id="ignored"),
        pytest.param(torch.nn.CrossEntropyLoss(reduction="sum"), 3, 3, id="sum"),
        pytest.param(torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)), 1, 2, id="two classes"),
        pytest.param(torch.nn.MSELoss(), 1, 3, id="values"),
    ],
)
def test_a_row_of_weight_three_has_the_gradient_of_three_rows(loss: Any, outputs: int, classes: int) -> None:
    data = rows(classes)
    times = np.array([3, 1, 2, 1, 4])
    places = np.repeat(np.arange(5), times)
    repeated = Tensors((data.inputs[0][places],), (data.labels[0][places],), len(places))
    weighted = Tensors((data.inputs[0][:5],), (data.labels[0][:5],), 5, times.astype(np.float32))
    one, other = (torch_session(loss, data, outputs=outputs) for _ in range(2))
    found = one.train(weighted, np.arange(5), ends_epoch=True)["loss"]
    expected = other.train(repeated, np.arange(len(places)), ends_epoch=True)["loss"]
    if loss.reduction == "sum":
        # A sum over the batch's own number of rows, whatever the scale of the weights.
        assert found[0] / found[1] == pytest.approx(expected[0] / expected[1] * 5 / len(places), rel=1e-5)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for name, value in other.model.state_dict().items():
        torch.testing.assert_close(one.model.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def of_batch(output: Any, label: Any) -> Any:
    return torch.nn.functional.cross_entropy(output, label)


def of_rows(output: Any, label: Any) -> Any:
    return torch.nn.functional.cross_entropy(output, label, reduction="none")


def test_a_function_has_to_give_one_loss_a_row() -> None:
    data = rows()
    with pytest.raises(TrainerError, match=r"the loss of_batch gives numbers of shape \(\) for 40 rows: .* one a row"):
        torch_session(of_batch, data).evaluate(data)
    module, function = (torch_session(loss, data) for loss in (torch.nn.CrossEntropyLoss(), of_rows))
    for session in (module, function):
        session.train(data, np.arange(ROWS), ends_epoch=True)
    assert module.checkpoint() == function.checkpoint()


def keras_of_batch(truth: Any, found: Any) -> Any:
    return keras.ops.mean((found - truth) ** 2)


def test_a_function_of_keras_has_to_give_one_loss_a_row() -> None:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1)])
        return ModelTrainer(model=net, optimizer="sgd", loss=keras_of_batch)

    with pytest.raises(TrainerError, match=r"the loss keras_of_batch gives numbers of shape \(\) for 40 rows"):
        open_session(make, {}, 1, weighted=True).evaluate(rows())


def test_own_functions_say_that_they_use_the_weights() -> None:
    data = rows()

    def functions(*, uses: bool) -> TrainingFunctions:
        def model_fn(_params: Any) -> Any:
            net = torch.nn.Linear(WIDTH, 3)
            return net, torch.optim.SGD(net.parameters(), lr=0.1)

        return TrainingFunctions(model_fn, lambda *_: {"loss": 0.5}, uses_weights=uses)

    with pytest.raises(TrainerError, match=r"which TrainingFunctions may ignore: .*uses_weights=True"):
        open_session(lambda _params: functions(uses=False), {}, 1, weighted=True)
    session = open_session(lambda _params: functions(uses=True), {}, 1, weighted=True)
    total = float(data.weights.sum(dtype=np.float64))
    assert session.evaluate(data)["loss"].tolist() == [0.5 * total, total]


@pytest.mark.parametrize("name", METRICS)
def test_metrics_count_a_row_of_weight_three_as_three_rows_over_any_shards(name: str) -> None:
    draw = np.random.default_rng(2)
    binary = name in {"precision", "recall", "f1", "auc"}
    rows = (30, 6) if name in {"token_accuracy", "entity_f1"} else (30,)
    outputs = np.round(draw.normal(size=(*rows, 2 if binary else 1 if "se" in name or name == "mae" else 7)), 1)
    labels = draw.integers(0, 2 if binary else 7, rows)
    weights = draw.integers(1, 4, 30).astype(np.float32)
    sums = Sums([metric(name)])
    parts = [sums.contributions(outputs[part], labels[part], weights[part]) for part in (slice(11), slice(11, 30))]
    places = np.repeat(np.arange(30), weights.astype(int))
    expected = sums.results(sums.contributions(outputs[places], labels[places]))
    assert sums.results(merge_sums(*parts))[name] == pytest.approx(expected[name], rel=1e-12)
    plain = sums.results(sums.contributions(outputs, labels))
    assert plain[name] != expected[name], "the weights matter here"
    assert sums.results(sums.contributions(outputs, labels, np.ones(30, np.float32))) == plain


def test_torch_and_keras_evaluate_by_the_weights() -> None:
    data = rows()

    def make(_params: dict[str, Any]) -> ModelTrainer:
        net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(model=net, optimizer="sgd", loss=loss, metrics=["accuracy"])

    for session in (
        torch_session(torch.nn.CrossEntropyLoss(), data, ["accuracy"]),
        open_session(make, {}, 1, weighted=True),
    ):
        (scores,) = session.predict(data.inputs)
        right = scores.argmax(axis=1) == data.labels[0]
        found = session.sums.results(session.evaluate(data))["accuracy"]
        assert found == pytest.approx(np.average(right, weights=data.weights.astype(np.float64)), rel=1e-12)
        assert found != pytest.approx(right.mean())


def test_small_weights_are_not_lost_in_the_mean() -> None:
    assert Sums([]).results({"loss": np.array([0.001, 0.002])}) == {"loss": 0.5}


def test_a_metric_without_a_weighted_form_is_refused() -> None:
    own = Metric("own", lambda *_: np.zeros(2), lambda _: 0.0, larger_is_better=True)
    with pytest.raises(MetricError, match="'own' has no weighted form"):
        Sums([own]).contributions(np.zeros((2, 1)), np.zeros(2), np.ones(2, np.float32))
