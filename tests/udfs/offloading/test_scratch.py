"""Tensors in files: their values and layout, what stays in memory, and folders that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from udfs.offloading import DiskOffload
from udfs.offloading.scratch import Scratch, release
from udfs.training import TrainerError, TrainingError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_tensor_in_a_file_has_the_values_and_strides_of_its_source(tmp_path: Path, dtype: torch.dtype) -> None:
    source = torch.arange(40_000).reshape(200, 200).T.to(dtype)
    scratch = Scratch(tmp_path)
    moved = scratch.moved(source)
    assert scratch.takes(source)
    assert not scratch.takes(moved), "it is in a file already"
    assert moved.equal(source)
    assert (moved.stride(), moved.dtype) == (source.stride(), dtype)
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_pages_that_were_released_are_read_again(tmp_path: Path) -> None:
    source = torch.rand(300, 300)
    moved = Scratch(tmp_path).moved(source)
    moved += 1
    release([moved, source])
    assert moved.equal(source + 1)


def test_small_tensors_stay_in_memory(tmp_path: Path) -> None:
    bias = torch.zeros(10)
    assert Scratch(tmp_path).moved(bias) is bias


def test_weights_of_a_layer_are_allocated_in_files_with_the_same_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    in_memory = torch.nn.Linear(300, 300)
    torch.manual_seed(0)
    with DiskOffload(tmp_path).allocate():
        in_files = torch.nn.Linear(300, 300)
    assert in_files.weight.equal(in_memory.weight)
    assert in_files.weight.requires_grad
    assert not Scratch.takes(in_files.weight)
    assert Scratch.takes(in_memory.weight)


def test_invalid_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"recompute must be a sequence of paths of modules, got 'encoder'"):
        DiskOffload(recompute="encoder")
    with pytest.raises(TrainingError, match="folder must be a folder that this process can write"):
        Scratch(tmp_path / "missing").buffer(10)
