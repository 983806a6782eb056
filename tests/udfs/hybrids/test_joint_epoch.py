"""Epochs that several workers train together, against plain loops of torch."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optimizer.hybrids import interleave_rows
from udfs.gang import Gang, GangError
from udfs.gang import _gang as gang_module
from udfs.handlers import ModelTrainer, open_session
from udfs.hybrids import JointEpoch, ShardRows, unshareable_reason
from udfs.shards import Tensors
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BATCH = 8
_ONE_AT_A_TIME = threading.Lock()


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_module, "_GRACE_S", 0.0)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def trainer(kind: str = "adam", **settings: Any) -> ModelTrainer:
    """A perceptron with momentum or moments and a schedule that steps with batches."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    optimizers = {
        "sgd": lambda: torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
        "adam": lambda: torch.optim.Adam(net.parameters(), lr=0.02),
    }
    optimizer = optimizers[kind]()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.7)
    return ModelTrainer(
        model=settings.pop("model", net),
        optimizer=optimizer,
        scheduler=scheduler,
        scheduler_step="batch",
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=BATCH,
        **settings,
    )


def session_of(made: Callable[[], ModelTrainer]) -> Any:
    with _ONE_AT_A_TIME:  # the threads of a gang share torch's random numbers, which weights are drawn from
        return open_session(lambda _: made(), {}, 5)


def shard(partition: int, rows: int, *, weighted: bool = False) -> ShardRows:
    draw = np.random.default_rng(partition)
    inputs = draw.normal(size=(rows, 4)).astype(str(torch.get_default_dtype()).removeprefix("torch."))
    weights = draw.uniform(0.5, 2, rows).astype(np.float32) if weighted else None
    tensors = Tensors((inputs,), ((inputs.sum(1) > 0).astype(np.int64),), rows, weights)
    return ShardRows(partition, tensors, draw.permutation(rows))


def together(size: int, work: Callable[[Gang], Any]) -> list[Any]:
    """Return what ``work`` returns in each member of a gang; an error is a result too."""
    messages, barrier = [""] * size, threading.Barrier(size, timeout=60)

    def member(rank: int) -> Any:
        def exchange(message: str) -> list[str]:
            messages[rank] = message
            barrier.wait()
            return list(messages)

        gang = Gang.connect(rank, size, "127.0.0.1", exchange, 30.0)
        try:
            return work(gang)
        except (GangError, TrainerError) as error:
            return error
        finally:
            gang.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(member, range(size)))


def plain_epoch(made: ModelTrainer, shards: Sequence[ShardRows]) -> None:
    """Train an epoch in one process, on batches that have the rows of all shards."""
    shares = interleave_rows([len(each.order) for each in shards], BATCH, drop_last=made.drop_last)
    position = [0] * len(shards)
    for batch in shares:
        inputs, labels, weights = [], [], []
        for place, count in enumerate(batch):
            rows = shards[place].order[position[place] : position[place] + count]
            position[place] += count
            inputs.append(shards[place].rows.inputs[0][rows])
            labels.append(shards[place].rows.labels[0][rows])
            if shards[place].rows.weights is not None:
                weights.append(shards[place].rows.weights[rows])
        made.optimizer.zero_grad()
        outputs = made.model(torch.from_numpy(np.concatenate(inputs)))
        losses = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(np.concatenate(labels)), reduction="none")
        factors = torch.from_numpy(np.concatenate(weights)).to(losses) if weights else torch.ones_like(losses)
        ((losses * factors).sum() / factors.sum()).backward()
        made.optimizer.step()
        made.scheduler.step()


def largest_difference(model: Any, other: Any) -> float:
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((mine - theirs).abs().max()) for mine, theirs in pairs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_an_epoch_of_all_reduce_is_that_of_one_process(kind: str, weighted: bool, double: None) -> None:
    shards = [shard(0, 23, weighted=weighted), shard(1, 40, weighted=weighted), shard(2, 5, weighted=weighted)]
    owned = [[shards[0], shards[2]], [shards[1]]]

    def work(gang: Gang) -> tuple[Any, dict[str, Any]]:
        session = session_of(lambda: trainer(kind))
        sums = JointEpoch(session, gang, owned[gang.rank]).all_reduce()
        return session, sums

    results = together(2, work)
    alone = session_of(lambda: trainer(kind))
    plain_epoch(alone.trainer, shards)
    for session, sums in results:
        # Weights relative to the mean of a batch are in single precision.
        assert largest_difference(session.model, alone.model) < (1e-7 if weighted else 1e-9)
        assert session.trainer.scheduler.state_dict() == alone.trainer.scheduler.state_dict()
        assert session.epoch == 1
        total = sum(each.rows.weights.sum() if weighted else each.rows.rows for each in shards)
        assert sums["loss"][1] == pytest.approx(float(total))
    assert results[0][1]["loss"].tolist() == results[1][1]["loss"].tolist()


def test_a_step_in_single_precision_is_that_of_one_process() -> None:
    shards = [shard(0, 3), shard(1, 5)]

    def work(gang: Gang) -> Any:
        session = session_of(trainer)
        JointEpoch(session, gang, [shards[gang.rank]]).all_reduce()
        return session

    alone = session_of(trainer)
    plain_epoch(alone.trainer, shards)
    for session in together(2, work):
        assert largest_difference(session.model, alone.model) < 1e-5


def test_averaging_is_a_mean_of_state_dicts(double: None) -> None:
    def normed() -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH)

    shards = [shard(0, 24), shard(1, 40), shard(2, 16)]
    owned = [[shards[0], shards[2]], [shards[1]]]

    def work(gang: Gang) -> tuple[Any, bytes]:
        session = session_of(normed)
        JointEpoch(session, gang, owned[gang.rank]).averaging()
        return session, session.checkpoint()

    states, moments = [], []
    for mine in owned:
        session = session_of(normed)
        for place, each in enumerate(mine):
            session.train(each.rows, each.order, ends_epoch=place == len(mine) - 1)
        states.append(copy.deepcopy(session.model.state_dict()))
        moments.append(copy.deepcopy(session.trainer.optimizer.state_dict()["state"]))
    results = together(2, work)
    for session, _ in results:
        for name, value in session.model.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(value, (states[0][name] + states[1][name]) / 2, rtol=1e-12, atol=1e-12)
        for place, state in session.trainer.optimizer.state_dict()["state"].items():
            mean = (moments[0][place]["exp_avg_sq"] + moments[1][place]["exp_avg_sq"]) / 2
            torch.testing.assert_close(state["exp_avg_sq"], mean, rtol=1e-12, atol=1e-14)
    assert results[0][0].epoch == 1


def test_buffers_of_all_reduce_are_averaged_by_rows() -> None:
    def normed() -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(4, momentum=None), torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=64)

    shards = [shard(0, 12), shard(1, 36)]

    def work(gang: Gang) -> Any:
        session = session_of(normed)
        JointEpoch(session, gang, [shards[gang.rank]]).all_reduce()
        return session.model[0].running_mean

    means = [each.rows.inputs[0].mean(0) for each in shards]
    expected = torch.from_numpy((12 * means[0] + 36 * means[1]) / 48)
    for found in together(2, work):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_parameter_without_gradient_is_named() -> None:
    class Unused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

        def forward(self, rows: Any) -> Any:
            return self.used(rows)

    def unused() -> ModelTrainer:
        net = Unused()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH)

    def work(gang: Gang) -> Any:
        return JointEpoch(session_of(unused), gang, [shard(gang.rank, 9)]).all_reduce()

    for error in together(2, work):
        assert isinstance(error, TrainerError)
        assert "got none for spare.weight" in str(error)


def test_a_measurement_leaves_the_session_as_it_was() -> None:
    def work(gang: Gang) -> tuple[Any, bytes, bytes]:
        session = session_of(trainer)
        before = session.checkpoint()
        measured = JointEpoch(session, gang, [shard(gang.rank, 20)]).measure()
        return measured, before, session.checkpoint()

    results = together(2, work)
    assert results[0][0] == results[1][0], "the ranks plan with the same numbers"
    for measured, before, after in results:
        assert before == after
        assert (measured.batch_rows, measured.share_rows) == (BATCH, BATCH // 2)
        assert measured.gradient_bytes == 4 * (4 * 6 + 6 + 6 * 2 + 2)
        assert min(measured.batch_s, measured.share_s, measured.exchange_s, measured.latency_s) > 0


def test_reasons() -> None:
    assert unshareable_reason(session_of(trainer)) is None
    net = torch.nn.Linear(4, 2)
    loss = torch.nn.CrossEntropyLoss()

    def reason(**settings: Any) -> str | None:
        defaults = {"model": net, "optimizer": torch.optim.SGD(net.parameters(), lr=0.1), "loss": loss}
        return unshareable_reason(session_of(lambda: ModelTrainer(**defaults | settings)))

    assert "got LBFGS" in str(reason(optimizer=torch.optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe")))
    assert "weights of classes" in str(reason(loss=torch.nn.CrossEntropyLoss(weight=torch.ones(2))))
    assert "reduction='sum'" in str(reason(loss=torch.nn.CrossEntropyLoss(reduction="sum")))


def test_a_torch_without_gloo_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.distributed, "ProcessGroupGloo")
    assert "built without gloo" in str(unshareable_reason(session_of(trainer)))


def clipped() -> ModelTrainer:
    made = trainer("sgd")

    def clip(optimizer: Any, *_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.05)

    made.optimizer.register_step_pre_hook(clip)
    return made


def test_hooks_of_the_user_get_the_gradients_of_all_workers(double: None) -> None:
    """To clip the gradients of each worker by themselves gives another step."""
    shards = [shard(0, 24), shard(1, 40)]

    def work(gang: Gang) -> Any:
        session = session_of(clipped)
        JointEpoch(session, gang, [shards[gang.rank]]).all_reduce()
        return session.model

    models = together(2, work)
    plain = session_of(clipped).trainer
    plain_epoch(plain, shards)
    assert max(largest_difference(model, plain.model) for model in models) < 1e-9


def test_a_single_row_of_a_worker_is_refused_with_batch_norm() -> None:
    """A step of 8 rows of two shards of 13 ends with one row of each."""

    def normed() -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH)

    def work(gang: Gang) -> str:
        epoch = JointEpoch(session_of(normed), gang, [shard(gang.rank, 13)])
        epoch.measure()
        reason = epoch.all_reduce_refusal()
        with pytest.raises(TrainerError, match="does not train on one row"):
            epoch.all_reduce()
        return reason

    for reason in together(2, work):
        assert "a worker has one row of a batch" in reason


def test_an_unused_parameter_is_found_by_the_measurement() -> None:
    def partly_used() -> ModelTrainer:
        made = trainer("sgd")
        made.model.register_parameter("idle", torch.nn.Parameter(torch.zeros(2)))
        return made

    def work(gang: Gang) -> list[str]:
        reasons = []
        for make in (partly_used, trainer):
            epoch = JointEpoch(session_of(make), gang, [shard(gang.rank, 16)])
            epoch.measure()
            reasons.append(epoch.all_reduce_refusal())
        return reasons

    assert together(2, work) == [["idle gets no dense gradient in a step, which an all-reduce requires", ""]] * 2
