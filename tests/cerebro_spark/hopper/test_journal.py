"""A run as its store has it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Event, Journal, RunSpec, Trial, _journal
from optimizer.procedures import Exchange
from udfs.hopper import Checkpoints, Record
from udfs.rpc import digest_of
from udfs.store import Store, StoreError

if TYPE_CHECKING:
    from pathlib import Path

SPEC = RunSpec(
    run="first",
    prepared="people",
    configs=[{"lr": 0.1}],
    trainer="module:trainer",
    epochs=3,
    seed=1,
    policy="fixed",
    replicas=1,
    metric="loss",
    larger_is_better=False,
    rounds="rolling",
    procedure="Hyperband",
)


def test_a_run_of_the_first_version_is_read(tmp_path: Path) -> None:
    """It was journalled when a trial's id was called "config"."""
    store = Store.from_uri(str(tmp_path))
    journal = Journal(store, "first")
    journal.begin(SPEC)
    trial = Trial("c000", {"lr": 0.1}, history=[{"loss": 0.5}])
    event = Event(kind="train", trial_id="c000", worker="w0", epoch=0, partition=0, began=0.0, ended=1.0, seconds=0.9)
    Checkpoints(store, "first").write(Record("c000", 1, digest_of(b"state"), ((0, 0),), {"loss": [1.0, 2.0]}), b"state")
    journal.close([trial], [event])
    (tmp_path / "runs/first/events/part-000000.json").rename(tmp_path / "runs/first/events/epoch-0000.json")
    journalled = [*tmp_path.rglob("epoch-0000.json"), *tmp_path.glob("runs/first/checkpoints/c000/*.json")]
    assert len(journalled) == 2
    for path in journalled:
        today = json.dumps(json.loads(path.read_text())["content"])  # without a digest
        path.write_text(today.replace('"trial_id"', '"config"'))
        assert path.read_text() != today
    added = {"rounds": "together", "procedure": "GridSearch", "keep": "last"}
    settings = tmp_path / "runs/first/run.json"
    settings.write_text(json.dumps({name: value for name, value in asdict(SPEC).items() if name not in added}))
    assert journal.spec() == replace(SPEC, **added), "there was no other way"
    assert journal.events() == [event]
    read = journal.trial("c000", {"lr": 0.1}, 1)
    assert (read.trial_id, read.visits, read.history) == ("c000", [(0, 0)], [{"loss": 0.5}])


def damage(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_params_keep_their_order(tmp_path: Path) -> None:
    """It is that of the columns of trials.csv, and of what is shown."""
    journal = Journal(Store.from_uri(str(tmp_path)), "first")
    journal.begin(replace(SPEC, configs=[{"lr": 0.1, "channels": (8, 4), "betas": 1}]))
    (params,) = journal.spec().configs
    assert list(params.items()) == [("lr", 0.1), ("channels", (8, 4)), ("betas", 1)]


@pytest.mark.parametrize("place", ["run.json", "trials/c000.json", "events/part-000000.json"])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, place: str) -> None:
    journal = two_epochs(tmp_path)
    damage(tmp_path / "runs/first" / place)
    with pytest.raises(RunError, match=rf"run 'first': .*{place} is damaged .*: put a copy of it back"):
        read(journal)


def test_every_bit_of_a_file_is_checked(tmp_path: Path) -> None:
    journal = two_epochs(tmp_path)
    path = tmp_path / "runs/first/run.json"
    intact, spec = path.read_bytes(), journal.spec()
    refused = 0
    for place in range(0, len(intact), 7):
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
        with suppress(RunError):
            assert journal.spec() == spec, "white space says nothing"
            continue
        refused += 1
    assert refused > 40


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    journal = two_epochs(tmp_path)
    folder = tmp_path / "runs/first/checkpoints/c000"
    (last,) = folder.glob("000004-*.safetensors")
    damage(last)
    trial = read(journal)
    assert (trial.version, trial.visits) == (3, [(0, 0), (0, 1), (1, 0)])
    assert trial.history == [{"loss": 0.5}], "the second epoch is trained again"
    assert {name: part.tolist() for name, part in trial.training_sums(1).items()} == {"loss": [3.0, 1.0]}
    damage(next(folder.glob("000003-*.json")))
    trial = read(journal)
    assert (trial.version, trial.history) == (0, []), "from the beginning"


def test_a_trial_that_lost_its_state_goes_on_when_its_run_is_resumed(tmp_path: Path) -> None:
    journal = two_epochs(tmp_path, status="lost its state")
    trial = read(journal)
    assert (trial.status, trial.version, len(trial.history)) == ("running", 4, 2)
    two_epochs(tmp_path, status="diverged", begin=False)
    assert read(journal).status == "diverged"


def test_a_trial_goes_back_to_the_checkpoints_before(tmp_path: Path) -> None:
    trial = read(two_epochs(tmp_path))
    assert trial.durable
    trial.forget_durable()
    assert trial.rewind() == 1
    assert (trial.version, trial.epoch, trial.history) == (3, 1, [{"loss": 0.5}])
    assert {name: part.tolist() for name, part in trial.training_sums(1).items()} == {"loss": [3.0, 1.0]}
    trial.forget_durable()
    assert trial.rewind() == 3
    assert (trial.version, trial.epoch, trial.history) == (0, 0, []), "from the seed"


def test_parts_are_numbered_after_the_last(tmp_path: Path) -> None:
    """One that is damaged may be deleted: the next one takes no other's place."""
    journal = two_epochs(tmp_path)
    (tmp_path / "runs/first/events/part-000000.json").unlink()
    event = Event(kind="train", trial_id="c000", worker="w1", epoch=2, partition=0, began=2.0, ended=3.0, seconds=0.9)
    journal.close([], [event])
    assert [found.epoch for found in journal.events()] == [1, 2]
    journal.close([], [])
    assert len(list((tmp_path / "runs/first/events").iterdir())) == 2


def two_epochs(folder: Path, status: str = "finished", *, begin: bool = True) -> Journal:
    """Journal a run of one trial that has had two epochs on two shards."""
    store = Store.from_uri(str(folder))
    journal = Journal(store, "first")
    if begin:
        journal.begin(replace(SPEC, epochs=2))
    checkpoints = Checkpoints(store, "first")
    visits = ((0, 0), (0, 1), (1, 0), (1, 1))
    for version in range(1, 5):
        state = bytes([version]) * 100
        sums = {"loss": [float(version), 1.0]}
        checkpoints.write(Record("c000", version, digest_of(state), visits[:version], sums), state)
        checkpoints.drop("c000", version, 2)
    checkpoints.retain("c000", 3, ())
    trial = Trial("c000", {"lr": 0.1}, status=status, history=[{"loss": 0.5}, {"loss": 0.4}])
    unit = {"kind": "train", "trial_id": "c000", "worker": "w0", "partition": 0}
    for epoch in (0, 1):
        event = Event(**unit, epoch=epoch, began=0.0, ended=1.0, seconds=0.9)
        journal.close([trial], [event])
    return journal


def read(journal: Journal) -> Trial:
    journal.events()
    journal.orders()
    return journal.trial("c000", journal.spec().configs[0], 2)


def test_clones_find_the_states_of_a_source_that_has_failed_since(tmp_path: Path) -> None:
    failed = read(two_epochs(tmp_path, "raised"))
    assert (failed.status, failed.version, len(failed.history)) == ("raised", 4, 2)
    assert failed.digests[4] == digest_of(bytes([4]) * 100)
    assert failed.stored[4] == {failed.digests[4]}


def test_orders_are_numbered_without_listing_them_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without a gap where one could not be written; another driver goes on behind the last."""
    store = Store.from_uri(str(tmp_path))
    journal, listed, list_store = Journal(store, "first"), [], Store.list
    orders = [Exchange((), idle, ()) for idle in range(5)]
    monkeypatch.setattr(Store, "list", lambda self, *parts: listed.append(parts) or list_store(self, *parts))
    journal.order(orders[0])
    with monkeypatch.context() as patch:
        patch.setattr(_journal, "write_document", Mock(side_effect=StoreError("the disk is full")))
        with pytest.raises(StoreError):
            journal.order(orders[1])
    journal.order(orders[1])
    journal.order(orders[2])
    assert listed == [("runs", "first", "orders")]
    Journal(store, "first").order(orders[3])
    assert Journal(store, "first").orders() == orders[:4]
    journal.forget_orders()
    journal.order(orders[4])
    assert journal.orders() == orders[4:]
