"""No file that is opened runs code, reads another file or writes one: a corpus of attacks, each refused."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hostile_files import corpus, program, zipped
from places import ROOT
from torch import nn

from udfs.handlers.torch._archive import load_program

LIMIT_S = 500


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Open the whole corpus in a process of its own."""
    folder = tmp_path_factory.mktemp("hostile")
    entries = []
    for number, file in enumerate(corpus(folder)):
        name = f"file-{number:03d}"
        (folder / name).write_bytes(file.data)
        entries.append({"name": file.name, "door": file.door, "file": name, "harmless": file.harmless})
    (folder / "corpus.json").write_text(json.dumps(entries))
    (folder / "good.json").write_text(json.dumps(_good(folder)))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("opener.py")), str(folder)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert not (folder / "ran").exists(), "code of a file has run"
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(entries) > 100
    return found


def _good(folder: Path) -> dict[str, str]:
    """Write a file for each framework's door that is to open, and name it."""
    (folder / "good.pt2").write_bytes(zipped(program()))
    return {"torch": "good.pt2", "keras": "good.keras"}


def test_nothing_runs(outcomes: list[dict[str, Any]]) -> None:
    ran = [f"{entry['door']}: {entry['name']}: {entry['events']}" for entry in outcomes if entry["events"]]
    assert not ran


def test_every_file_is_refused_with_a_message(outcomes: list[dict[str, Any]]) -> None:
    """What no network needs may be left out instead."""
    wrong = [
        f"{entry['door']}: {entry['name']}: {entry['outcome']} {entry['message'][:300]}"
        for entry in outcomes
        if entry["outcome"] != "refused" and not (entry["harmless"] and entry["outcome"] == "opened")
    ]
    assert not wrong
    assert all(len(entry["message"]) > 20 for entry in outcomes if entry["outcome"] == "refused")


def test_the_attack_runs_where_nothing_checks(tmp_path: Path) -> None:
    """The corpus is no paper tiger: torch's own reader runs the first attack on a program."""
    attack = next(file for file in corpus(tmp_path) if file.name == "size that runs Python")
    code = "import io, sys, torch; torch.export.load(io.BytesIO(open(sys.argv[1], 'rb').read()))"
    path = tmp_path / "attack.pt2"
    path.write_bytes(attack.data)
    subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, timeout=LIMIT_S, check=False)
    if not (tmp_path / "ran").exists():
        pytest.skip("this torch evaluates sizes no more")


def test_a_checked_network_computes_the_same() -> None:
    class Everything(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
            self.up = nn.Upsample(scale_factor=2.0, mode="bilinear")

        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            steps, _ = self.attention(x, x, x)
            return {
                "attention.0": steps,
                "einsum": torch.einsum("bij,bkj->bik", steps, steps),
                "up": self.up(steps[:, None]),
                "gelu": nn.functional.gelu(x, approximate="tanh").flatten(0, 1),
                "div": torch.div(ids, 2, rounding_mode="floor"),
                "masked": steps.masked_fill(steps > 0, float("-inf")),
            }

    network = Everything().eval()
    batch = torch.export.Dim("batch")
    inputs = torch.randn(2, 3, 4), torch.arange(6).reshape(2, 3)
    program = torch.export.export(network, inputs, dynamic_shapes=({0: batch}, {0: batch}))
    for exported in (program, program.run_decompositions()):
        buffer = io.BytesIO()
        torch.export.save(exported, buffer)
        opened = load_program(buffer.getvalue()).module(check_guards=False)
        more = torch.randn(5, 3, 4), torch.arange(15).reshape(5, 3)
        expected, got = exported.module()(*more), opened(*more)
        assert list(got) == list(expected)
        for name, tensor in expected.items():
            np.testing.assert_array_equal(tensor.detach().numpy(), got[name].detach().numpy())
        with pytest.raises(RuntimeError, match="to be equal to 4"):
            opened(torch.randn(5, 3, 6), torch.arange(15).reshape(5, 3))
