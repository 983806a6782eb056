"""Row views: a configuration trains on some inputs of the shards as on shards with these inputs alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, open_session
from udfs.hopper import Checkpoints, Member, Record, States
from udfs.hopper._messages import EvaluatedMember, EvaluateReport, EvaluateUnit, TrainedMember, TrainReport, TrainUnit
from udfs.hopper._outcomes import Outcomes
from udfs.hopper._sessions import Sessions
from udfs.hopper._settings import WorkerSettings
from udfs.hopper._units import Units
from udfs.rpc import new_credentials
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup, load_rows, load_sample, load_shard
from udfs.store import Store
from udfs.training import InputColumns, TrainerError, initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 10


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(params["width"], 2)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=4,
        view=InputColumns(params["layers"]),
    )


@pytest.fixture
def prepared(tmp_path: Path) -> PreparedData:
    """Shards with the inputs "a" (two numbers) and "b" (three)."""
    groups = tuple(TensorGroup(name, (TensorColumn(name, "float32", (size,)),)) for name, size in (("a", 2), ("b", 3)))
    shards = tuple(
        Shard(split, part, f"{split}/shard-{part:05d}.parquet", ROWS, 28 * ROWS)
        for split in ("train", "validation")
        for part in (0, 1)
    )
    label = (TensorGroup("y", (TensorColumn("y", "int64"),)),)
    data = PreparedData(Store.from_uri(str(tmp_path)), "ab", groups, label, shards, 0, 0.5, "f00")
    random = np.random.default_rng(0)
    for shard in shards:
        columns = {group.name: [*random.normal(size=(ROWS, *group.shape)).astype("float32")] for group in groups}
        labels = random.integers(0, 2, ROWS)
        with data.store.writing(*data.path(shard)) as file:
            pq.write_table(pa.table({**columns, "y": labels}), file)
    return data


def test_a_view_shows_the_inputs_in_its_order(prepared: PreparedData) -> None:
    shard = load_shard(prepared, "train", 1)
    seen = InputColumns(["b", "a"]).apply(shard)
    assert seen.inputs[0] is shard.inputs[1], "copied"
    assert seen.inputs[1] is shard.inputs[0]
    assert seen.labels == shard.labels
    assert [group.name for group in prepared.viewed(InputColumns(["b", "a"])).inputs] == ["b", "a"]
    assert load_rows(prepared, "train", 3, view=InputColumns(["b"])).inputs[0].shape == (3, 3)
    assert load_sample(prepared, view=InputColumns(["b"])).inputs[0].shape == (ROWS, 3)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], r"names must be a sequence of names of inputs, got \[\]"),
        ("b", "names must be a sequence of names of inputs, got 'b'"),
        (["b", "b"], "names must be different"),
    ],
)
def test_wrong_names(names: Any, message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        InputColumns(names)


def test_an_unknown_input_is_refused_when_the_configuration_is_opened(prepared: PreparedData) -> None:
    with pytest.raises(TrainerError, match=r"names must be inputs of the shards \(a, b\), got 'B'"):
        open_session(trainer, {"width": 3, "layers": ["B"]}, 0, data=prepared)


def test_a_value_that_is_no_view() -> None:
    net = torch.nn.Linear(2, 2)
    with pytest.raises(TrainerError, match="view must be a RowView"):
        ModelTrainer(model=net, optimizer=None, loss=None, view=["a"])  # type: ignore[arg-type]


def test_units_train_and_evaluate_on_the_view(prepared: PreparedData) -> None:
    worker = WorkerSettings(
        worker="w0",
        run="run",
        trainer_fn=trainer,
        sample={},
        prepared=prepared,
        partitions=(0, 1),
        seed=5,
        threads=1,
        memory_bytes=1 << 30,
    )
    states, uploads = States(1 << 20), SimpleNamespace(submit=lambda *_: None)
    sessions = Sessions(worker, states, Checkpoints(prepared.store, "run"), new_credentials(encrypted=False))
    outcomes = Outcomes(sessions, states, uploads, lambda: False)  # type: ignore[arg-type]
    units = Units(5, lambda split, at: load_shard(prepared, split, at), sessions, outcomes)
    params = {"width": 3, "layers": ["b"]}
    record = Record("c0", 0, "")
    member = Member(trial_id="c0", params=params, version=0, digest="", peer="", record=record)
    common: dict[str, Any] = {"drop": (), "holds": (0, 1), "unit_id": "u", "partition": 1}
    report = units.run(TrainUnit(**common, members=(member,), epoch=0, ends_epoch=True))
    assert isinstance(report, TrainReport)
    (trained,) = report.members
    assert isinstance(trained, TrainedMember), trained
    evaluated = units.run(EvaluateUnit(**common, members=(replace(member, version=1, digest=trained.digest),)))
    assert isinstance(evaluated, EvaluateReport)
    (member_sums,) = evaluated.members
    assert isinstance(member_sums, EvaluatedMember), member_sums

    torch.manual_seed(initial_seed(5, "c0"))
    net = torch.nn.Linear(3, 2)
    optimizer, loss_of = torch.optim.SGD(net.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
    rows = load_shard(prepared, "train", 1)
    order = row_order(5, "c0", 0, 1, ROWS)
    for start in range(0, ROWS, 4):
        picked = order[start : start + 4]
        optimizer.zero_grad()
        loss_of(net(torch.from_numpy(rows.inputs[1][picked])), torch.from_numpy(rows.labels[0][picked])).backward()
        optimizer.step()
    held_out = load_shard(prepared, "validation", 1)
    with torch.no_grad():
        loss = float(loss_of(net(torch.from_numpy(held_out.inputs[1])), torch.from_numpy(held_out.labels[0])))
    total, count = member_sums.sums["loss"]
    assert total / count == pytest.approx(loss, rel=1e-6)
    assert count == ROWS
