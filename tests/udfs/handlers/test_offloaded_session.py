"""Training with tensors in files gives the bits of training in memory, in a part of its memory."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.handlers import ModelTrainer, framework, open_session, training_bytes
from udfs.handlers.torch._recomputation import Recomputation
from udfs.offloading import DiskOffload
from udfs.stacking import unstackable_reason
from udfs.training import TrainerError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 48
WIDTH = 72

RNG = np.random.default_rng(0)
DATA: Any = SimpleNamespace(
    inputs=(RNG.normal(size=(ROWS, WIDTH)).astype(np.float32),),
    labels=(RNG.integers(0, 3, ROWS),),
    rows=ROWS,
    weights=None,
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small layers on two threads wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Block(nn.Module):
    """A block with batch norm, dropout, and a layer that Python's generator drops."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm = nn.Linear(WIDTH, 4 * WIDTH), nn.BatchNorm1d(4 * WIDTH)
        self.drop, self.down = nn.Dropout(0.2), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = random.random()
        return x + share * self.down(self.drop(torch.relu(self.norm(self.up(x)))))


class Network(nn.Module):
    """Two blocks, the first of which runs twice, and a weight that two places of the network read."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.blocks.append(self.blocks[0])
        self.head = nn.Linear(4 * WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.tied(x)) @ self.tied.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.tied(x))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    offload = params.get("offload")
    if params.get("allocate"):
        with params["offload"].allocate():
            net = Network()
    else:
        net = Network()
    optimizer = getattr(torch.optim, params["optimizer"])(net.parameters(), lr=0.01, **params.get("options", {}))
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=nn.CrossEntropyLoss(),
        batch_size=16,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        freeze_until=params.get("freeze_until", {}),
        offload=offload,
    )


def opened(seed: int = 3, **params: Any) -> Any:
    return open_session(trainer, params, seed)


def train(session: Any, seed: int) -> None:
    session.train(DATA, np.random.default_rng(seed).permutation(ROWS), ends_epoch=True)


def files() -> int:
    """Bytes of the mapped files without a name."""
    sizes = [
        line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines() if "(deleted)" in line
    ]
    return sum(int(end, 16) - int(start, 16) for start, end in sizes)


@pytest.mark.parametrize(
    ("optimizer", "options", "allocate"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True}, True),
        ("AdamW", {"amsgrad": True}, True),
        ("Adam", {"fused": True}, False),
        *(
            (name, {}, False)
            for name in ("NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "ASGD", "Rprop")
        ),
    ],
)
def test_checkpoints_are_those_of_training_in_memory(
    tmp_path: Path, optimizer: str, options: dict[str, Any], allocate: bool
) -> None:
    memory = opened(optimizer=optimizer, options=options)
    disk = opened(optimizer=optimizer, options=options, offload=DiskOffload(tmp_path), allocate=allocate)
    assert disk.checkpoint() == memory.checkpoint()
    for epoch in range(2):
        train(memory, epoch)
        train(disk, epoch)
        assert disk.checkpoint() == memory.checkpoint(), epoch
    # Another session goes on, and leaves the checkpoint that it began from as it was.
    state = disk.checkpoint()
    resumed = opened(5, optimizer=optimizer, options=options, offload=DiskOffload(tmp_path))
    resumed.restore(state)
    assert resumed.checkpoint() == state == memory.checkpoint()
    train(resumed, 7)
    train(memory, 7)
    assert resumed.checkpoint() == memory.checkpoint() != state == disk.checkpoint()
    assert list(tmp_path.iterdir()) == []


def test_parameters_and_moments_are_in_files(tmp_path: Path) -> None:
    session = opened(optimizer="AdamW", offload=DiskOffload(tmp_path))
    gc.collect()
    before = files()
    weights = sum(each.nbytes for each in session.model.parameters() if each.nbytes > 1 << 16)
    assert before >= 3 * weights > 0, "weights and both moments"
    train(session, 0)
    assert files() == before, "the first step makes no new state"
    states = session.trainer.optimizer.state.values()
    large = [value for state in states for value in state.values() if value.nbytes > 1 << 16]
    assert large
    assert all(value.untyped_storage().filename for value in (*large, session.model.tied.weight))
    assert all(parameter.grad is None for parameter in session.model.parameters())
    del session, states, large
    gc.collect()
    assert files() <= before - 3 * weights, "closing a session gives its disk back"


def test_a_clone_and_a_freezing_schedule_train_as_in_memory(tmp_path: Path) -> None:
    source = opened(optimizer="AdamW")
    train(source, 0)
    schedule = {0: "blocks.1", 1: None}
    places = (None, DiskOffload(tmp_path))
    clones = [opened(4, optimizer="AdamW", freeze_until=schedule, offload=each) for each in places]
    for clone in clones:
        clone.adopt(source.checkpoint())
        train(clone, 1)
        train(clone, 2)
    assert clones[0].checkpoint() == clones[1].checkpoint()
    inheriting = [opened(6, optimizer="AdamW", offload=each) for each in places]
    for each in inheriting:
        each.inherit(source.checkpoint())
        train(each, 1)
    assert inheriting[0].checkpoint() == inheriting[1].checkpoint()


def test_evaluation_and_predictions_are_equal(tmp_path: Path) -> None:
    results = []
    for offload in (None, DiskOffload(tmp_path)):
        session = opened(optimizer="SGD", offload=offload)
        random.seed(0)  # blocks draw in evaluation too
        results.append([*session.evaluate(DATA)["loss"].tolist(), *session.predict(DATA.inputs)[0].ravel().tolist()])
    assert results[0] == results[1]


def test_gradients_outside_of_a_step_change_nothing(tmp_path: Path) -> None:
    session = opened(optimizer="SGD", offload=DiskOffload(tmp_path))
    before = bytes(session.checkpoint())
    session.model.eval()
    session.model(torch.zeros(2, WIDTH)).sum().backward()
    assert session.model.tied.weight.grad is not None
    assert session.checkpoint() == before


def used(folder: Path) -> int:
    """Bytes that the files on a disk take."""
    disk = os.statvfs(folder)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def test_a_full_disk_is_an_error_before_training(small_disk: Callable[[str], Path]) -> None:
    folder = small_disk("1m")
    with pytest.raises(
        TrainingError, match=r"folder must have [\d,]+ bytes free for parameters and optimizer state, got [\d,]+"
    ):
        opened(optimizer="AdamW", offload=DiskOffload(folder))
    assert used(folder) == 0


def test_a_full_disk_loses_no_checkpoint(small_disk: Callable[[str], Path]) -> None:
    folder = small_disk("4m")
    session = opened(optimizer="AdamW", offload=DiskOffload(folder))
    filled = folder / "other"
    last = session.checkpoint()
    before = bytes(last)
    filled.write_bytes(bytes(4_100_000 - used(folder)))
    train(session, 0)
    with pytest.raises(TrainingError, match=r"bytes free for a checkpoint, got [\d,]+ bytes in .* are intact"):
        session.checkpoint()
    assert last == before, "the checkpoint from before is intact"
    filled.unlink()
    # The session has lost nothing: it goes on once there is room.
    memory = opened(optimizer="AdamW")
    for epoch in (0, 1):
        train(memory, epoch)
    train(session, 1)
    assert session.checkpoint() == memory.checkpoint()


PROGRAM = """
import sys, threading, time
import numpy as np, torch
from pathlib import Path
from types import SimpleNamespace
from torch import nn
from udfs.handlers import ModelTrainer, open_session
from udfs.offloading import DiskOffload

BLOCKS, WIDTH, ROWS = 24, 1024, 64
NBYTES = 4 * BLOCKS * WIDTH * WIDTH

def anonymous():
    return next(int(line.split()[1]) << 10 for line in Path("/proc/self/status").open() if line.startswith("RssAnon"))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.tanh(self.layer(x))

def trainer(params):
    offload = DiskOffload(sys.argv[1])
    with offload.allocate():
        net = nn.Sequential(*[Block() for _ in range(BLOCKS)], nn.Linear(WIDTH, 2))
    adam = torch.optim.AdamW(net.parameters())
    return ModelTrainer(model=net, optimizer=adam, loss=nn.CrossEntropyLoss(), batch_size=ROWS, offload=offload)

data = SimpleNamespace(
    inputs=(np.ones((ROWS, WIDTH), np.float32),), labels=(np.zeros(ROWS, np.int64),), rows=ROWS, weights=None
)
open_session(trainer, {}, 0)  # imports of torch
base, peak = anonymous(), 0

def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.01)

threading.Thread(target=watch, daemon=True).start()
session = open_session(trainer, {}, 0)
session.train(data, np.arange(ROWS), ends_epoch=True)
state = session.checkpoint()
session.restore(state)
session.train(data, np.arange(ROWS), ends_epoch=True)
assert len(state) > 3 * NBYTES
print((peak - base) / NBYTES)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_below_the_weights(tmp_path: Path) -> None:
    """Weights, moments, gradients and checkpoint are 100 MB each; all gradients at once would be 1.0."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.6


class Reading(nn.Module):
    """A block that reads a weight of the head without learning it."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.layer, self.weight = nn.Linear(3, 3), weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) @ self.weight.detach()


def small(net: nn.Module, offload: DiskOffload, optimizer: Any = None) -> Any:
    built = ModelTrainer(
        model=net,
        optimizer=optimizer or torch.optim.SGD(net.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(),
        offload=offload,
    )
    return open_session(lambda _: built, {}, 0)


def test_a_changed_weight_is_not_computed_with_again(tmp_path: Path) -> None:
    head = nn.Linear(3, 3)
    session = small(nn.Sequential(Reading(head.weight), head), DiskOffload(tmp_path, recompute=["0"]))
    data: Any = SimpleNamespace(
        inputs=(np.ones((4, 3), np.float32),), labels=(np.zeros(4, np.int64),), rows=4, weights=None
    )
    with pytest.raises(TrainerError, match="recompute must leave out modules that read a parameter without learning"):
        session.train(data, np.arange(4), ends_epoch=True)


class Clipped(torch.optim.SGD):
    """Gradient clipping by the global norm."""

    def step(self, closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
        return super().step(closure)


def test_refused_trainers(tmp_path: Path) -> None:
    offload = DiskOffload(tmp_path)
    net = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 2))
    for optimizer in (torch.optim.LBFGS(net.parameters()), Clipped(net.parameters(), lr=0.1)):
        with pytest.raises(TrainerError, match=f"optimizer must be one of SGD, .* got {type(optimizer).__name__}"):
            small(net, offload, optimizer)
    hooked = torch.optim.SGD(net.parameters(), lr=0.1)
    hooked.register_step_pre_hook(lambda *_: None)
    with pytest.raises(TrainerError, match="optimizer must have no step hooks"):
        small(net, offload, hooked)
    with pytest.raises(TrainerError, match=r"recompute must name modules of the model, got 'layer9'"):
        small(net, DiskOffload(tmp_path, ["layer9"]))
    with pytest.raises(TrainerError, match="recompute must name modules that are not within each other"):
        small(net, DiskOffload(tmp_path, ["0.1", "0"]))
    with pytest.raises(TrainerError, match="recompute must be a sequence"):
        DiskOffload(recompute="0")
    with pytest.raises(TrainingError, match=r"folder must be a folder that this process can write"):
        small(nn.Linear(200, 200), DiskOffload(tmp_path / "missing"))
    views = nn.Linear(3, 3)
    views.register_buffer("view", views.weight.detach()[0])
    with pytest.raises(TrainerError, match="separate memory"):
        small(views, offload)
    with pytest.raises(TrainerError, match="device must be 'cpu'"):
        framework("torch").open_training(
            ModelTrainer(
                model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=nn.MSELoss(), offload=offload
            ),
            "cuda",
        )
    with pytest.raises(TrainerError, match="offload must be a DiskOffload"):
        ModelTrainer(model=net, optimizer=hooked, loss=nn.MSELoss(), offload="disk")  # type: ignore[arg-type]


def test_its_memory_is_that_of_its_largest_parameter(tmp_path: Path) -> None:
    session = opened(optimizer="AdamW", offload=DiskOffload(tmp_path))
    assert training_bytes(session) == 4 * session.model.tied.weight.nbytes < session.weight_bytes
    assert unstackable_reason([session, session]) == "a OffloadedSession trains one by one"


def test_the_default_recomputes_blocks() -> None:
    def layers() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    stages = nn.Sequential(nn.Sequential(Block(), Block(), nn.ReLU()), layers(), nn.Linear(3, 3))
    net = nn.ModuleDict({"stem": nn.Linear(3, 3), "body": stages, "blocks": nn.ModuleList([Block()])})
    assert Recomputation(net).names == ["body.1", "blocks.0", "body.0.0", "body.0.1"]
    assert Recomputation(layers()).names == []
