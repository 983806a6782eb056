"""What a patch holds, given as an array or as a function of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.attribution import blurred
from vista_spark import explain_image, explain_tensor
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANDOM = np.random.default_rng(0)
PICTURE, OTHER = (RANDOM.normal(size=(3, 64, 64)).astype(np.float32) for _ in range(2))
SETTINGS: dict[str, Any] = {"model": "squeezenet1_1", "image_size": 64, "patch_size": 16, "stride": 12, "target": 7}


@pytest.fixture(scope="module")
def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 12 * 12, 3)).eval()


@pytest.mark.parametrize("mode", ["exact", "naive"])
def test_a_patch_holds_what_another_image_has_there(network: nn.Module, mode: str) -> None:
    image, other = PICTURE[:, :12, :12].copy(), OTHER[:, :12, :12].copy()
    explanation = explain_tensor(network, image, patch=4, stride=3, perturbation=other, mode=mode, target=1)
    for place in np.ndindex(explanation.heat_map.shape):
        covered = image.copy()
        at = (slice(None), *(slice(s := int(explanation.grid.starts(axis)[place[axis]]), s + 4) for axis in (0, 1)))
        covered[at] = other[at]
        expected = network(torch.from_numpy(covered)[None]).softmax(dim=1)[0, 1].item()
        assert explanation.heat_map[place] == pytest.approx(expected, abs=1e-5)
    assert explanation.verified > 0 or mode == "naive"


def test_a_function_is_asked_once_and_cannot_change_the_image() -> None:
    asked = []

    def blur(pixels: NDArray[Any]) -> NDArray[Any]:
        asked.append(pixels.shape)
        made = blurred(pixels, (1, 2), (16, 16))
        pixels[:] = 0
        return made

    given = explain_image(PICTURE, perturbation=blur, **SETTINGS)
    assert asked == [(3, 64, 64)]
    np.testing.assert_allclose(
        given.heat_map, explain_image(PICTURE, perturbation="blur", **SETTINGS).heat_map, atol=1e-5
    )


def test_an_array_broadcasts_and_a_tensor_is_an_array() -> None:
    grey = explain_image(PICTURE, **SETTINGS).heat_map
    fill = (128 / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    array = fill.astype(np.float32)[:, None, None]
    for content in (array, torch.from_numpy(array)):
        np.testing.assert_allclose(explain_image(PICTURE, perturbation=content, **SETTINGS).heat_map, grey, atol=1e-5)


def test_the_approximate_mode_takes_an_array() -> None:
    heat_map = explain_image(
        PICTURE, perturbation=OTHER, mode="approximate", tau=1.0, target_speedup=1.0, **SETTINGS
    ).heat_map
    np.testing.assert_allclose(heat_map, explain_image(PICTURE, perturbation=OTHER, **SETTINGS).heat_map, atol=1e-5)


def test_a_keras_network_takes_an_array() -> None:
    keras = pytest.importorskip("keras")
    network = keras.Sequential(
        [keras.layers.Input((12, 12, 3)), keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    image, other = (array[:, :12, :12].transpose(1, 2, 0).copy() for array in (PICTURE, OTHER))
    explanation = explain_tensor(network, image, patch=6, stride=6, perturbation=other, output="logit", target=0)
    covered = image.copy()
    covered[6:, :6] = other[6:, :6]
    assert explanation.heat_map[1, 0] == pytest.approx(float(network(covered[None]).numpy()[0, 0]), abs=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((3, 32, 32)), r"perturbation must have the input.s shape .*got \(3, 32, 32\)"),
        (np.full((3, 64, 64), np.inf), "finite"),
        (lambda pixels: pixels[:, 1:], "shape"),
        (lambda pixels: None, "finite numbers"),
        (3, "perturbation must be one of .* got 3"),
        ("grey", "perturbation must be one of .* got 'grey'"),
    ],
)
def test_other_content_is_refused(content: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        explain_image(PICTURE, perturbation=content, **SETTINGS)


def test_a_value_is_of_one_colour() -> None:
    with pytest.raises(InvalidArgumentError, match="an array or function"):
        explain_tensor(nn.Identity(), PICTURE, patch=4, stride=4, perturbation=OTHER, value=1.0)
