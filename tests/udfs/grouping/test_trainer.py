from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from udfs.grouping import Group
from udfs.grouping._trainer import ConfigurationTrainer
from udfs.handlers import ModelTrainer, framework, open_session
from udfs.inference import PortableNetwork
from udfs.packing import unpack
from udfs.shards import Tensors
from udfs.training import decide_session_task

if TYPE_CHECKING:
    from udfs.training import Session


def rows(count: int, draw: np.random.Generator, *, weighted: bool) -> Tensors:
    inputs = draw.normal(size=(count, 3)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(np.int64)
    weights = draw.uniform(0.5, 2, count).astype(np.float32) if weighted else None
    return Tensors((inputs,), (labels,), count, weights)


def groups(sizes: list[int], *, weighted: bool = False) -> list[Group]:
    draw = np.random.default_rng(5)
    return [
        Group(f'["{place}"]', 1, rows(size, draw, weighted=weighted), rows(size // 3, draw, weighted=weighted), {})
        for place, size in enumerate(sizes)
    ]


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    step = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=4,
        scheduler=step,
        scheduler_step=params.get("step", "epoch"),
        drop_last=params.get("drop_last", False),
    )


def trainer(members: list[Group], params: dict[str, Any], function: Any = trainer_fn) -> ConfigurationTrainer:
    def opened() -> Session:
        session = open_session(function, params, 1, weighted=members[0].train.weights is not None)
        decide_session_task(session, members[0].train, ["label"])
        return session

    # Each test has paces of its own.
    return ConfigurationTrainer(f"{id(members)}", 0, opened, epochs=3, seed=2, metric="loss")


def weights(packed: bytes) -> dict[str, np.ndarray[Any, Any]]:
    tensors: dict[str, np.ndarray[Any, Any]] = unpack(packed, lambda array, _kind: array)["model"]
    return tensors


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_all_sizes_learn_together_what_they_learn_alone(weighted: bool) -> None:
    members = groups([12, 7, 30, 8, 10, 12, 16, 4], weighted=weighted)
    together, alone = trainer(members, {}), trainer(list(members), {})
    together.pace.alone, alone.pace.alone, alone.pace.refusal = 1.0, 1.0, "never"
    results, expected = together.train(members), alone.train(members)
    assert together.pace.together > 0, "nothing trained together"
    for result, other in zip(results, expected, strict=True):
        assert result.metrics == pytest.approx(other.metrics, rel=1e-4)
        assert result.weights is not None
        assert other.weights is not None
        mine, theirs = weights(result.weights()), weights(other.weights())
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            np.testing.assert_allclose(value, theirs[name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_group_that_diverges_leaves_the_others_alone() -> None:
    members = groups([8, 8, 8])
    members[1].train.inputs[0][:] = 1e38
    both = trainer(members, {})
    both.pace.alone = 1.0
    first, second, third = both.train([*members, *groups([8])])[:3]
    assert second.reason.startswith("diverged")
    assert not first.reason
    assert not third.reason


def test_batches_are_checked_for_each_group_and_the_others_train_together() -> None:
    members = groups([12, 9, 8, 13, 8, 10, 12, 8])
    both = trainer(members, {})
    both.pace.alone = 1.0
    results = both.train(members)
    assert both.pace.together > 0, f"nothing trained together: {both.pace.refusal}"
    reasons = {place: result.reason for place, result in enumerate(results) if result.reason}
    assert set(reasons) == {1, 3}
    assert reasons[1].startswith("batch_size=4 must not leave a last batch of one row, got a group of 9 rows")
    assert all(result.weights for place, result in enumerate(results) if place not in reasons)


def test_a_group_without_a_whole_batch_is_not_trained_with_drop_last() -> None:
    members = groups([12, 3, 9])
    results = trainer(members, {"drop_last": True}).train(members)
    assert [bool(result.reason) for result in results] == [False, True, False]
    assert "Nothing of that group would be trained" in results[1].reason


def test_steps_of_a_schedule_by_batch_train_one_by_one_with_the_reason() -> None:
    members = groups([8, 12, 8, 10, 10])
    single = trainer(members, {"step": "batch"})
    results = single.train(members)
    assert "scheduler_step must be 'epoch'" in single.pace.refusal
    assert [result.reason for result in results] == [""] * 5


def test_a_slower_stack_is_not_used_again() -> None:
    members = groups([8] * 6)
    slow = trainer(members, {})
    slow.pace.alone, slow.pace.together = 1e-9, 1.0
    slow.train(members)
    assert slow.pace.together == 1.0


def test_an_error_of_the_users_code_is_the_reason_of_each_group() -> None:
    def broken(params: dict[str, Any]) -> ModelTrainer:
        raise RuntimeError("no such table")

    members = groups([8] * 5)
    results = trainer(members, {}, broken).train(members)
    assert {result.reason for result in results} == {"raised: RuntimeError: no such table"}


def test_weights_of_groups_run_in_the_exported_network() -> None:
    members = groups([12] * 5)
    made = trainer(members, {})
    made.pace.alone = 1.0
    result = made.train(members)[3]
    session = open_session(trainer_fn, {}, 7)
    network = PortableNetwork.of(session.model, [members[0].train.inputs[0][:2]])
    load, run = framework("torch").open_reloadable(network.data)
    assert result.weights is not None
    load(result.weights())
    assert result.outputs is not None
    np.testing.assert_allclose(run(members[3].held_out.inputs)[0], result.outputs, rtol=1e-4, atol=1e-5)
