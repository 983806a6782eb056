"""Models that a worker has open: one that its trial has gone back from is not taken for the one to go on with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, open_session
from udfs.hopper import Checkpoints, Member, Record, SourceState, States
from udfs.hopper._sessions import Sessions
from udfs.rpc import CallError, Held, digest_of, new_credentials
from udfs.store import Store
from udfs.training import initial_seed

if TYPE_CHECKING:
    from pathlib import Path


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(net.weight, params.get("weight", 0.0))
    return ModelTrainer(
        model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=torch.nn.CrossEntropyLoss(), batch_size=2
    )


def checkpoint(weight: float) -> bytes:
    """The state after one unit, on a partition of its own."""
    return open_session(trainer, {"weight": weight}, initial_seed(0, "c0")).checkpoint()


def settings(trainer_fn: Any) -> Any:
    """Settings of a worker, as far as its sessions read them."""
    return SimpleNamespace(
        trainer_fn=trainer_fn,
        seed=0,
        device="cpu",
        memory_bytes=1 << 30,
        prepared=SimpleNamespace(weights=None, shards=(), input_specs=()),
        adaptation=None,
        task=None,
        process={},
        larger_is_better=None,
    )


@pytest.mark.parametrize("held", [True, False])
def test_another_checkpoint_of_the_same_version_is_restored(tmp_path: Path, held: bool) -> None:
    first, second = checkpoint(1.0), checkpoint(2.0)
    checkpoints, states = Checkpoints(Store.from_uri(str(tmp_path)), "run"), States(1 << 20)
    checkpoints.write(Record("c0", 1, digest_of(second), ((0, 1),)), second)
    worker = settings(trainer)
    sessions = Sessions(worker, states, checkpoints, new_credentials(encrypted=False))

    def member(version: int, digest: str) -> Member:
        return Member(trial_id="c0", params={}, version=version, digest=digest, peer="")

    # This worker trains the first unit, whose checkpoint the store does not get.
    session, _ = sessions.at(member(0, ""))
    sessions.begin("c0")
    session.restore(first)
    sessions.finish("c0", digest_of(first))
    if held:
        states.put("c0", 1, Held(first, digest_of(first)))
    assert sessions.at(member(1, digest_of(first)))[0].checkpoint() == first
    # The next worker is lost, and another one trains the trial on another partition first.
    again, fetched = sessions.at(member(1, digest_of(second)))
    assert again.checkpoint() == second
    assert fetched == len(second)


def test_a_clone_is_built_from_its_own_seed_and_adopts_its_source(tmp_path: Path) -> None:
    source, other = checkpoint(1.0), checkpoint(2.0)
    checkpoints, states = Checkpoints(Store.from_uri(str(tmp_path)), "run"), States(1 << 20)
    checkpoints.write(Record("c0", 2, digest_of(source), ((0, 1), (0, 0))), source)
    states.put("c3", 2, Held(other, digest_of(other)))
    states.put("c0", 2, Held(other, digest_of(other)))  # of an attempt that was taken for lost
    worker = settings(trainer)
    sessions = Sessions(worker, states, checkpoints, new_credentials(encrypted=False))

    def member(source: SourceState | None) -> Member:
        return Member(trial_id="c1", params={}, version=0, digest="", peer="", source=source)

    first = SourceState("c0", 2, digest_of(source))
    session, fetched = sessions.at(member(first))
    assert fetched == len(source)
    expected = open_session(trainer, {}, initial_seed(0, "c1"))
    expected.adopt(source)
    assert session.checkpoint() == expected.checkpoint()
    assert sessions.at(member(first)) == (session, 0), "nothing has happened to it"
    # One that trained and went back to its beginning is made anew.
    sessions.begin("c1")
    session.restore(other)
    again, _ = sessions.at(member(first))
    assert again.checkpoint() == expected.checkpoint()
    held, fetched = sessions.at(member(SourceState("c3", 2, digest_of(other))))
    assert (held.model.weight.tolist()[0][0], fetched) == (2.0, 0), "this worker holds it"
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(source[:-1])
    with pytest.raises(CallError, match=r"the store does not give the checkpoint of c0 at version 2: .* is damaged"):
        sessions.at(member(first))


def test_settings_of_the_process_are_those_of_the_configuration(tmp_path: Path) -> None:
    """Its function sets them for its own units, wherever they run, and for no others."""

    def doubled(params: dict[str, Any]) -> ModelTrainer:
        if params:
            torch.set_default_dtype(torch.float64)
        return trainer({})

    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    sessions = Sessions(settings(doubled), States(1 << 20), checkpoints, new_credentials(encrypted=False))
    for trial_id, params, dtype in (("c0", {"double": 1}, torch.float64), ("c1", {}, torch.float32)):
        sessions.at(Member(trial_id=trial_id, params=params, version=0, digest="", peer=""))
        assert torch.get_default_dtype() is torch.float32
        with sessions.settings(trial_id):
            assert torch.get_default_dtype() is dtype
        assert torch.get_default_dtype() is torch.float32
