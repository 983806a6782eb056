"""Networks of ``transformers`` through Spark: features of real photographs, and heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='pip install "cerebro-spark[torch]"')
transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[pretrained]"')

from cards import registered
from photographs import encode, photograph
from pretrained import IMAGES, saved

from udfs.inference import pool
from vista_spark import CNNFeaturizer, explain_image, roster

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def own_features(model: torch.nn.Module, folder: Path, paths: list[str]) -> dict[str, np.ndarray]:
    """Pooled features of two photographs from the library alone; tokens of patches as a map."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    seen: dict[str, np.ndarray] = {}
    for path in paths:
        model.get_submodule(path).register_forward_hook(
            lambda _module, _inputs, output, path=path: seen.__setitem__(path, output.numpy())
        )
    with torch.inference_mode():
        model(processor([photograph("china"), photograph("flower")], return_tensors="pt")["pixel_values"])
    maps = {
        path: tensor[:, 1:].transpose(0, 2, 1).reshape(len(tensor), -1, 4, 4) if tensor.ndim == 3 else tensor
        for path, tensor in seen.items()
    }
    return {path: pool(tensor, "max2x2") for path, tensor in maps.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers"),
    [
        pytest.param("vit", {"block2": "vit.layers.1", "fc": "classifier"}, marks=pytest.mark.extended),
        ("convnext", {"stage1_block1": "convnext.encoder.stages.0.layers.0", "fc": "classifier"}),
    ],
)
def test_features_and_a_heat_map(spark: SparkSession, name: str, layers: dict[str, str], tmp_path: Path) -> None:
    model = saved(IMAGES[name], tmp_path)
    photographs = [encode(photograph(each), "PNG") for each in ("china", "flower")]
    df = spark.createDataFrame(list(enumerate([*photographs, b"no image"])), "id int, image binary")
    with registered(roster.from_pretrained(tmp_path, name=f"folder_{name}")) as card:
        featurizer = CNNFeaturizer(model=card.name, layers=list(layers))
        rows = sorted(featurizer.transform(df).collect(), key=lambda row: row["id"])
        heat = explain_image(photographs[1], card.name, patch_size=8, stride=8, target=2)
    assert [row["image_error"] is None for row in rows] == [True, True, False]
    expected = own_features(model, tmp_path, list(layers.values()))
    for layer, path in layers.items():
        found: Any = np.stack([row[f"folder_{name}_{layer}"].toArray() for row in rows[:2]])
        scale = max(1.0, float(np.abs(expected[path]).max()))
        np.testing.assert_allclose(found / scale, expected[path] / scale, atol=1e-5, err_msg=layer)
    assert heat.heat_map.shape == (4, 4)
    np.testing.assert_allclose(heat.heat_map, own_heat_map(model, tmp_path, target=2), atol=1e-5)


def own_heat_map(model: torch.nn.Module, folder: Path, target: int) -> np.ndarray:
    """Probability of a class with each square of 8 pixels grey, from the library alone."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = processor(photograph("flower"), return_tensors="pt")["pixel_values"]
    grey = (128 / 255 - 0.5) / 0.5
    heat = np.empty((4, 4), np.float32)
    for row, column in np.ndindex(4, 4):
        covered = pixels.clone()
        covered[:, :, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = grey
        with torch.inference_mode():
            heat[row, column] = model(covered).logits.softmax(-1)[0, target]
    return heat
