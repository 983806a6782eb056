"""Variants of MobileNetV2 with its ImageNet weights on ten real photographs."""

from __future__ import annotations

import numpy as np
import pytest
from real_inputs import foolbox_images, mobilenet_v2_weights

torch = pytest.importorskip("torch")

from udfs.images import decode
from udfs.roster import card, load
from udfs.variants.torch import factorize, store


def test_variants_of_real_weights_know_the_photographs() -> None:
    weights, preprocessing = mobilenet_v2_weights(), card("mobilenet_v2").preprocessing
    images = [(decode(path.read_bytes(), preprocessing), label) for path, label in foolbox_images()[:10]]
    x = torch.from_numpy(np.stack([image for image, _ in images]))
    labels = torch.tensor([label for _, label in images])
    base = load("mobilenet_v2", weights)
    halves, _ = store(base, 16)
    bytes_, _ = store(base, 8)
    with torch.no_grad():
        expected = base(x)
        right = int((expected.argmax(1) == labels).sum())
        for made, loss in ((halves, 0), (bytes_, 1)):
            assert int((made(x).argmax(1) == labels).sum()) >= right - loss
        assert float((halves(x) - expected).norm() / expected.norm()) < 0.01
        # Without training, either is far off; outputs count more than weights.
        errors = [
            float((factorize(base, 0.75, example)[0](x) - expected).norm() / expected.norm())
            for example in (x[:8], None)
        ]
    assert errors[0] < 0.8 * errors[1]
