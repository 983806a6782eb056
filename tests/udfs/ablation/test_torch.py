"""Removal of parts from networks of torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optimizer.ablation import REMOVED, Removal
from optimizer.errors import CerebroError
from udfs.ablation import AblatedTrainer
from udfs.handlers import ModelTrainer, call_trainer, open_session
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup, Tensors
from udfs.store import Store
from udfs.training import InputColumns, TrainerError, TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable

FEATURES = TensorGroup("features", (TensorColumn("age", "float32"), TensorColumn("codes", "float32", (2,))))
IDS = TensorGroup("ids", (TensorColumn("user", "int64"), TensorColumn("film", "int64")))
IMAGE = TensorGroup("image", (TensorColumn("image", "uint8", (3, 8, 8)),))


class TwoInputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.film = torch.nn.Embedding(5, 3)
        self.block = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU())
        self.recurrent = torch.nn.LSTM(3, 3, batch_first=True)
        self.idle = torch.nn.Linear(2, 2)
        self.narrow = torch.nn.Linear(9, 4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, features: Any, ids: Any) -> Any:
        embedded = self.recurrent(self.film(ids))[0].flatten(1)
        return self.head(self.narrow(torch.cat([self.block(embedded), features], 1)))


def images() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 3, 3, padding=1),
        torch.nn.Conv2d(3, 5, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(5),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(20, 2),
    )


def data(*groups: TensorGroup) -> PreparedData:
    label = TensorGroup("label", (TensorColumn("label", "int64"),))
    return PreparedData(Store.from_uri("file:///none"), "none", groups, (label,), (), 0, 0.0, "0")


def made(network: Callable[[], torch.nn.Module], *groups: TensorGroup, **removed: Any) -> tuple[Any, dict[str, str]]:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        torch.manual_seed(7)
        net = network()
        return ModelTrainer(
            model=net,
            optimizer=torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=0.1),
            loss=torch.nn.CrossEntropyLoss(),
        )

    ablated = AblatedTrainer(trainer, data(*groups))
    return ablated.trainer_and_replacements({REMOVED: Removal(**removed).to_dict()})


def test_masked_columns_of_all_inputs_are_zeros() -> None:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(4, 3)).astype("float32"))
    features[0, 1] = torch.nan
    ids = torch.from_numpy(random.integers(1, 5, size=(4, 2)))
    full, without = (made(TwoInputs, FEATURES, IDS, features=names)[0].model for names in ((), ("codes", "user")))
    zeroed = features.clone(), ids.clone()
    zeroed[0][:, 1:] = 0
    zeroed[1][:, 0] = 0
    assert torch.equal(without(features, ids), full(*zeroed))
    assert without.state_dict().keys() == full.state_dict().keys()


@pytest.mark.parametrize(
    ("paths", "described", "without"),
    [
        (["0"], ["identity"], [torch.nn.Identity()]),
        (["1"], ["1x1 adapter of 3 to 5 channels, averaged to 4x4 (20 parameters)"], None),
        (["2", "3"], ["identity", "average to 2x2"], [torch.nn.Identity(), torch.nn.AvgPool2d(2)]),
        (["4"], ["reshape"], [torch.nn.Flatten()]),
        (["5"], ["linear projection of 20 to 2 (42 parameters)"], None),
    ],
)
def test_modules_are_replaced(paths: list[str], described: list[str], without: list[torch.nn.Module] | None) -> None:
    trainer, replacements = made(images, IMAGE, modules=tuple(paths))
    assert replacements == dict(zip(paths, described, strict=True))
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype("float32"))
    if without is not None:
        expected = made(images, IMAGE)[0].model
        for path, module in zip(paths, without, strict=True):
            expected.set_submodule(path, module)
        assert torch.allclose(trainer.model(rows), expected(rows))
    optimized = [each for group in trainer.optimizer.param_groups for each in group["params"]]
    assert {id(each) for each in optimized} == {id(each) for each in trainer.model.parameters()}
    assert trainer.model(rows).shape == (4, 2)


def test_other_weights_are_those_of_the_full_network() -> None:
    full, without = (made(TwoInputs, FEATURES, IDS, modules=paths)[0].model for paths in ((), ("narrow", "block")))
    for name, value in without.named_parameters():
        if not name.startswith("narrow"):
            assert torch.equal(value, full.state_dict()[name]), name


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (("blok",), "modules must be modules of the network, got 'blok'; did you mean 'block'?"),
        (("block", "block.0"), "modules must not contain each other, got 'block.0' with 'block'"),
        (("film",), "which reads torch.int64: without it the network is disconnected from its input"),
        (("recurrent",), "modules must map a tensor to one tensor, got 'recurrent' (LSTM) with tuple"),
        (("idle",), "modules must run when the network does, got 'idle', which it never calls"),
    ],
)
def test_modules_that_cannot_be_removed_are_refused(paths: tuple[str, ...], message: str) -> None:
    with pytest.raises(CerebroError) as raised:
        made(TwoInputs, FEATURES, IDS, modules=paths)
    assert message in str(raised.value)


def test_a_module_that_all_parameters_are_in_is_refused() -> None:
    def only() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(3, 3)), torch.nn.Softmax(1))

    with pytest.raises(TrainerError, match="modules must leave a parameter to train, got 0"):
        made(only, FEATURES, modules=("0",))
    with pytest.raises(TrainerError, match="modules must leave a parameter to train, got all 12"):
        made(only, FEATURES, parameters_of=("0",))


def test_random_parameters_stay_zero_in_training() -> None:
    groups = FEATURES, IDS
    trainers = [made(TwoInputs, *groups, parameters_of=("narrow",), seed=seed)[0] for seed in (0, 0, 1)]
    zeros = [
        np.concatenate([each.detach().numpy().ravel() == 0 for each in trainer.model.parameters()])
        for trainer in trainers
    ]
    assert [each.sum() for each in zeros] == [9 * 4 + 4] * 3
    assert np.array_equal(zeros[0], zeros[1])
    assert not np.array_equal(zeros[0], zeros[2])
    session = open_session(lambda params: trainers[0], {}, 0)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(64, 3)).astype("float32"), random.integers(0, 5, size=(64, 2))
    rows = Tensors(inputs, (random.integers(0, 2, size=64),), 64)
    before = [each.detach().clone() for each in trainers[0].model.parameters()]
    session.train(rows, np.arange(64), ends_epoch=True)
    session.restore(session.checkpoint())
    session.train(rows, np.arange(64), ends_epoch=True)
    after = [each.detach() for each in trainers[0].model.parameters()]
    assert np.array_equal(np.concatenate([each.numpy().ravel() == 0 for each in after]), zeros[0])
    assert any(not torch.equal(first, second) for first, second in zip(before, after, strict=True))


def test_columns_that_a_view_leaves_out_are_refused() -> None:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        view = InputColumns(["ids"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), view=view)

    shard = Shard("train", 0, "train/shard-00000.parquet", 4, 80)
    ablated = AblatedTrainer(trainer, replace(data(FEATURES, IDS), shards=(shard,)))
    with pytest.raises(TrainerError, match="features must be columns that the network reads, got codes"):
        ablated({REMOVED: Removal(features=("codes",)).to_dict()})


def test_functions_of_the_user_are_refused() -> None:
    def functions(params: dict[str, Any]) -> TrainingFunctions:
        return TrainingFunctions(model_fn=lambda params: (None, None), train_fn=lambda *_: {})

    removal = {REMOVED: Removal(features=("age",)).to_dict()}
    with pytest.raises(TrainerError, match=r"must return a ModelTrainer of torch .* got TrainingFunctions"):
        call_trainer(AblatedTrainer(functions, data(FEATURES)), removal, 7)
