"""MobileNetV2 and SqueezeNet on their real ImageNet weights and twenty real photographs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from real_inputs import foolbox_images, mobilenet_v2_weights, squeezenet_state_dict, squeezenet_weights

torch = pytest.importorskip("torch")

from udfs.images import (
    Preprocessing,
    decode,
)
from udfs.weights import WeightsError
from vista_spark import roster

if TYPE_CHECKING:
    from torch import nn


def photographs(preprocessing: Preprocessing) -> torch.Tensor:
    return torch.from_numpy(np.stack([decode(path.read_bytes(), preprocessing) for path, _ in foolbox_images()]))


def top1(network: nn.Module, batch: torch.Tensor) -> int:
    labels = torch.tensor([label for _, label in foolbox_images()])
    with torch.no_grad():
        return int((network(batch).argmax(1) == labels).sum())


def test_mobilenet_v2_knows_the_photographs() -> None:
    network = roster.load("mobilenet_v2", mobilenet_v2_weights())
    batch = photographs(roster.card("mobilenet_v2").preprocessing)
    assert top1(network, batch) >= 17
    assert top1(network, batch.flip(1)) < top1(network, batch), "the order of the channels matters"
    assert top1(roster.load("mobilenet_v2"), batch) <= 2, "random weights know nothing"


def test_squeezenet_knows_the_photographs() -> None:
    network = roster.load("squeezenet1_1", squeezenet_state_dict())
    batch = photographs(roster.card("squeezenet1_1").preprocessing)
    assert top1(network, batch) >= 13


def test_squeezenets_own_preprocessing_folds_into_its_first_convolution() -> None:
    caffe = Preprocessing(crop=224, resize=256, mean=(104, 117, 124), std=(1, 1, 1), scale=1, channels="BGR")
    unfolded = roster.load("squeezenet1_1", squeezenet_state_dict(fold=False))
    folded = roster.load("squeezenet1_1", squeezenet_state_dict())
    with torch.no_grad():
        expected = unfolded(photographs(caffe))
        found = folded(photographs(roster.card("squeezenet1_1").preprocessing))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_squeezenets_pickle_is_refused() -> None:
    with pytest.raises(WeightsError, match=r"squeezenet_weights\.pkl is a pickle.*safetensors"):
        roster.load("squeezenet1_1", squeezenet_weights())
