"""Batches that the rows of the shards leave, checked before anything is trained."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, TensorSpec, open_session
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable


def shards(*rows: int, shape: tuple[int, ...] = (5,), dtype: str = "float32") -> Any:
    train = [SimpleNamespace(split="train", rows=count) for count in rows]
    # The validation shards are never trained.
    return SimpleNamespace(
        shards=[*train, SimpleNamespace(split="validation", rows=1)], input_specs=(TensorSpec(shape, dtype),)
    )


def opened(build: Callable[[], Any], data: Any, *, by_group: bool = False, **settings: Any) -> Any:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = build()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), **settings)

    return open_session(trainer_fn, {}, 3, data=data, by_group=by_group)


def normed() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def plain() -> Any:
    return torch.nn.Linear(5, 2)


def of_images() -> Any:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(1))


def frozen_norm() -> Any:
    net = normed()
    net[1].requires_grad_(False)
    return net


@pytest.mark.parametrize(("rows", "size"), [((240, 240), 239), ((241,), 8), ((64, 65), 32), ((3, 2), 1), ((8, 1), 4)])
def test_batch_norm_and_a_last_batch_of_one_row_are_refused(rows: tuple[int, ...], size: int) -> None:
    with pytest.raises(TrainerError, match=r"a last batch of one row.*: set drop_last=True"):
        opened(normed, shards(*rows), batch_size=size)


def test_shards_of_groups_are_not_checked() -> None:
    opened(normed, shards(241), batch_size=8, by_group=True)
    opened(normed, shards(4), batch_size=8, drop_last=True, by_group=True)


def test_drop_last_and_models_that_train_on_one_row_are_not() -> None:
    opened(normed, shards(240), batch_size=239, drop_last=True)
    opened(normed, shards(240, 242), batch_size=32)
    opened(plain, shards(240), batch_size=239)
    opened(frozen_norm, shards(240), batch_size=239)
    opened(of_images, shards(9, shape=(3, 8, 8), dtype="uint8"), batch_size=4)


def test_the_check_changes_neither_model_nor_random_numbers() -> None:
    checked = opened(of_images, shards(9, shape=(3, 8, 8)), batch_size=4)
    assert checked.checkpoint() == opened(of_images, shards(8, shape=(3, 8, 8)), batch_size=4).checkpoint()


def test_a_shard_without_a_whole_batch_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"batch_size must be at most 31 with drop_last=True.*, got 32\."):
        opened(plain, shards(40, 31), batch_size=32, drop_last=True)
    opened(plain, shards(40, 31), batch_size=32)
