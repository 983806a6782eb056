"""Units of fused groups: bit for bit what each trial learns by itself, and a failure of one is that one's alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from batches import PIXELS, Record, add_batch

from udfs.adaptation import Augmentation, Augmenter, FeatureStore, compute, segments_of
from udfs.handlers import ModelTrainer, TensorSpec, open_adapted
from udfs.hopper import (
    AdaptationSettings,
    Checkpoints,
    EvaluatedMember,
    EvaluateUnit,
    Member,
    MemberFailure,
    States,
    TrainedMember,
    TrainUnit,
    UnitFailure,
    WorkerSettings,
)
from udfs.hopper import Record as CheckpointRecord
from udfs.hopper._group_units import GroupUnits
from udfs.hopper._outcomes import Outcomes
from udfs.hopper._sessions import Sessions
from udfs.hopper._units import Units
from udfs.node import CACHE_VARIABLE
from udfs.rpc import new_credentials
from udfs.shards import GrowingData, Ledger, load_shard
from udfs.training import TrainingFunctions, initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from udfs.hopper import TrainReport
    from udfs.store import Store

SEED = 7
BATCH = 4
FIRST = {f"s{number}": Record(number, number % 3, 1.0 + number % 2) for number in range(40)}
SECOND = {"s1": Record(1, 7), "s2": Record(80, 1), "s3": Record(3, 1, 0.0)} | {
    f"t{n}": Record(40 + n, 1) for n in range(9)
}
INPUTS = {"inputs": (TensorSpec((PIXELS,)),), "columns": ("pixels",)}


def trainer(params: dict[str, Any]) -> ModelTrainer | TrainingFunctions:
    """A frozen perceptron that all have, and a head that draws, moves buffers and works in place."""
    if params.get("fails") == "build":
        raise ValueError("this one cannot be built")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = torch.nn.Sequential(torch.nn.Linear(PIXELS, 8), torch.nn.Tanh(), torch.nn.Linear(8, 5))
    trunk.requires_grad_(not params.get("frozen", True))
    head = torch.nn.Sequential(
        torch.nn.ReLU(inplace=True),
        torch.nn.Linear(5, params.get("hidden", 4)),
        torch.nn.BatchNorm1d(params.get("hidden", 4)),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(params.get("hidden", 4), 2),
    )
    model = torch.nn.Sequential(*trunk, *head)
    solver = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=params.get("lr", 0.01))
    return ModelTrainer(
        model=model,
        optimizer=solver,
        loss=torch.nn.MSELoss(),
        batch_size=params.get("batch", BATCH),
        drop_last=params.get("drop_last", False),
        scheduler=torch.optim.lr_scheduler.ExponentialLR(solver, 0.9),
        scheduler_step="batch",
    )


@dataclass
class Uploads:
    """In place of the store."""

    records: list[CheckpointRecord] = field(default_factory=list)

    def submit(self, record: CheckpointRecord, _: bytes) -> None:
        self.records.append(record)


class Worker:
    """A worker's parts, without its driver."""

    def __init__(self, data: GrowingData, features: FeatureStore, **settings: Any) -> None:
        adaptation = AdaptationSettings(features, **INPUTS, batch_size=BATCH, **settings)
        worker = WorkerSettings(
            worker="w0",
            run="run",
            trainer_fn=trainer,
            sample={},
            prepared=data,
            partitions=(0, 1),
            seed=SEED,
            threads=1,
            memory_bytes=1 << 30,
            adaptation=adaptation,
        )
        self.states, self.uploads = States(1 << 20), Uploads()
        checkpoints = Checkpoints(data.store, "run")
        self.sessions = Sessions(worker, self.states, checkpoints, new_credentials(encrypted=False))
        uploads: Any = self.uploads
        outcomes = Outcomes(self.sessions, self.states, uploads, lambda: False)
        self.damaged: list[str] = []
        whole = Units(SEED, lambda split, at: load_shard(data, split, at), self.sessions, outcomes, one_order=True)
        self.units = GroupUnits(
            worker,
            whole,
            self.sessions,
            outcomes,
            lambda error: self.damaged.append(str(error)),
            memory_bytes=1 << 30,
        )
        self.at: dict[str, CheckpointRecord] = {}

    def member(self, trial_id: str, params: dict[str, Any]) -> Member:
        record = self.at.get(trial_id, CheckpointRecord(trial_id, 0, ""))
        return Member(
            trial_id=trial_id, params=params, version=record.version, digest=record.digest, peer="", record=record
        )

    def train(self, trials: dict[str, dict[str, Any]], loads: tuple[str, ...], partition: int, epoch: int = 0) -> Any:
        members = tuple(self.member(trial_id, params) for trial_id, params in trials.items())
        common: dict[str, Any] = {"drop": (), "holds": (0, 1), "unit_id": "u", "loads": loads}
        unit = TrainUnit(**common, partition=partition, members=members, epoch=epoch, ends_epoch=partition == 1)
        report = self.units.run(unit)
        self.at |= {record.trial_id: record for record in self.uploads.records}
        return report

    def evaluate(self, trials: dict[str, dict[str, Any]], loads: tuple[str, ...], partition: int) -> Any:
        members = tuple(self.member(trial_id, params) for trial_id, params in trials.items())
        common: dict[str, Any] = {"drop": (), "holds": (0, 1), "unit_id": "u", "loads": loads}
        return self.units.run(EvaluateUnit(**common, partition=partition, members=members))


@pytest.fixture(autouse=True)
def _one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(store: Store) -> GrowingData:
    return add_batch(store, "data", SECOND, add_batch(store, "data", FIRST))


@pytest.fixture
def features(store: Store) -> FeatureStore:
    return FeatureStore(store, "campaign", made_with="torch")


def opened(params: dict[str, Any], trial_id: str = "c000") -> Any:
    return open_adapted(trainer, params, initial_seed(SEED, trial_id), **INPUTS, weighted=True)


def stored(features: FeatureStore, data: GrowingData) -> tuple[str, ...]:
    """Store what the heads read."""
    model = opened({})
    (feed,) = (model.graph.expression(name) for name in model.feeds)
    for segment in segments_of(data):
        compute(features, data, segment, [feed], [model], batch_size=BATCH)
    return (feed,)


def raw() -> tuple[str, ...]:
    graph = opened({}).graph
    return tuple(graph.expression(name) for name in graph.inputs)


TRIALS: dict[str, dict[str, Any]] = {
    "c000": {"lr": 0.01},
    "c001": {"lr": 0.1, "hidden": 6, "drop_last": True},
    "c002": {"lr": 0.01},
}


@pytest.mark.parametrize("from_disk", [True, False])
def test_fused_is_unfused_bit_for_bit(data: GrowingData, features: FeatureStore, from_disk: bool) -> None:
    loads = stored(features, data) if from_disk else raw()
    fused, single = Worker(data, features), Worker(data, features)
    for epoch, partition in [(0, 0), (0, 1), (1, 1), (1, 0)]:
        together = fused.train(TRIALS, loads, partition, epoch)
        for member in together.members:
            alone = single.train({member.trial_id: TRIALS[member.trial_id]}, loads, partition, epoch).members[0]
            assert isinstance(member, TrainedMember)
            assert member.digest == alone.digest
            assert member.sums["loss"].tolist() == alone.sums["loss"].tolist()
    # They draw other numbers: two of one rate do not learn the same.
    assert fused.at["c000"].digest != fused.at["c002"].digest
    together = fused.evaluate(TRIALS, loads, 1)
    for member in together.members:
        alone = single.evaluate({member.trial_id: TRIALS[member.trial_id]}, loads, 1).members[0]
        assert isinstance(member, EvaluatedMember)
        assert member.sums["loss"].tolist() == alone.sums["loss"].tolist()
        assert member.sums["loss"][1] == load_shard(data, "validation", 1).weights.sum(dtype=np.float64)


def test_a_group_is_a_plain_loop_over_the_tensors_that_its_heads_read(
    data: GrowingData, features: FeatureStore
) -> None:
    """Of each trial, with the whole model: the frozen layers' outputs come from the disk, and nothing else differs."""
    loads = stored(features, data)
    worker = Worker(data, features)
    for partition in (0, 1):
        worker.train(TRIALS, loads, partition)
    for trial_id, params in TRIALS.items():
        model = opened(params, trial_id)
        for partition in (0, 1):
            rows = load_shard(data, "train", partition)
            order = row_order(SEED, "", 0, partition, rows.rows)
            feeds = worker.units._reader.rows("train", partition, loads, [model])
            model.session.train(feeds, order, ends_epoch=partition == 1)
        (state,) = (worker.states.get(f"{trial_id}/2"),)
        assert state is not None
        assert state.content == model.session.checkpoint()


def shifted(record: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    return {"pixels": record["pixels"] + generator.normal(size=PIXELS).astype(np.float32)}


@pytest.mark.parametrize("frozen", [True, False])
def test_epochs_train_on_the_copies_of_a_plain_loop(data: GrowingData, features: FeatureStore, frozen: bool) -> None:
    """The whole model at the same batch; one that trains whole is augmented too, and validation records are not."""
    augmenter = Augmenter.checked(Augmentation(shifted, 2), data, SEED)
    trials = {"c000": {"frozen": frozen}, "c001": {"frozen": frozen, "lr": 0.1}}
    alone, together = (Worker(data, features, augmenter=augmenter) for _ in range(2))
    visits = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0)]
    for epoch, partition in visits:
        together.train(trials, raw(), partition, epoch)
        alone.train({"c000": trials["c000"]}, raw(), partition, epoch)
    assert together.at["c000"].digest == alone.at["c000"].digest
    for trial_id, params in trials.items():
        model = opened(params, trial_id)
        for epoch, partition in visits:
            rows = load_shard(data, "train", partition)
            made = [
                shifted({"pixels": pixels}, Augmentation.generator(SEED, record, epoch % 2))["pixels"]
                for record, pixels in zip(
                    Ledger(data.increments, "train", partition).ids(), rows.inputs[0], strict=True
                )
            ]
            order = row_order(SEED, "", epoch, partition, rows.rows)
            copies = replace(rows, inputs=(np.array(made),))
            if frozen:
                (feed,) = model.feeds
                copies = _above(model, feed, copies, order)
            model.session.train(copies, order, ends_epoch=partition == 1)
        held = together.states.get(f"{trial_id}/{len(visits)}")
        assert held is not None
        assert held.content == model.session.checkpoint()
    plain = Worker(data, features)
    plain.states, plain.at = together.states, together.at
    plain.sessions._states = together.states
    sums = [worker.evaluate(trials, raw(), 0).members[0].sums["loss"].tolist() for worker in (together, plain)]
    assert sums[0] == sums[1]


def _above(model: Any, feed: str, rows: Any, order: np.ndarray) -> Any:
    """The feed of rows, computed in the batches of training."""
    (name,) = model.graph.inputs
    found = np.empty((rows.rows, 5), np.float32)
    for start in range(0, rows.rows, BATCH):
        picked = order[start : start + BATCH]
        found[picked] = model.trunk({name: rows.inputs[0][picked]}, [feed])[feed]
    return replace(rows, inputs=(found,))


def test_seconds_of_the_members_are_the_units(data: GrowingData, features: FeatureStore) -> None:
    report = Worker(data, features).train(TRIALS, raw(), 0)
    assert all(member.seconds > 0 for member in report.members)
    assert [member.trial_id for member in report.members] == list(TRIALS)


@pytest.fixture
def fails_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, Exception], None]:
    """Have the session of a trial fail at a step, by its place among those that were opened."""

    def set_up(trial_id: str, step: int, error: Exception) -> None:
        at = Sessions.at

        def spoiled(sessions: Sessions, member: Member) -> Any:
            session, fetched = at(sessions, member)
            if member.trial_id == trial_id and not hasattr(session, "spoiled"):
                own, taken = session.step, iter(range(1000))

                def broken(*arguments: Any) -> None:
                    if next(taken) == step:
                        raise error
                    own(*arguments)

                session.step = broken
                session.spoiled = True
            return session, fetched

        monkeypatch.setattr(Sessions, "at", spoiled)

    return set_up


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("mine"), "raised"),
        (MemoryError(), "out of memory"),
        (RuntimeError("CUDA out of memory"), "out of memory"),
    ],
)
def test_one_that_fails_half_way_leaves_the_others_their_bits(
    data: GrowingData,
    features: FeatureStore,
    fails_at: Callable[[str, int, Exception], None],
    error: Exception,
    reason: str,
) -> None:
    expected = Worker(data, features).train(TRIALS, raw(), 0).members
    fails_at("c001", 2, error)
    worker = Worker(data, features)
    first, failed, last = worker.train(TRIALS, raw(), 0).members
    assert (first.digest, last.digest) == (expected[0].digest, expected[2].digest)
    assert isinstance(failed, MemberFailure)
    assert (failed.trial_id, failed.reason) == ("c001", reason)
    # It begins anew where it is tried again.
    assert "c001" not in worker.at
    assert worker.train({"c001": TRIALS["c001"]}, raw(), 0).members[0].reason == reason


def test_all_failed_and_the_rest_of_the_shard_is_not_read(
    data: GrowingData, features: FeatureStore, fails_at: Callable[[str, int, Exception], None]
) -> None:
    fails_at("c000", 0, ValueError("mine"))
    worker = Worker(data, features)
    report: TrainReport = worker.train({"c000": {}}, raw(), 0)
    assert [type(member) for member in report.members] == [MemberFailure]
    assert not worker.uploads.records


def test_one_that_cannot_be_built_fails_alone(data: GrowingData, features: FeatureStore) -> None:
    report = Worker(data, features).train(TRIALS | {"c003": {"fails": "build"}}, raw(), 0)
    assert [type(member) for member in report.members] == [TrainedMember] * 3 + [MemberFailure]
    assert "cannot be built" in report.members[3].traceback


def test_what_fails_for_all_is_the_units_failure(data: GrowingData, features: FeatureStore) -> None:
    worker = Worker(data, features)
    report = worker.train(TRIALS | {"c003": {"batch": 5}}, raw(), 0)
    assert isinstance(report, UnitFailure)
    assert report.reason == "raised"
    assert "one batch size train together, and these have several: c000: 4" in report.traceback
    missing = worker.train(TRIALS, (), 0)
    assert isinstance(missing, UnitFailure)
    assert "cannot" in missing.traceback
    assert not worker.damaged


def test_a_damaged_shard_is_told(data: GrowingData, features: FeatureStore, tmp_path: Path) -> None:
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"PAR1")
    worker = Worker(data, features)
    report = worker.train(TRIALS, raw(), 0)
    assert isinstance(report, UnitFailure)
    assert report.reason == "hop"
    assert worker.damaged


def test_one_that_is_not_opened_trains_whole_on_the_shard(data: GrowingData, features: FeatureStore) -> None:
    def functions(params: dict[str, Any]) -> TrainingFunctions:  # one configuration
        def train(rows: Any, model: torch.nn.Module, solver: Any, _: Any) -> dict[str, float]:
            solver.zero_grad()
            loss = torch.nn.functional.mse_loss(model(torch.from_numpy(rows.inputs[0])), torch.zeros(rows.rows, 2))
            if loss.requires_grad:
                loss.backward()
                solver.step()
            return {"loss": loss.item()}

        def model(_: Any) -> Any:
            net = torch.nn.Linear(PIXELS, 2)
            return net, torch.optim.SGD(net.parameters(), lr=0.1)

        return TrainingFunctions(model_fn=model, train_fn=train, uses_weights=True)

    worker = Worker(data, features)
    object.__setattr__(worker.sessions._worker, "trainer_fn", functions)
    report = worker.train({"c000": {}}, (), 0)
    assert [type(member) for member in report.members] == [TrainedMember], report.members[0].traceback
    assert [type(member) for member in worker.evaluate({"c000": {}}, (), 0).members] == [EvaluatedMember]


def test_nothing_frozen_trains_together_too(data: GrowingData, features: FeatureStore) -> None:
    """Their own forward works in place on the inputs, which others read after them."""
    trials = {"c000": {"frozen": False}, "c001": {"frozen": False, "lr": 0.1}}
    fused, single = Worker(data, features), Worker(data, features)
    together = fused.train(trials, raw(), 0).members
    assert [each.digest for each in together] == [
        single.train({name: params}, raw(), 0).members[0].digest for name, params in trials.items()
    ]


def test_sessions_stay_open_by_their_bytes(data: GrowingData, features: FeatureStore) -> None:
    nbytes = 4 * opened({}).session.weight_bytes
    worker = Worker(data, features, session_bytes=3 * nbytes)
    trials: dict[str, dict[str, Any]] = {f"c{number:03}": {} for number in range(20)}
    worker.train(trials, raw(), 0)
    assert len(worker.sessions._open) == 20, "those that train together are all open"
    for trial_id in ("c007", "c003"):
        worker.train({trial_id: {}}, raw(), 1)
    assert list(worker.sessions._open) == ["c019", "c007", "c003"]
    # From its checkpoint, that this worker holds.
    digest = worker.train({"c010": {}}, raw(), 1).members[0].digest
    other = Worker(data, features)
    other.train({"c010": {}}, raw(), 0)
    assert other.train({"c010": {}}, raw(), 1).members[0].digest == digest
