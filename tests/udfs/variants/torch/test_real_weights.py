"""Variants of networks with their ImageNet weights on real photographs."""

from __future__ import annotations

import numpy as np
import pytest
from real_inputs import foolbox_images, mobilenet_v2_weights, squeezenet_state_dict

torch = pytest.importorskip("torch")

from udfs.images import decode
from udfs.roster import card, load
from udfs.variants.torch import factorize, store


def photographs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    preprocessing = card("mobilenet_v2").preprocessing
    images = [(decode(path.read_bytes(), preprocessing), label) for path, label in foolbox_images()[:count]]
    return torch.from_numpy(np.stack([image for image, _ in images])), torch.tensor([label for _, label in images])


def distance(output: torch.Tensor, expected: torch.Tensor) -> float:
    return float((output - expected).norm() / expected.norm())


def test_stored_weights_know_the_photographs() -> None:
    base = load("mobilenet_v2", mobilenet_v2_weights())
    x, labels = photographs(10)
    with torch.no_grad():
        expected = base(x)
        right = int((expected.argmax(1) == labels).sum())
        for bits, loss, error in ((16, 0, 0.01), (8, 1, 0.2)):
            output = store(base, bits)[0](x)
            assert int((output.argmax(1) == labels).sum()) >= right - loss
            assert distance(output, expected) < error


def test_factors_for_outputs_are_closer_than_those_for_weights() -> None:
    base = load("squeezenet1_1", squeezenet_state_dict())
    x, _ = photographs(6)
    with torch.no_grad():
        expected = base(x)
        for_outputs, for_weights = (distance(factorize(base, 0.75, example)[0](x), expected) for example in (x, None))
    assert for_outputs < 0.5 * for_weights
