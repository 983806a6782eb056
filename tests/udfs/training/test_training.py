"""Training units: a model that hops takes all of its state along."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import DeviceError, ModelTrainer, open_session
from udfs.handlers.torch._session import as_array, as_tensor
from udfs.inference import PortableNetwork
from udfs.metrics import MetricError
from udfs.packing import StateError, pack, unpack
from udfs.shards import Tensors
from udfs.training import Diverged, TrainerError, TrainingFunctions, initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 11
ROWS, WIDTH, BATCH = 50, 6, 16


@dataclass
class Data:
    """As udfs.shards gives it."""

    inputs: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    weights: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(self.labels[0])


def shard(number: int) -> Data:
    draw = np.random.default_rng(number)
    inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return Data((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),))


def torch_model() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 2),
    )


def torch_trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch_model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=BATCH,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5),
    )


def plain_torch(visits: list[tuple[int, int]], config: str, *, last: int) -> dict[str, np.ndarray]:
    """An ordinary loop over the shards in an order, with nothing of this project's but the seeds."""
    torch.manual_seed(initial_seed(SEED, config))
    net = torch_model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loss_of = torch.nn.CrossEntropyLoss()
    for place, (epoch, partition) in enumerate(visits):
        data = shard(partition)
        order = row_order(SEED, config, epoch, partition, data.rows)
        net.train()
        for start in range(0, data.rows, BATCH):
            picked = order[start : start + BATCH]
            optimizer.zero_grad()
            loss_of(net(torch.from_numpy(data.inputs[0][picked])), torch.from_numpy(data.labels[0][picked])).backward()
            optimizer.step()
        if place % last == last - 1:
            scheduler.step()
    return {name: value.numpy() for name, value in net.state_dict().items()}


def hopping(trainer_fn: Callable[..., Any], params: dict[str, Any], visits: list[tuple[int, int]], last: int) -> Any:
    """A session a unit: each goes on from the bytes of the one before, as on another worker."""
    state, config = None, "c0"
    session = None
    for place, (epoch, partition) in enumerate(visits):
        session = open_session(trainer_fn, params, initial_seed(SEED, config))
        if state is not None:
            # What another configuration draws in between must not matter.
            torch.rand(place + 1)
            np.random.rand(place + 1)  # the generator in question
            session.restore(state)
        data = shard(partition)
        order = row_order(SEED, config, epoch, partition, data.rows)
        session.train(data, order, ends_epoch=place % last == last - 1)
        session.evaluate(data)
        state = session.checkpoint()
    return session, state


VISITS = [(0, 1), (0, 0), (0, 2), (1, 2), (1, 1), (1, 0)]


def test_a_model_that_hops_equals_one_that_stays() -> None:
    _, state = hopping(torch_trainer, {"lr": 0.01}, VISITS, 3)
    found = unpack(state, as_tensor)["model"]
    for name, value in plain_torch(VISITS, "c0", last=3).items():
        np.testing.assert_array_equal(found[name].numpy(), value, err_msg=name)


def test_a_session_that_trains_others_in_between_goes_on_as_if_it_had_not() -> None:
    one = open_session(torch_trainer, {"lr": 0.01}, initial_seed(SEED, "c0"))
    other = open_session(torch_trainer, {"lr": 0.5}, initial_seed(SEED, "c1"))
    for place, (epoch, partition) in enumerate(VISITS):
        data = shard(partition)
        other.train(data, np.arange(data.rows), ends_epoch=False)
        one.train(data, row_order(SEED, "c0", epoch, partition, data.rows), ends_epoch=place % 3 == 2)
    found = unpack(one.checkpoint(), as_tensor)["model"]
    for name, value in plain_torch(VISITS, "c0", last=3).items():
        np.testing.assert_array_equal(found[name].numpy(), value, err_msg=name)


@pytest.mark.extended
def test_keras_hops_to_the_same_bits() -> None:
    keras = pytest.importorskip("keras")

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        rate = keras.optimizers.schedules.ExponentialDecay(params["lr"], 4, 0.5)
        net = keras.Sequential(
            [
                keras.Input((WIDTH,)),
                keras.layers.Dense(8),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(2, "softmax"),
            ]
        )
        return ModelTrainer(
            model=net, optimizer=keras.optimizers.Adam(rate), loss="sparse_categorical_crossentropy", batch_size=BATCH
        )

    def numbers(state: bytes) -> list[np.ndarray]:
        found = unpack(state, lambda array, _kind: array)
        return [*found["model"], *found["optimizer"]]

    _, hopped = hopping(trainer, {"lr": 0.05}, VISITS, 3)
    keras.utils.set_random_seed(initial_seed(SEED, "c0"))
    made = trainer({"lr": 0.05})
    made.model.compile(optimizer=made.optimizer, loss=made.loss, jit_compile=False)
    for epoch, partition in VISITS:
        data = shard(partition)
        order = row_order(SEED, "c0", epoch, partition, data.rows)
        for start in range(0, data.rows, BATCH):
            picked = order[start : start + BATCH]
            made.model.train_on_batch(data.inputs[0][picked], data.labels[0][picked])
    plain = [variable.numpy() for variable in (*made.model.variables, *made.model.optimizer.variables)]
    for one, other in zip(numbers(hopped), plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_keras_evaluates_by_one_forward_pass() -> None:
    """Which gives loss and metrics; of several batches, the last one short."""
    keras = pytest.importorskip("keras")

    @keras.saving.register_keras_serializable("tests")
    class Counting(keras.layers.Layer):
        """Counts the rows that it has seen."""

        def build(self, _shape: Any) -> None:
            self.seen = self.add_weight(shape=(), dtype="int64", initializer="zeros", trainable=False)
            super().build(_shape)

        def call(self, rows: Any) -> Any:
            self.seen.assign_add(keras.ops.cast(keras.ops.shape(rows)[0], "int64"))
            return rows

    counting = Counting()
    rows = keras.Input((WIDTH,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.BatchNormalization()(keras.layers.Dense(8)(counting(rows))))
    scores = keras.layers.Dense(2, "softmax", kernel_regularizer=keras.regularizers.L2(0.1))(hidden)
    net = keras.Model(rows, scores)
    loss = keras.losses.SparseCategoricalCrossentropy()
    trainer = ModelTrainer(model=net, optimizer=keras.optimizers.SGD(0.1), loss=loss, metrics=["accuracy", "auc"])
    session = open_session(lambda _params: trainer, {}, 0)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(600, WIDTH)).astype(np.float32)
    # The last batch is unlike the others: its loss is not that of all.
    labels = (np.arange(600) >= 512).astype(np.int64)
    parts = [session.evaluate(Tensors((inputs[:n],), (labels[:n],), n)) for n in (100, 600)]
    assert int(counting.seen.numpy()) == 700
    for part, count in zip(parts, (100, 600), strict=True):
        outputs = net(inputs[:count], training=False)
        found = session.sums.results(part)
        assert found["loss"] == pytest.approx(float(loss(labels[:count], outputs)) + float(net.losses[0]), rel=1e-6)
        assert found["accuracy"] == np.mean(np.argmax(outputs, axis=1) == labels[:count])
    logs = net.test_on_batch(inputs[:100], labels[:100], return_dict=True)
    assert parts[0]["loss"][0] / 100 == pytest.approx(float(logs["loss"]), rel=1e-6)


def test_keras_evaluates_several_outputs_and_by_an_own_step() -> None:
    keras = pytest.importorskip("keras")

    class Own(keras.Model):  # type: ignore[misc,name-defined]
        def test_step(self, data: Any) -> dict[str, Any]:
            rows, _, _ = keras.utils.unpack_x_y_sample_weight(data)
            return {"loss": keras.ops.mean(rows)}

    def session_of(kind: Any) -> Any:
        rows = keras.Input((WIDTH,))
        net = kind(rows, [keras.layers.Dense(1)(rows), keras.layers.Dense(2)(rows)])
        trainer = ModelTrainer(
            model=net, optimizer=keras.optimizers.SGD(0.1), loss=["mse", "mae"], metrics=["mse"], batch_size=BATCH
        )
        return open_session(lambda _params: trainer, {}, 0)

    inputs = np.random.default_rng(0).normal(size=(300, WIDTH)).astype(np.float32)
    labels = (inputs[:, :1], inputs[:, :2])
    data = Tensors((inputs,), labels, 300)
    session = session_of(keras.Model)
    one, two = session.model.predict_on_batch(inputs)
    squares, absolutes = np.mean((one - labels[0]) ** 2), np.mean(np.abs(two - labels[1]))
    found = session.sums.results(session.evaluate(data))
    assert found == {"loss": pytest.approx(squares + absolutes, rel=1e-5), "mse": pytest.approx(squares, rel=1e-5)}
    own = session_of(Own)
    assert own.sums.results(own.evaluate(data))["loss"] == pytest.approx(inputs.mean(), abs=1e-6)
    assert own.sums.results(own.evaluate(data))["mse"] > 0


def test_keras_reads_ids_as_integers_in_training_and_prediction() -> None:
    keras = pytest.importorskip("keras")
    ids = keras.Input((1,), dtype="int64")
    scores = keras.layers.Flatten()(keras.layers.Embedding(2, 2)(ids % 2))
    net = keras.Model(ids, scores)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trainer = ModelTrainer(model=net, optimizer=keras.optimizers.Adam(0.1), loss=loss, metrics=["accuracy"])
    session = open_session(lambda _params: trainer, {}, 0)
    numbers = np.arange(2**24, 2**24 + 200)
    data = Tensors((numbers.reshape(-1, 1),), (numbers % 2,), 200)
    for _ in range(3):
        session.train(data, np.arange(200), ends_epoch=True)
    assert session.sums.results(session.evaluate(data))["accuracy"] == 1.0
    (found,) = PortableNetwork.of(net, session.read(data.inputs)).open()(data.inputs)
    np.testing.assert_array_equal(found.argmax(axis=1), numbers % 2)


def test_the_training_loss_of_keras_is_of_all_batches() -> None:
    keras = pytest.importorskip("keras")
    net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1)])
    trainer = ModelTrainer(model=net, optimizer=keras.optimizers.SGD(0.0), loss="mse", batch_size=BATCH)
    session = open_session(lambda _params: trainer, {}, 0)
    rows = 3 * BATCH + 1
    inputs = np.random.default_rng(0).normal(size=(rows, WIDTH)).astype(np.float32)
    labels = np.arange(rows, dtype=np.float32)
    found = session.train(Tensors((inputs,), (labels,), rows), np.arange(rows), ends_epoch=True)
    errors = net.predict_on_batch(inputs)[:, 0] - labels
    assert found["loss"][0] / found["loss"][1] == pytest.approx(np.mean(errors**2), rel=1e-5)


def test_the_users_own_function_trains_and_hops() -> None:
    def model_fn(params: dict[str, Any]) -> tuple[Any, Any]:
        net = torch_model()
        return net, torch.optim.Adam(net.parameters(), lr=params["lr"])

    def train_fn(data: Any, model: Any, optimizer: Any, _params: dict[str, Any]) -> dict[str, float]:
        rows, labels = data
        learning = next(model.parameters()).requires_grad
        if learning:
            model.train()
        loss = torch.nn.functional.cross_entropy(model(rows), labels)
        if learning:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {"loss": loss.item(), "distance": 3.0}

    def input_fn(data: Any) -> tuple[Any, Any]:
        read.append(data)
        return torch.from_numpy(data.inputs[0]), torch.from_numpy(data.labels[0])

    read: list[Any] = []
    functions = TrainingFunctions(model_fn=model_fn, train_fn=train_fn, input_fn=input_fn)
    one = open_session(lambda _params: functions, {"lr": 0.05}, 3)
    data = shard(0)
    first = one.sums.results(one.train(data, np.arange(ROWS), ends_epoch=False))["loss"]
    state = one.checkpoint()
    evaluated = one.sums.results(one.evaluate(data))
    assert evaluated["distance"] == 3.0
    assert one.checkpoint() == state, "validation has changed the model"
    assert len(read) == 1, "a shard is read once"
    other = open_session(lambda _params: functions, {"lr": 0.05}, 4)
    other.restore(state)
    for _ in range(30):
        last = other.sums.results(other.train(data, np.arange(ROWS), ends_epoch=False))["loss"]
    assert last < first


def test_what_diverges_says_so() -> None:
    session = open_session(torch_trainer, {"lr": 1e30}, 0)

    def train() -> None:
        for _ in range(5):
            session.train(shard(0), np.arange(ROWS), ends_epoch=False)

    with pytest.raises(Diverged, match="the loss became"):
        train()


def test_a_probability_is_cut_at_one_half() -> None:
    def trainer(_params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 1), torch.nn.Sigmoid())
        return ModelTrainer(
            model=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            loss=torch.nn.BCELoss(),
            metrics=["accuracy"],
        )

    session = open_session(trainer, {}, 1)
    data = shard(3)
    (probabilities,) = session.predict(data.inputs)
    found = session.sums.results(session.evaluate(data))
    assert found["accuracy"] == pytest.approx(((probabilities[:, 0] > 0.5) == data.labels[0]).mean())


def test_bytes_of_every_type_survive() -> None:
    state = {
        "half": torch.randn(3).bfloat16(),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "nested": {1: [True, None, (0.1, "a")]},
        "inf": float("inf"),
    }
    found = unpack(pack(state, as_array), as_tensor)
    assert torch.equal(found["half"], state["half"])
    assert found["half"].dtype == torch.bfloat16
    assert found["scalar"].shape == ()
    assert found["empty"].shape == (0, 4)
    assert found["nested"] == state["nested"]
    assert found["inf"] == float("inf")


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(StateError, match=r"function at scheduler\.anneal"):
        pack({"scheduler": {"anneal": lambda: 0}}, as_array)
    for junk in (b"", b"12345678", b"\x10\x00\x00\x00\x00\x00\x00\x00not json at all!"):
        with pytest.raises(StateError, match="not a state"):
            unpack(junk, as_tensor)


def test_the_order_of_rows_depends_on_all_that_it_should() -> None:
    orders = {
        tuple(row_order(seed, config, epoch, partition, 20).tolist())
        for seed in (0, 1)
        for config in ("c0", "c1")
        for epoch in (0, 1)
        for partition in (0, 1)
    }
    assert len(orders) == 16


def test_a_function_that_imports_its_framework_itself_is_seeded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    calls = []

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        calls.append(len(calls))
        monkeypatch.setitem(sys.modules, "torch", torch)
        return torch_trainer(params)

    monkeypatch.delitem(sys.modules, "torch")
    one = open_session(trainer_fn, {"lr": 0.1}, 5)
    assert len(calls) == 2
    two = open_session(torch_trainer, {"lr": 0.1}, 5)
    first, second = (unpack(session.checkpoint(), as_tensor)["model"] for session in (one, two))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": object()}, "give a torch.nn.Module or a keras.Model"),
        ({"batch_size": 0}, "at least 1"),
        ({"scheduler_step": "week"}, "batch"),
        ({"metrics": ["acuracy"]}, "did you mean 'accuracy'"),
    ],
)
def test_trainers_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    net = torch.nn.Linear(2, 2)
    usual = {"model": net, "optimizer": torch.optim.SGD(net.parameters(), lr=0.1), "loss": torch.nn.MSELoss()}
    with pytest.raises((TrainerError, MetricError), match=message):
        ModelTrainer(**usual | settings)


def test_an_optimizer_of_another_model_is_refused() -> None:
    def trainer(_params: dict[str, Any]) -> ModelTrainer:
        one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        return ModelTrainer(model=one, optimizer=torch.optim.SGD(other.parameters(), lr=0.1), loss=torch.nn.MSELoss())

    with pytest.raises(TrainerError, match="parameters of another model"):
        open_session(trainer, {}, 0)


def own_functions(place: str = "cpu") -> Callable[[dict[str, Any]], TrainingFunctions]:
    def model_fn(_params: Any) -> Any:
        net = torch.nn.Linear(2, 2).to(place)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    return lambda _params: TrainingFunctions(model_fn=model_fn, train_fn=lambda *_: {"loss": 0.0})


def test_the_device_of_a_run_reaches_training_functions() -> None:
    """The meta device stands for an accelerator."""
    session = open_session(own_functions(), {}, 0, device="meta")
    assert {parameter.device.type for parameter in session.model.parameters()} == {"meta"}


def test_a_model_that_its_author_put_on_an_accelerator_stays_there() -> None:
    session = open_session(own_functions("meta"), {}, 0, device="cpu")
    assert {parameter.device.type for parameter in session.model.parameters()} == {"meta"}


@pytest.mark.parametrize("trainer_fn", [own_functions(), lambda _params: torch_trainer({"lr": 0.1})])
def test_a_device_that_is_not_there_is_refused(trainer_fn: Callable[..., Any]) -> None:
    with pytest.raises(DeviceError, match=r"cuda:7.*use 'cpu' or 'auto'"):
        open_session(trainer_fn, {}, 0, device="cuda:7")
    assert open_session(trainer_fn, {}, 0, device="auto").weight_bytes


@pytest.mark.parametrize("own", [False, True])
def test_keras_trains_on_the_device_of_the_run(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keras = pytest.importorskip("keras")
    tensorflow = pytest.importorskip("tensorflow")
    around: list[str] = []
    seen: list[tuple[str, ...]] = []
    real = tensorflow.device

    @contextmanager
    def recorded(name: str) -> Any:
        around.append(name)
        with real(name):
            yield
        around.pop()

    monkeypatch.setattr(tensorflow, "device", recorded)

    def loss(labels: Any, outputs: Any) -> Any:
        seen.append(tuple(around))
        return keras.ops.mean(keras.ops.square(outputs - labels))

    def model_fn(_params: Any) -> Any:
        net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1)])
        return net, keras.optimizers.SGD(0.1)

    def train_fn(data: Any, model: Any, _optimizer: Any, _params: Any) -> dict[str, float]:
        return {"loss": float(loss(data.labels[0], model(data.inputs[0])[:, 0]))}

    def trainer_fn(params: Any) -> Any:
        if own:
            return TrainingFunctions(model_fn=model_fn, train_fn=train_fn)
        net, optimizer = model_fn(params)
        return ModelTrainer(model=net, optimizer=optimizer, loss=loss, batch_size=BATCH)

    session = open_session(trainer_fn, {}, 0, device="cpu:0")
    data = shard(0)
    session.train(data, np.arange(data.rows), ends_epoch=True)
    session.evaluate(data)
    assert set(seen) == {("CPU:0",)}
    with pytest.raises(DeviceError, match="got 'cuda:7': use 'cpu' or 'auto'"):
        open_session(trainer_fn, {}, 0, device="cuda:7")
