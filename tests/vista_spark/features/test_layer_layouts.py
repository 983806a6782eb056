"""Features of layers whatever their layout, the statement of a layout, and Grad-CAM by the same layouts."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from torch import nn

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from optimizer.memory import ClusterSpec
from udfs.images import Preprocessing
from vista_spark import (
    CNNFeaturizer,
    FeatureTransfer,
    MLPClassifier,
    image_attributor,
    plan_feature_transfer,
    roster,
    tensor_attributor,
)
from vista_spark.mlflow._load import FeatureModel

WIDTH = 8


class Transformer(nn.Module):
    """A map, tokens with a class token, the map again with the channels last, and a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = self.block(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1))
        x = self.last(x[:, 1:].reshape(-1, 4, 4, WIDTH))
        vector = x.mean((1, 2))
        return self.head(vector + self.mixed(vector[:, :, None].expand(-1, -1, WIDTH) * 0.1).mean(1))


@pytest.fixture(scope="module")
def card() -> roster.ModelCard:
    torch.manual_seed(0)
    scaling = Preprocessing(crop=32, mean=(0, 0, 0), std=(1, 1, 1))
    return roster.of(Transformer().eval(), preprocessing=scaling, layers=["patches", "block", "last", "head"])


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def features(card: roster.ModelCard, layer: str, picture: np.ndarray, **settings: Any) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    model = FeatureModel(CNNFeaturizer(model=card, layers=[layer], **settings))
    return np.array(model.predict(pd.DataFrame({"image": [file.getvalue()]})).iloc[0, 0])


def outputs(card: roster.ModelCard, picture: np.ndarray) -> dict[str, torch.Tensor]:
    network, seen = card.builder(), {}
    for name in ("patches", "block", "last"):
        network.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: seen.update({name: output[0].detach()})
        )
    with torch.no_grad():
        network(torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255)
    return seen


def test_the_mean_is_over_the_places_of_every_layer(card: roster.ModelCard, picture: np.ndarray) -> None:
    seen = outputs(card, picture)
    means = {
        "patches": seen["patches"].mean((1, 2)),
        "block": seen["block"][1:].mean(0),
        "last": seen["last"].mean((0, 1)),
    }
    for name, mean in means.items():
        np.testing.assert_allclose(features(card, name, picture, pooling="mean"), mean, rtol=1e-4, atol=1e-5)


def test_the_grid_is_of_rows_and_columns_of_every_layer(card: roster.ModelCard, picture: np.ndarray) -> None:
    seen = outputs(card, picture)
    maps = {"block": seen["block"][1:].T.reshape(WIDTH, 4, 4), "last": seen["last"].permute(2, 0, 1)}
    for name, channels_first in maps.items():
        expected = nn.functional.adaptive_max_pool2d(channels_first, 2).flatten()
        np.testing.assert_allclose(features(card, name, picture), expected, rtol=1e-4, atol=1e-5)


def test_without_pooling_numbers_are_in_the_layers_order(card: roster.ModelCard, picture: np.ndarray) -> None:
    for name, tensor in outputs(card, picture).items():
        np.testing.assert_allclose(
            features(card, name, picture, pooling="none"), tensor.flatten(), rtol=1e-4, atol=1e-5
        )


def test_explain_tells_what_each_layer_is(card: roster.ModelCard) -> None:
    lines = CNNFeaturizer(model=card, layers=4, pooling="mean").explain().splitlines()
    assert lines == [
        "  patches: map of 4 x 4 places, channels first; mean: 8 numbers",
        "  block: 16 tokens (4 x 4) and 1 class or other token, which pooling leaves out; mean: 8 numbers",
        "  last: map of 4 x 4 places, channels last; mean: 8 numbers",
        "  head: vector of 3; as it is: 3 numbers",
    ]


def test_an_ambiguous_layer_is_refused_until_its_layout_is_stated(card: roster.ModelCard, picture: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r"layout of layer 'mixed' must be stated .*Pass layout=\{'mixed': "):
        features(card, "mixed", picture, pooling="mean")
    stated = CNNFeaturizer(model=card, layers=["mixed"], pooling="mean", layout={"mixed": "channels_last"})
    assert stated.explain() == "  mixed: 8 tokens (stated); mean: 8 numbers"
    first = features(card, "mixed", picture, pooling="mean", layout="channels_first")
    whole = features(card, "mixed", picture, pooling="none")
    np.testing.assert_allclose(first, whole.reshape(WIDTH, WIDTH).mean(1), rtol=1e-4, atol=1e-6)


def test_tokens_without_rows_and_columns_have_no_grid(card: roster.ModelCard, picture: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError, match=r'pooling of layer .* must be "mean" or "none".*17 tokens'):
        features(card, "block", picture, layout={"block": "tokens"})


def test_layouts_of_unknown_layers_and_of_texts_are_refused(card: roster.ModelCard) -> None:
    with pytest.raises(UnknownLayerError):
        CNNFeaturizer(model=card, layers=1, layout={"nope": "tokens"}).explain()
    with pytest.raises(TypeError, match='layout must be a text such as "channels_last"'):
        CNNFeaturizer(model=card, layout=3)


def test_a_transfer_explains_layouts(card: roster.ModelCard) -> None:
    transfer = FeatureTransfer(model=card, layers=["block", "head"], downstream=MLPClassifier(), pooling="mean")
    assert "  block: 16 tokens (4 x 4) and 1 class" in transfer.explain()


@pytest.mark.parametrize("layer", ["block", "last"])
def test_grad_cam_of_tokens_and_of_channels_last_is_that_of_the_map(card: roster.ModelCard, layer: str) -> None:
    pytest.importorskip("captum")
    network = card.builder()
    image = np.random.default_rng(1).normal(size=(3, 32, 32)).astype("float32")
    made = tensor_attributor(network, image, target=1, output="value").grad_cam(layer=layer)
    kept: dict[str, torch.Tensor] = {}
    network.get_submodule(layer).register_forward_hook(lambda module, inputs, output: kept.update(output=output))
    (score,) = network(torch.from_numpy(image)[None].requires_grad_())[:, 1]
    (gradient,) = torch.autograd.grad(score, kept["output"])
    output, slope = (
        tensor[0, 1:].reshape(4, 4, WIDTH) if layer == "block" else tensor[0] for tensor in (kept["output"], gradient)
    )
    cam = (output * slope.mean((0, 1))).sum(-1)[None, None]
    expected = nn.functional.interpolate(cam, (32, 32), mode="bilinear")[0, 0]
    np.testing.assert_allclose(made.values, expected.detach(), rtol=1e-4, atol=1e-6)


def test_grad_cam_takes_the_last_map_whatever_its_layout(card: roster.ModelCard) -> None:
    pytest.importorskip("captum")
    image = np.random.default_rng(1).normal(size=(3, 32, 32)).astype("float32")
    attributor = tensor_attributor(card.builder(), image, target=1, output="value")
    assert "'last'" in attributor.grad_cam().baseline
    with pytest.raises(InvalidArgumentError, match=r"layout must be stated for layer 'mixed'"):
        attributor.grad_cam(layer="mixed")
    with pytest.raises(InvalidArgumentError, match="layer must return maps of several rows or columns"):
        attributor.grad_cam(layer="mixed", layout="channels_last")


def test_layers_of_an_exported_program_have_layouts_and_no_grad_cam(card: roster.ModelCard) -> None:
    pytest.importorskip("captum")
    batch = ({0: torch.export.Dim("batch", max=64)},)
    program = torch.export.export(card.builder(), (torch.zeros(2, 3, 32, 32),), dynamic_shapes=batch)
    named = CNNFeaturizer(model=program, layers=["block", "last"], pooling="mean").explain()
    assert "block: 16 tokens (4 x 4) and 1 class" in named
    assert "last: map of 4 x 4 places, channels last" in named
    with pytest.raises(InvalidArgumentError, match="modules that run for Grad-CAM, got a program whose graph is flat"):
        image_attributor(np.zeros((3, 32, 32), np.float32), program, output="value").grad_cam()


class Encoder(nn.Module):
    """A network without a head, whose tokens have neither rows nor columns; and one whose output is ambiguous."""

    def __init__(self, *, mixes: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.queries, self.attention = (
            nn.Parameter(torch.randn(1, 5, WIDTH)),
            nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        )
        self.mix = nn.Linear(16, 16) if mixes else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2)
        if self.mix is not None:
            return self.mix(x)
        x = x.transpose(1, 2)
        return self.attention(self.queries.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]


@pytest.mark.parametrize("mixes", [False, True])
def test_a_transfer_of_tokens_alone_is_planned(*, mixes: bool) -> None:
    """The network is measured with the pooling that its topmost layer allows."""
    network = Encoder(mixes=mixes).eval()
    choice = plan_feature_transfer(
        network,
        ClusterSpec(nodes=1, cores=2, memory_bytes=16 << 30),
        rows=100,
        structured_features=2,
        image_bytes=1000,
        layers=1,
        pooling="mean",
        layout="channels_first" if mixes else None,
        image_size=32,
        batch_size=2,
    )
    assert choice.seconds > 0
