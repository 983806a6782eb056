from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.images import ImageError
from vista_spark import (
    Attribution,
    Attributor,
    attribution_of,
    explain_image,
    explain_tensor,
    image_attributor,
    tensor_attributor,
)
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RANDOM = np.random.default_rng(0)
PICTURE = RANDOM.normal(size=(3, 64, 64)).astype(np.float32)
TABLE = RANDOM.normal(size=(50, 4)).astype(np.float32)
GRID = np.arange(16).reshape(4, 4).repeat(16, 0).repeat(16, 1)


class Linear(nn.Module):
    """Two linear heads over everything, returned under names."""

    def __init__(self, size: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)
            self.first, self.second = nn.Linear(size, 1), nn.Linear(size, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"first": self.first(x.flatten(1)), "second": self.second(x.flatten(1))}


def weights_of(network: Linear, target: int) -> NDArray[Any]:
    return network.second.weight.detach().numpy()[target]


@pytest.fixture(scope="module")
def photograph() -> Attributor:
    return image_attributor(PICTURE, "squeezenet1_1", image_size=64)


@pytest.fixture(scope="module")
def convolution() -> Attributor:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(2)
        network = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        ).eval()
    return tensor_attributor(network, PICTURE[:2, :16, :16], output="logit", target=1)


METHODS: dict[str, Callable[[Attributor], Attribution]] = {
    "ablation": lambda attributor: attributor.ablation(baseline=0.0),
    "LIME": lambda attributor: attributor.lime(baseline=0.0, samples=40, ridge=0.0),
    "Shapley values": lambda attributor: attributor.shapley(baseline=0.0),
    "integrated gradients": lambda attributor: attributor.integrated_gradients(baseline=0.0, steps=4),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_recovers_a_linear_score(method: str) -> None:
    if method == "integrated gradients":
        pytest.importorskip("captum")
    network = Linear(4).eval()
    attributor = tensor_attributor(network, TABLE[0], head="second", target=2, output="logit")
    attribution = METHODS[method](attributor)
    assert attribution.method == method
    np.testing.assert_allclose(attribution.values, weights_of(network, 2) * TABLE[0], atol=1e-5)
    assert attribution.whole == pytest.approx(
        float(network(torch.from_numpy(TABLE[:1]))["second"][0, 2].detach()), abs=1e-5
    )
    np.testing.assert_allclose(attributor.deletion(attribution, baseline=0.0).scores[0], attribution.whole, atol=1e-6)


def test_a_column_is_replaced_by_draws_of_the_table() -> None:
    network = Linear(4).eval()
    attributor = tensor_attributor(network, TABLE[0], head="second", target=0, output="logit")
    expected = weights_of(network, 0) * (TABLE[0] - TABLE.mean(axis=0))
    by_draws, by_mean = attributor.ablation(baseline=TABLE), attributor.ablation(baseline=TABLE.mean(axis=0))
    np.testing.assert_allclose(by_draws.values, expected, atol=1e-5)
    np.testing.assert_allclose(by_mean.values, expected, atol=1e-5)
    assert by_draws.evaluations == 1 + 4 * 50
    with pytest.raises(InvalidArgumentError, match="must be an array for a row of columns"):
        attributor.ablation()


def test_rise_sees_where_a_score_looks() -> None:
    class Corner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :, :8, :8].mean(dim=(1, 2, 3))[:, None]

    attributor = tensor_attributor(Corner().eval(), np.ones((2, 16, 16), np.float32))
    attribution = attributor.rise(masks=600, cells=4, baseline=0.0)
    assert attribution.values.shape == (16, 16)
    assert attribution.values[:7, :7].min() > 0.05 > 4 * np.abs(attribution.values[10:, 10:]).mean()
    assert attribution.measures["agreement"] > 0.9


def test_captums_results_are_its_own(convolution: Attributor) -> None:
    attr = pytest.importorskip("captum.attr")
    network, tensor = convolution.network, torch.from_numpy(PICTURE[None, :2, :16, :16].copy())
    plain = nn.Sequential(network[0], nn.ReLU(), *network[2:])  # captum's hooks refuse a ReLU in place
    made = convolution.integrated_gradients(baseline="blur", steps=8)
    blurred = torch.from_numpy(_blurred(PICTURE[:2, :16, :16], 2))[None]
    expected = attr.IntegratedGradients(plain).attribute(tensor, blurred, target=1, n_steps=8)
    np.testing.assert_allclose(made.values, expected[0].sum(dim=0).detach(), atol=1e-5)
    assert made.measures["gap"] == pytest.approx(
        made.values.sum() - (made.whole - plain(blurred)[0, 1].item()), abs=1e-4
    )
    cam = convolution.grad_cam()
    maps = attr.LayerGradCam(plain, plain[1]).attribute(tensor, target=1)
    np.testing.assert_allclose(cam.values, maps[0, 0].detach(), atol=1e-6)
    assert "'1'" in cam.baseline
    assert (cam.values < 0).any() or (maps >= 0).all()
    assert network[1].inplace  # the user's module is as it was


def _blurred(image: NDArray[Any], around: int) -> NDArray[Any]:
    """The window is a quarter of 16, of which 3 count: one on each side."""
    del around
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    ones = np.pad(np.ones(image.shape), ((0, 0), (1, 1), (1, 1)))
    sums, counts = (
        sum(array[:, r : r + 16, c : c + 16] for r in range(3) for c in range(3)) for array in (padded, ones)
    )
    return (sums / counts).astype(np.float32)


@pytest.mark.parametrize("output", ["probability", "log_odds", "logit", "value"])
def test_gradients_are_of_the_same_score(output: str) -> None:
    pytest.importorskip("captum")
    network = Linear(4).eval()
    attributor = tensor_attributor(network, TABLE[0], head="second", output=output, target=1)
    made = attributor.integrated_gradients(baseline=0.0, steps=200)
    at_zero = tensor_attributor(network, np.zeros(4, np.float32), head="second", output=output, target=1).whole
    np.testing.assert_allclose(made.values.sum(), attributor.whole - at_zero, atol=2e-3)
    assert abs(made.measures["gap"]) < 2e-3


def test_gradients_of_an_output_by_its_index() -> None:
    pytest.importorskip("captum")
    by_name, by_index = (
        tensor_attributor(Linear(4).eval(), TABLE[0], head=head, target=2, output="logit") for head in ("second", 1)
    )
    made = by_index.integrated_gradients(baseline=0.0, steps=4)
    np.testing.assert_array_equal(made.values, by_name.integrated_gradients(baseline=0.0, steps=4).values)


@pytest.mark.parametrize("precision", ["half", "double"])
def test_networks_of_other_precisions_have_the_same_gradients(precision: str) -> None:
    pytest.importorskip("captum")
    plain, other = Linear(4).eval(), getattr(Linear(4).eval(), precision)()
    made, expected = (
        tensor_attributor(network, TABLE[0], head="second", target=2, output="logit").integrated_gradients(
            baseline=0.0, steps=4
        )
        for network in (other, plain)
    )
    np.testing.assert_allclose(made.values, expected.values, atol=2e-3)


def test_an_operation_in_place_that_no_gradient_goes_through_is_named() -> None:
    pytest.importorskip("captum")

    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = self.below(x).relu()
            seen += 1
            return self.above(seen.mean((2, 3)))

    attributor = tensor_attributor(InPlace().eval(), PICTURE[:2, :16, :16])
    for method in (attributor.integrated_gradients, attributor.grad_cam):
        with pytest.raises(
            InvalidArgumentError, match=r"the network must be differentiable, .*in-place operations, such as x \+= 1"
        ):
            method()


def test_gradients_of_a_function_are_refused(convolution: Attributor) -> None:
    attributor = tensor_attributor(
        convolution.network, PICTURE[:2, :16, :16], output=lambda outputs: outputs[:, 0] - outputs[:, 1]
    )
    with pytest.raises(InvalidArgumentError, match=r"output must be .* for gradients"):
        attributor.integrated_gradients()


def test_without_captum_the_message_says_how_to_install_it(
    convolution: Attributor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "captum", None)
    for method in (convolution.integrated_gradients, convolution.grad_cam):
        with pytest.raises(ImportError, match=r'pip install "cerebro-spark\[explain\]"'):
            method()


def test_a_layer_without_maps_is_refused(convolution: Attributor) -> None:
    pytest.importorskip("captum")
    with pytest.raises(InvalidArgumentError, match="got 'nope'"):
        convolution.grad_cam(layer="nope")
    with pytest.raises(InvalidArgumentError, match="layer must return maps"):
        convolution.grad_cam(layer="4")


def test_an_image_has_values_in_its_own_size(photograph: Attributor) -> None:
    attribution = photograph.ablation(groups=GRID)
    assert attribution.values.shape == (64, 64)
    covered = PICTURE.copy()
    covered[:, 16:32, 48:] = np.array(photograph.source.fill)[:, None, None]
    without = image_attributor(covered, "squeezenet1_1", image_size=64, target=photograph.target).whole
    assert attribution.values[20, 60] == pytest.approx(photograph.whole - without, abs=1e-6)
    assert attribution.picture is not None
    assert attribution.explain().startswith("RANDOM WEIGHTS: these values say nothing about the input\n")
    assert "RANDOM WEIGHTS" in attribution.plot()._suptitle.get_text()
    assert "probability" in attribution.explain()
    assert "baseline: the colour 128, 128, 128 (red, green, blue); 17 inputs in" in attribution.explain()
    assert "baseline: the blurred input" in photograph.ablation(groups=GRID, baseline="blur").explain()
    assert "baseline: 0.0 everywhere" in photograph.ablation(groups=GRID, baseline=0.0).explain()
    linear = photograph.lime(groups=GRID, samples=40).explain()
    assert "R2 of the linear model on the samples that it was fitted to: " in linear
    assert "R2 on samples left out one by one" in linear
    assert attribution.plot().axes


def test_curves_compare_attributions_of_one_score(photograph: Attributor) -> None:
    attribution = photograph.ablation(groups=GRID)
    fall, rise = photograph.deletion(attribution, steps=16), photograph.insertion(attribution, steps=16)
    np.testing.assert_allclose([fall.scores[0], rise.scores[-1]], photograph.whole, atol=1e-6)
    reversed_fall = photograph.deletion(Attribution(**{**vars(attribution), "values": -attribution.values}), steps=16)
    assert fall.area < reversed_fall.area
    other = image_attributor(PICTURE, "squeezenet1_1", image_size=64, target=(photograph.target + 1) % 1000)
    with pytest.raises(InvalidArgumentError, match="attribution must be of target"):
        other.deletion(attribution)


def test_occlusion_becomes_an_attribution_in_the_images_size() -> None:
    explanation = explain_image(PICTURE, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    attribution = attribution_of(explanation)
    assert attribution.method == "occlusion"
    expected = (explanation.probability - explanation.heat_map).repeat(16, 0).repeat(16, 1)
    np.testing.assert_allclose(attribution.values, expected, atol=1e-7)
    blocks = image_attributor(PICTURE, "squeezenet1_1", image_size=64).ablation(groups=GRID)
    np.testing.assert_allclose(attribution.values, blocks.values, atol=1e-5)
    assert blocks.target == attribution.target
    assert blocks.score == attribution.score


def test_occlusion_of_a_series_is_nan_outside_of_its_region() -> None:
    network = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(80, 3)).eval()
    explanation = explain_tensor(network, PICTURE[:2, 0, :20], patch=4, stride=2, region=[(4, 16)])
    values = attribution_of(explanation).values
    assert np.isnan(values[:4]).all()
    assert np.isfinite(values[4:16]).all()
    assert np.isnan(values[16:]).all()


def test_captums_occlusion_of_a_network_is_the_same() -> None:
    attr = pytest.importorskip("captum.attr")
    network = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 12 * 12, 3), nn.Softmax(dim=1)
    ).eval()
    image = PICTURE[:2, :12, :12].copy()
    explanation = explain_tensor(network, image, patch=4, stride=2, perturbation="color", value=0.0)
    expected = attr.Occlusion(network).attribute(
        torch.from_numpy(image)[None], (2, 4, 4), strides=(2, 2, 2), target=explanation.target
    )
    np.testing.assert_allclose(attribution_of(explanation).values, expected[0, 0].detach(), atol=1e-6)


def test_a_keras_network_has_all_but_gradients() -> None:
    keras = pytest.importorskip("keras")
    network = keras.Sequential(
        [
            keras.layers.Input((16, 16, 2)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    image = PICTURE[:2, :16, :16].transpose(1, 2, 0).copy()
    attributor = tensor_attributor(network, image)
    whole = network(image[None]).numpy()[0]
    assert attributor.whole == pytest.approx(float(whole.max()), abs=1e-5)
    halves = np.array([[0, 1]]).repeat(16, 0).repeat(8, 1)
    covered = image.copy()
    covered[:, :8] = image.mean(axis=(0, 1))
    expected = whole.max() - network(covered[None]).numpy()[0, attributor.target]
    attribution = attributor.ablation(groups=halves)
    np.testing.assert_allclose(attribution.values[:, :8], expected, atol=1e-5)
    assert attributor.rise(masks=20, cells=4).values.shape == (16, 16)
    assert attributor.ablation().values.shape == (16, 16, 2)  # by channel, which comes last
    assert attributor.deletion(attribution, steps=4).scores[0] == pytest.approx(attributor.whole, abs=1e-6)
    with pytest.raises(InvalidArgumentError, match="PyTorch"):
        attributor.integrated_gradients()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.ablation(groups="segment"), "segments"),
        (lambda a: a.ablation(groups="segments"), "which this input has not"),
        (lambda a: a.ablation(groups=np.zeros((3, 3), int)), "one number per element"),
        (lambda a: a.ablation(groups=np.zeros((16, 16))), "float64"),
        (lambda a: a.ablation(baseline="color"), "which only images have"),
        (lambda a: a.ablation(baseline=np.zeros((2, 9, 9))), "must have the input's shape"),
        (lambda a: a.ablation(baseline=np.zeros((5, 2, 9, 9))), "must have the input's shape"),
        (lambda a: a.lime(samples=1), "samples must be at least"),
        (lambda a: a.rise(masks=5), "even"),
        (lambda a: a.deletion(a.ablation(), steps=0), "steps must be a positive integer, got 0"),
        (lambda a: a.deletion(3), "attribution must be an Attribution, .* got 3"),
        (lambda a: a.ablation(target=3), r"ablation\(\) has no parameter 'target'"),
        (lambda a: a.lime(sample=3), r"lime\(\) has no parameter 'sample'; did you mean 'samples'"),
    ],
)
def test_bad_arguments_are_refused(convolution: Attributor, call: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call(convolution)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": 1}, "of must be an index"),
        ({"channels": 3}, "channels must be .* got 3"),
        ({"channels": "last"}, "channels must be .* got 'last'"),
        ({"target": 3}, "from 0 to 2, got 3"),
        ({"target": True}, "from 0 to 2, got True"),
        ({"network": "squeezenet"}, "a model of a framework that this process has imported, got a str"),
        ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
        ({"inputs": [[0.0, 1.0], [2.0, 3.0]]}, "inputs must be an array or a list of arrays, got a list"),
    ],
)
def test_bad_tensors_are_refused(arguments: dict[str, Any], message: str) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(2 * 9, 3)).eval()
    with pytest.raises(InvalidArgumentError, match=message):
        tensor_attributor(**{"network": network, "inputs": PICTURE[0, :2, :9], **arguments})


def test_an_axis_of_records_is_named(convolution: Attributor) -> None:
    with pytest.raises(InvalidArgumentError, match=r"got shape \(1, 2, 16, 16\), .* pass inputs\[0\]"):
        tensor_attributor(convolution.network, PICTURE[None, :2, :16, :16])
    taken = tensor_attributor(convolution.network, torch.from_numpy(PICTURE[:2, :16, :16]), output="logit", target=1)
    assert taken.whole == pytest.approx(convolution.whole)


def test_bad_images_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"got an array of shape \(1, 3, 64, 64\), .* pass image\[0\]"):
        image_attributor(PICTURE[None], "squeezenet1_1", image_size=64)
    with pytest.raises(ImageError):
        image_attributor(b"no image", "squeezenet1_1")
    with pytest.raises(InvalidArgumentError, match="text"):
        image_attributor(PICTURE, "minilm_l6")
    with pytest.raises(InvalidArgumentError, match="patch_color"):
        image_attributor(PICTURE, "squeezenet1_1", image_size=64, patch_color=(1, 2, 300))


def test_a_picture_is_drawn_as_bars_a_map_or_not_at_all(convolution: Attributor) -> None:
    groups = np.arange(4).reshape(2, 2).repeat(8, 0).repeat(8, 1)
    flat = convolution.ablation(groups=groups)
    assert len(flat.plot().axes) == 2  # the map and its colour bar
    (image,) = flat.plot().axes[0].images
    assert image.norm.vmin == -image.norm.vmax == -np.abs(flat.values).max()
    with pytest.raises(InvalidArgumentError, match="got 3 axes"):
        convolution.ablation().plot()
