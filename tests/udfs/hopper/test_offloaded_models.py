"""Models larger than memory on a worker: their checkpoints hop from file to file."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer
from udfs.hopper import HOPPER, Checkpoints, Member, Record, States
from udfs.hopper._sessions import Sessions
from udfs.offloading import DiskOffload
from udfs.rpc import Endpoint, Held, digest_of, new_credentials
from udfs.store import Store

CREDENTIALS = new_credentials(encrypted=False)
DATA: Any = SimpleNamespace(inputs=(np.ones((8, 200), np.float32),), labels=(np.arange(8) % 3,), rows=8, weights=None)


def sessions(folder: Path, states: States) -> Sessions:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.Dropout(0.5), torch.nn.Linear(200, 3))
        adam = torch.optim.AdamW(net.parameters())
        offload = DiskOffload(folder) if params["offload"] else None
        return ModelTrainer(model=net, optimizer=adam, loss=torch.nn.CrossEntropyLoss(), batch_size=4, offload=offload)

    settings: Any = SimpleNamespace(
        trainer_fn=trainer,
        seed=0,
        device="cpu",
        memory_bytes=2_000_000,
        prepared=SimpleNamespace(weights=None, shards=(), input_specs=()),
        adaptation=None,
        task=None,
        process={},
        larger_is_better=None,
    )
    return Sessions(settings, states, Checkpoints(Store.from_uri(str(folder)), "run"), CREDENTIALS)


def member(version: int = 0, digest: str = "", peer: str = "", trial: str = "c0", offload: bool = True) -> Member:
    return Member(trial_id=trial, params={"offload": offload}, version=version, digest=digest, peer=peer)


def train(session: Any) -> Any:
    session.train(DATA, np.arange(8), ends_epoch=False)
    return session.checkpoint()


def is_in_file(state: memoryview) -> bool:
    storage = torch.frombuffer(state, dtype=torch.uint8)
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= storage.data_ptr() < int(end, 16):
            return line.endswith("(deleted)")
    raise AssertionError("the memory is not mapped")


def test_a_checkpoint_hops_through_the_store_and_between_workers(tmp_path: Path) -> None:
    states = States(1 << 20)
    first, _ = sessions(tmp_path, states).at(member())
    state = train(first)
    assert isinstance(state, memoryview)
    assert is_in_file(state)
    digest = digest_of(state)
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    checkpoints.write(Record("c0", 1, digest, ((0, 0),)), state)
    assert checkpoints.read("c0", 1, digest) == state
    copy = checkpoints.read("c0", 1, digest, first.checkpoint_buffer)
    assert copy == state
    assert is_in_file(copy)
    states.put("c0", 1, Held(state, digest))
    final = train(first)
    with Endpoint("127.0.0.1", CREDENTIALS, HOPPER, lambda _: None, held=states.get) as endpoint:
        for peer in ("", endpoint.location):
            worker = sessions(tmp_path, States(1 << 20))
            other, fetched = worker.at(member(1, digest, peer))
            assert fetched == len(state)
            assert other.checkpoint() == state
            assert train(other) == final
            worker.close()


def test_a_model_larger_than_memory_trains_with_offload_alone(tmp_path: Path) -> None:
    """The weights of 163 kB take six times as much in memory, more than the 700 kB of this worker."""
    worker = sessions(tmp_path, States(1 << 20))
    worker._model_bytes = 700_000
    with pytest.raises(MemoryError):
        worker.at(member(offload=False))
    worker.at(member())


def test_a_worker_has_the_files_of_one_model(tmp_path: Path) -> None:
    worker = sessions(tmp_path, States(1 << 20))
    session, _ = worker.at(member(trial="c0"))
    state = train(session)
    digest = digest_of(state)
    worker.finish("c0", digest)
    worker._states.put("c0", 1, Held(state, digest))
    worker.at(member(trial="c1", offload=False))
    again, _ = worker.at(member(1, digest, trial="c0"))
    assert again is session
    worker.at(member(trial="c2"))
    del again, session
    gc.collect()
    assert list(worker._open) == ["c1", "c2"]
