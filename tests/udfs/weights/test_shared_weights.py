from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from places import ROOT
from torch import nn

from udfs.handlers import TensorSpec, framework
from udfs.node import CACHE_VARIABLE
from udfs.weights.shared import open_shared

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))


class Tied(nn.Module):
    """Convolution, batch norm, a buffer that is not saved, and two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4, bias=False)
        self.two.weight = self.one.weight
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.two(torch.relu(self.one(self.norm(self.convolution(images)).mean((2, 3)) * self.scale)))


def built(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return Tied().eval()


def skeleton() -> nn.Module:
    with torch.device("meta"):
        return Tied().eval()


def test_the_same_bits_in_the_layout_that_runs() -> None:
    network = open_shared("tied", built, skeleton)
    images = torch.rand(2, 3, 8, 8)
    with torch.inference_mode():
        reference = built().to(memory_format=torch.channels_last)
        assert torch.equal(network(images), reference(images.to(memory_format=torch.channels_last)))
    assert network.convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert network.one.weight is network.two.weight
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_prepare_copies_nothing() -> None:
    network = open_shared("tied", built, skeleton)
    before = {tensor.data_ptr() for tensor in network.parameters()}
    traced = framework("torch").trace(network, (TensorSpec((3, 8, 8)),)).prepare(1)
    assert {tensor.data_ptr() for tensor in traced._module.parameters()} == before


def test_only_the_first_builds() -> None:
    calls: list[int] = []

    def counted() -> nn.Module:
        calls.append(1)
        return built()

    for _ in range(3):
        open_shared("tied", counted, skeleton)
    assert len(calls) == 1
    open_shared("another", counted, skeleton)
    assert len(calls) == 2


class Plain(nn.Module):
    """A tensor that is neither parameter nor buffer, which a skeleton does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.ones(3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + self.offset


def test_what_cannot_be_shared_runs_all_the_same() -> None:
    def empty() -> nn.Module:
        with torch.device("meta"):
            return Plain()

    assert torch.equal(framework("torch").share("plain", Plain, empty)(torch.zeros(1, 3)), torch.ones(1, 3))


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setenv(CACHE_VARIABLE, str(file))
    assert open_shared("tied", built, skeleton)(torch.zeros(1, 3, 8, 8)).shape == (1, 4)
    assert "the weights are not shared" in "\n".join(caplog.messages)


def test_old_files_go(tmp_path: Path) -> None:
    build: Callable[[], nn.Module] = partial(built, 1)
    for number in range(10):
        open_shared(f"model {number}", build, skeleton)
    assert len(list((tmp_path / "models").glob("*.pt"))) == 8


_WORKER = """
import sys, torch
from torch import nn
from udfs.handlers import framework
from udfs.weights.shared import open_shared

MIB = 2**20

def skeleton():
    with torch.device("meta"):
        return nn.Sequential(nn.Conv2d(1024, 2048, 4), nn.Linear(4096, 4096)).eval()

def build():
    return skeleton().to_empty(device="cpu")

network = open_shared(sys.argv[1], build, skeleton)
total = sum(float(parameter.sum()) for parameter in network.parameters())  # touches every page
weights = 4 * sum(parameter.numel() for parameter in network.parameters())

def mapped():
    inside, found = False, {}
    for line in open("/proc/self/smaps"):
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            inside = line.rstrip().endswith(".pt")
        elif inside and words[0] in ("Rss:", "Pss:", "Private_Dirty:"):
            found[words[0]] = found.get(words[0], 0) + 1024 * int(words[1])
    return found

print("ready", flush=True)
sys.stdin.readline()
found = mapped()
print(weights // MIB, found["Rss:"] // MIB, found["Pss:"] // MIB, found["Private_Dirty:"] // MIB, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="proportional set size is Linux's")
def test_two_workers_share_the_pages(tmp_path: Path) -> None:
    """Proportional set size: each of two processes that have all weights resident is charged half of them."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), CACHE_VARIABLE: str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, "large"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        found = []
        for worker in workers:
            worker.stdin.write("\n")
            worker.stdin.flush()
            found.append([int(number) for number in worker.stdout.readline().split()])
    finally:
        for worker in workers:
            worker.communicate("\n")
    for weights, resident, proportional, private in found:
        assert weights == 192
        assert resident >= weights - 1
        assert proportional <= resident / 2 + 1
        assert private == 0
