"""Modules that a worker imports before its first row, which every cold job waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from udfs.node import CACHE_VARIABLE

pytest.importorskip("torch")

if TYPE_CHECKING:
    from pathlib import Path

# Together they take as long as torch itself.
_HEAVY = {"torch._dynamo", "torch._inductor", "sympy", "pandas", "keras", "tensorflow", "sklearn", "matplotlib"}

_DRIVER = """
import io, sys
import cloudpickle, pyarrow as pa
from PIL import Image
from optimizer.transfer import plan_layers
from vista_spark.network import network
from vista_spark.transfer._stage import stage_inference

net = network("squeezenet1_1", None, 0, 64)
plan = plan_layers(net.graph, [net.layer(net.layers(1)[0])], "staged")
rows = stage_inference(
    net, plan.stages[0], image="image", keep=("id",), pooling="max2x2", batch_size=4, device="cpu"
)
picture = io.BytesIO()
Image.new("RGB", (64, 64)).save(picture, "PNG")
batch = pa.RecordBatch.from_pydict({"id": [1], "image": [picture.getvalue()]})
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump((rows, batch.schema.serialize().to_pybytes(), batch.serialize().to_pybytes()), file)
"""
_WORKER = """
import pickle, sys
import pyarrow as pa

with open(sys.argv[1], "rb") as file:
    rows, schema, batch = pickle.load(file)
batch = pa.ipc.read_record_batch(pa.py_buffer(batch), pa.ipc.read_schema(pa.py_buffer(schema)))
(result,) = rows([batch])
assert result.num_rows == 1 and not result.column(1).null_count, result
print(*sorted(sys.modules))
"""
_SKELETON = """
import sys
from functools import partial
from torch import nn
from udfs.handlers import TensorSpec, framework

draws = [
    lambda weight: nn.init.normal_(weight),
    lambda weight: nn.init.normal_(tensor=weight, std=0.02),
    nn.init.trunc_normal_,
    nn.init.kaiming_normal_,
    nn.init.xavier_normal_,
    nn.init.orthogonal_,
    lambda weight: nn.init.sparse_(weight.flatten(1), 0.1),
    lambda weight: weight.data.normal_(0, 0.02),
    lambda weight: weight.data.exponential_(),
]

def build(draw):
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)]
    draw(layers[0].weight)
    draw(layers[3].weight)
    return nn.Sequential(*layers)

for number, draw in enumerate(draws):
    network = framework("torch").skeleton(partial(build, draw), [TensorSpec((3, 8, 8))])
    assert all(weight.is_meta for weight in network.parameters()), number
    assert "torch._dynamo" not in sys.modules, number
print(*sorted(sys.modules))
"""


def _modules(code: str, folder: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), CACHE_VARIABLE: str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_worker_imports_torch_and_little_else(tmp_path: Path) -> None:
    rows = str(tmp_path / "rows")
    _modules(_DRIVER, tmp_path, rows)
    imported = _modules(_WORKER, tmp_path, rows)
    assert "torch" in imported
    assert not imported & _HEAVY


def test_a_skeleton_draws_no_weights(tmp_path: Path) -> None:
    assert "sympy" not in _modules(_SKELETON, tmp_path)
