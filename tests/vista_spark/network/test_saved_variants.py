"""Stages with a variant of a network, saved as JSON and safetensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import save_file

from udfs.images import Preprocessing
from udfs.roster import VariantBuilder
from udfs.variants.torch import factorize, narrow, replace_head, store
from vista_spark import CNNFeaturizer, roster
from vista_spark.network import read_folder, write_folder
from vista_spark.roster import ModelCard

if TYPE_CHECKING:
    from pathlib import Path


def test_a_variant_is_saved_as_data(tmp_path: Path) -> None:
    made, head = replace_head(roster.load("squeezenet1_1"), 5)
    structure = head
    for transform in (
        lambda module: narrow(module, torch.zeros(1, 3, 64, 64), 0.5),
        lambda module: factorize(module, 0.5),
        lambda module: store(module, 8),
    ):
        made, changes = transform(made)
        structure += changes
    save_file(made.state_dict(), tmp_path / "variant.safetensors")
    card = ModelCard(
        name="variant",
        builder=VariantBuilder("squeezenet1_1", structure=structure),
        preprocessing=Preprocessing(crop=64, resize=72),
        weights=str(tmp_path / "variant.safetensors"),
    )
    stage = CNNFeaturizer(model=card, layers=[-1])
    write_folder(stage, tmp_path / "stage")
    described = json.loads((tmp_path / "stage" / "stage.json").read_text())
    assert described["carried"]["card"]["builder"]["type"] == "vista_spark.roster.VariantBuilder"
    (tmp_path / "variant.safetensors").unlink()
    files = [file for file in (tmp_path / "stage" / "network").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 400_000  # of 1.2 million weights
    again = read_folder(CNNFeaturizer, tmp_path / "stage")
    restored = roster.of(again._given)
    assert restored.builder == card.builder
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(roster.load(restored)(x), made.eval()(x))
