"""What a notebook shows of explanations: the picture and the words, in one piece of HTML."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from vista_spark import explain_tensor, tensor_attributor

PNG = re.compile(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]+)"/>')


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 14 * 14, 3)).eval()


def test_an_explanation_and_an_attribution_show_picture_and_words() -> None:
    tensor = np.random.default_rng(0).normal(size=(1, 16, 16)).astype(np.float32)
    explanation = explain_tensor(network(), tensor, patch=4, stride=4)
    attribution = tensor_attributor(network(), tensor).integrated_gradients()
    for shown in (explanation, attribution):
        html = shown._repr_html_()
        found = PNG.search(html)
        assert found is not None
        assert base64.b64decode(found[2]).startswith(b"\x89PNG")
        first = shown.explain().splitlines()[0]
        assert first in found[1], "who cannot see it reads it"
        assert html.count(first) == 2
