"""The same code on an accelerator; these tests skip without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from optimizer.occlusion import OcclusionGrid
from udfs.handlers import DeviceError, ModelTrainer, TensorSpec, framework, open_adapted, open_session
from udfs.handlers.torch import FRAMEWORK
from udfs.node import MachineReport, task_device
from udfs.node import _machine as machine
from udfs.occlusion import Occlusion
from udfs.occlusion.occluder import Occluder
from udfs.shards import Tensors

if TYPE_CHECKING:
    from pathlib import Path

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


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


@pytest.mark.gpu
@needs_gpu
def test_the_accelerator_gives_the_same_features() -> None:
    images = np.random.default_rng(0).random((4, 3, 8, 8), np.float32)
    found = []
    for device in ("cpu", "cuda"):
        traced = framework("torch").trace(network(), (TensorSpec((3, 8, 8)),), device=device).prepare(1)
        (image,) = traced.graph.inputs
        middle = traced.run({image: images}, ["2"])
        found.append(traced.run(middle, [traced.graph.outputs[0]])[traced.graph.outputs[0]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


@pytest.mark.gpu
@needs_gpu
def test_a_larger_batch_takes_more_of_the_accelerator() -> None:
    from vista_spark import profile  # with what it imports, only where it is used

    few, many = (profile("squeezenet1_1", batch_size=size, device="cuda") for size in (2, 32))
    assert 0 < few.runtime_gpu_bytes < many.runtime_gpu_bytes


@pytest.mark.gpu
@needs_gpu
def test_the_accelerator_gives_the_same_heat_map() -> None:
    picture = np.random.default_rng(0).random((3, 8, 8), np.float32)
    occlusion = Occlusion(OcclusionGrid((8, 8), (3, 3), (1, 1)), (0.0, 0.0, 0.0))
    found = []
    for device in ("cpu", "cuda"):
        model = framework("torch").trace(network(), (TensorSpec((3, 8, 8)),), device=device).prepare(1)
        occluder = Occluder(model, occlusion)
        found.append(occluder.heat_map(occluder.opened(picture)).values)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


@pytest.mark.gpu
@needs_gpu
def test_a_model_hops_from_an_accelerator_to_a_cpu_and_back() -> None:
    def trainer(_params: dict[str, object]) -> ModelTrainer:
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
        solver = torch.optim.Adam(model.parameters(), 0.01)
        return ModelTrainer(model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=16)

    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    data = Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), 64)
    there, here = (open_session(trainer, {}, 3, device=device) for device in ("cuda", "cpu"))
    losses = []
    for epoch, session in enumerate((there, here) * 4):
        order = np.random.default_rng(epoch).permutation(data.rows)
        losses.append(session.sums.results(session.train(data, order, ends_epoch=True))["loss"])
        other = here if session is there else there
        other.restore(session.checkpoint())
        np.testing.assert_allclose(other.predict((inputs,))[0], session.predict((inputs,))[0], rtol=1e-4, atol=1e-5)
    assert losses[-1] < losses[0]
    assert next(there.model.parameters()).is_cuda


@pytest.mark.gpu
@needs_gpu
def test_a_network_that_its_author_left_on_a_gpu_runs_on_a_cpu_elsewhere(tmp_path: Path) -> None:
    """As in a notebook: trained on the GPU, and given to a stage as it is."""
    here, there = network(), network().cuda()
    images = np.random.default_rng(0).random((4, 3, 8, 8), np.float32)
    inputs, expected = (TensorSpec((3, 8, 8)),), here(torch.from_numpy(images)).detach().numpy()
    assert FRAMEWORK.fingerprint(there) == FRAMEWORK.fingerprint(here)

    code = FRAMEWORK.pack(there, inputs, tmp_path / "weights")
    FRAMEWORK.write_network(there, inputs, tmp_path / "network.pt2")
    models = [FRAMEWORK.unpack(code, tmp_path / "weights"), FRAMEWORK.open_network(tmp_path / "network.pt2"), there]
    for model in models:
        for traced in (FRAMEWORK.trace(model, inputs), FRAMEWORK.trace(model, inputs).prepare(1)):
            (image,), (scores,) = traced.graph.inputs, traced.graph.outputs
            np.testing.assert_allclose(traced.run({image: images}, [scores])[scores], expected, rtol=1e-3, atol=1e-3)
    assert next(there.parameters()).is_cuda, "it was moved"


@pytest.mark.gpu
@needs_gpu
def test_a_network_that_only_torch_export_follows_is_opened_on_a_gpu() -> None:
    class Chunked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = nn.Linear(6, 8), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gate, value = self.below(x).chunk(2, -1)
            return self.above(torch.sigmoid(gate) * value)

    def trainer(_params: dict[str, object]) -> ModelTrainer:
        model = Chunked()
        model.below.requires_grad_(False)
        solver = torch.optim.SGD(model.above.parameters(), 0.1)
        return ModelTrainer(model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=4)

    adapted = open_adapted(trainer, {}, 1, inputs=(TensorSpec((6,)),), columns=["x"], device="cuda")
    assert not adapted.whole, adapted.whole


@pytest.mark.gpu
@needs_gpu
def test_an_image_is_explained_on_a_gpu_as_on_a_cpu() -> None:
    from vista_spark import explain_image  # with what it imports, only where it is used

    picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype(np.float32)
    one, other = (
        explain_image(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=8, seed=1, device=device)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(one.heat_map, other.heat_map, atol=1e-5)
    assert other.verified == 1
