"""The same code on an accelerator; these tests skip without one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from optimizer.occlusion import OcclusionGrid
from udfs.handlers import DeviceError, TensorSpec, framework
from udfs.node import MachineReport, task_device
from udfs.node import _machine as machine
from udfs.occlusion import Occlusion
from udfs.occlusion.occluder import Occluder

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize(
    ("asked", "granted", "visible", "device"),
    [
        ("auto", ["3"], None, "cuda:3"),
        ("cuda", ["0"], None, "cuda:0"),
        # An executor that sees two of the node's GPUs: torch counts them from 0.
        ("auto", ["5"], "4,5", "cuda:1"),
        ("cpu", ["3"], None, "cpu"),
        ("cuda:2", ["3"], None, "cuda:2"),
        ("auto", [], None, "auto"),
    ],
)
def test_a_task_runs_on_the_device_that_spark_gave_it(
    asked: str, granted: list[str], visible: str | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's side is a stand-in: there is no cluster with GPUs here."""
    resources = {"gpu": SimpleNamespace(addresses=granted)}
    context = SimpleNamespace(resources=lambda: resources)
    monkeypatch.setattr(machine, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert task_device(asked) == device


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device")
def test_a_gpu_of_spark_that_torch_cannot_see_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(resources=lambda: {"gpu": SimpleNamespace(addresses=["1"])})
    monkeypatch.setattr(machine, "TaskContext", SimpleNamespace(get=lambda: context))
    with pytest.raises(
        DeviceError, match=r"gave a task on .+ the GPU 1, but torch .+ sees .+: install a build of torch"
    ):
        list(MachineReport(0.0)([]))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()


@gpu
def test_the_accelerator_gives_the_same_features() -> None:
    images = np.random.default_rng(0).random((4, 3, 8, 8), np.float32)
    found = []
    for device in ("cpu", "cuda"):
        traced = framework("torch").trace(network(), (TensorSpec((3, 8, 8)),), device=device).prepare(1)
        (image,) = traced.graph.inputs
        middle = traced.run({image: images}, ["2"])
        found.append(traced.run(middle, [traced.graph.outputs[0]])[traced.graph.outputs[0]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


@gpu
def test_a_larger_batch_takes_more_of_the_accelerator() -> None:
    from vista_spark import profile  # noqa: PLC0415 - with what it imports, only where it is used

    few, many = (profile("squeezenet1_1", batch_size=size, device="cuda") for size in (2, 32))
    assert 0 < few.runtime_gpu_bytes < many.runtime_gpu_bytes


@gpu
def test_the_accelerator_gives_the_same_heat_map() -> None:
    picture = np.random.default_rng(0).random((3, 8, 8), np.float32)
    occlusion = Occlusion(OcclusionGrid((8, 8), (3, 3), (1, 1)), (0.0, 0.0, 0.0))
    found = []
    for device in ("cpu", "cuda"):
        model = framework("torch").trace(network(), (TensorSpec((3, 8, 8)),), device=device).prepare(1)
        occluder = Occluder(model, occlusion)
        found.append(occluder.heat_map(occluder.opened(picture)).values)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
