"""Occlusion of what is no photograph: real accelerometer windows, an image beside a text, volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_inputs import require

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

from optimizer.occlusion import PatchError
from vista_spark import TensorExplanation, explain_tensor
from vista_spark.errors import InvalidArgumentError


def motions(part: str) -> tuple[np.ndarray, np.ndarray]:
    """BasicMotions: windows of 6 channels and 100 steps, and which of four activities they are."""
    text = (require("aeon", "aeon==1.6.0") / f"datasets/data/BasicMotions/BasicMotions_{part}.ts").read_text()
    lines = text[text.index("@data") :].splitlines()[1:]
    cases = [line.split(":") for line in lines if line]
    kinds = sorted({case[-1] for case in cases})
    windows = [[channel.split(",") for channel in case[:-1]] for case in cases]
    return np.array(windows, np.float32), np.array([kinds.index(case[-1]) for case in cases])


@pytest.fixture(scope="module")
def recognizer() -> nn.Module:
    """A CNN over time that tells the activities apart."""
    windows, kinds = motions("TRAIN")
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.BatchNorm1d(6), nn.Conv1d(6, 16, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 16, 5, padding=4, dilation=2), nn.BatchNorm1d(16), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(30):
        loss = functional.cross_entropy(network(torch.from_numpy(windows)), torch.from_numpy(kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


@pytest.mark.parametrize("perturbation", ["mean", "blur", "color"])
def test_a_time_series(recognizer: nn.Module, perturbation: str) -> None:
    windows, kinds = motions("TEST")
    with torch.inference_mode():
        scores = recognizer(torch.from_numpy(windows)).softmax(1).numpy()
    assert (scores.argmax(1) == kinds).mean() > 0.9
    case = int(np.argmax(windows.std(axis=(1, 2))))  # a person moves
    common: dict[str, Any] = {
        "patch": 12,
        "stride": 4,
        "perturbation": perturbation,
        "value": range(6) if perturbation == "color" else None,
    }
    exact = explain_tensor(recognizer, windows[case], **common)
    naive = explain_tensor(recognizer, windows[case], mode="naive", **common)
    assert exact.heat_map.shape == (23,)
    np.testing.assert_allclose(exact.heat_map, naive.heat_map, atol=1e-5)
    assert np.ptp(exact.heat_map) > 1e-3
    assert exact.probability == pytest.approx(float(scores[case].max()), abs=1e-5)
    assert exact.predicted == scores[case].argmax()
    assert exact.theoretical_speedup > 1.5
    by_hand = windows[case].copy()
    filled = {"mean": by_hand.mean(axis=1), "color": np.arange(6)}
    if perturbation in filled:
        by_hand[:, 40:52] = filled[perturbation][:, None]
        with torch.inference_mode():
            expected = recognizer(torch.from_numpy(by_hand)[None]).softmax(1)[0, exact.target]
        assert exact.heat_map[10] == pytest.approx(float(expected), abs=1e-5)


class Matched(nn.Module):
    """Whether a text fits an image: it gates the image's channels, is added to its map, and meets it at the top."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.third = nn.Conv2d(8, 8, 3, padding=1)
        self.shown = nn.Linear(8, 36)
        self.fits = nn.Linear(16, 2)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        said = self.words(text).mean(1)
        seen = functional.relu(self.first(image)) * said[:, :, None, None].sigmoid()
        seen = functional.relu(self.second(seen)) + self.shown(said).view(-1, 1, 6, 6)
        seen = functional.relu(self.third(seen))
        return self.fits(torch.cat([seen.mean((2, 3)), said], 1))


@pytest.mark.parametrize("mode", ["exact", "naive"])
def test_an_image_beside_a_text(mode: str) -> None:
    torch.manual_seed(1)
    network = Matched().eval()
    draw = np.random.default_rng(0)
    image, text = draw.normal(size=(3, 12, 12)).astype(np.float32), draw.integers(0, 20, 5)
    found = explain_tensor(network, [image, text], patch=4, stride=2, value=2.0, perturbation="color", mode=mode)
    assert found.heat_map.shape == (5, 5)
    for row, column in np.ndindex(5, 5):
        laid = image.copy()
        laid[:, 2 * row : 2 * row + 4, 2 * column : 2 * column + 4] = 2
        with torch.inference_mode():
            expected = network(torch.from_numpy(laid)[None], torch.from_numpy(text)[None]).softmax(1)[0, found.target]
        assert found.heat_map[row, column] == pytest.approx(float(expected), abs=1e-5)
    other = explain_tensor(
        network, [image, (text + 7) % 20], patch=4, stride=2, value=2.0, perturbation="color", mode=mode
    )
    assert not np.allclose(other.heat_map, found.heat_map, atol=1e-4), "the text counts"
    assert found.plot().axes


def test_a_volume_and_its_axes() -> None:
    torch.manual_seed(2)
    network = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, 3), nn.Flatten(), nn.LazyLinear(3)
    )
    volume = np.random.default_rng(0).normal(size=(1, 8, 10, 12)).astype(np.float32)
    network(torch.from_numpy(volume)[None])
    common: dict[str, Any] = {"patch": (2, 3, 4), "stride": (2, 3, 4), "region": [(0, 8), (1, 10), (0, 12)]}
    exact, naive = (explain_tensor(network.eval(), volume, mode=mode, **common) for mode in ("exact", "naive"))
    assert exact.heat_map.shape == (4, 3, 3)
    assert np.ptp(exact.heat_map) > 1e-3
    np.testing.assert_allclose(exact.heat_map, naive.heat_map, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="heat_map must have 1 or 2 axes to be drawn, got 3"):
        exact.plot()


def test_an_approximate_heat_map_and_its_picture(recognizer: nn.Module) -> None:
    window = motions("TEST")[0][3]
    seen: list[np.ndarray] = []
    exact, rough = (
        explain_tensor(recognizer, window, patch=8, stride=4, batch_size=4, mode=mode, tau=tau, on_update=seen.append)
        for mode, tau in (("exact", None), ("approximate", 0.3))
    )
    lean = explain_tensor(recognizer, window, patch=8, stride=4, mode="approximate", tau=1, precision="bfloat16")
    assert 0 < np.abs(lean.heat_map - exact.heat_map).max() < 0.1 * np.ptp(exact.heat_map)
    assert isinstance(rough, TensorExplanation)
    assert rough.theoretical_speedup > exact.theoretical_speedup
    assert np.isnan(seen[0]).any()
    assert len(rough.plot().axes) == 2
    assert "of 24 places" in rough.explain()


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"of": 1}, InvalidArgumentError, "of must be an index of the 1 inputs"),
        ({"patch": 101, "stride": 1}, PatchError, "patch on axis 0 must fit into 100, got 101"),
        ({"stride": 20}, InvalidArgumentError, "stride must be at most the patch of 10, got 20"),
        ({"patch": (10, 10)}, InvalidArgumentError, r"the tensor's 1 axes beside its channels, got \(10, 10\)"),
        ({"mode": "exat"}, InvalidArgumentError, "mode must be one of .* got 'exat'; did you mean 'exact'"),
        ({"perturbation": "men"}, InvalidArgumentError, "perturbation must be .* got 'men'; did you mean 'mean'"),
        ({"value": 1.0}, InvalidArgumentError, 'value must be left out unless perturbation="color"'),
        (
            {"perturbation": "color", "value": [1.0, 2.0]},
            InvalidArgumentError,
            "value must be a number, or one for each of 6 channels",
        ),
        ({"target": 4}, InvalidArgumentError, "target must be from 0 to 3, got 4"),
        ({"mode": "approximate", "tau": 0.0}, PatchError, "tau must be above 0"),
        (
            {"inputs": np.zeros(100, np.float32)},
            InvalidArgumentError,
            r"must be floats .* got float32 of shape \(100,\)",
        ),
        ({"inputs": np.zeros((6, 100), np.int64)}, InvalidArgumentError, "input 0 must be floats .* got int64"),
    ],
)
def test_what_cannot_be_is_said(
    recognizer: nn.Module, settings: dict[str, Any], error: type[Exception], said: str
) -> None:
    usual: dict[str, Any] = {"inputs": np.zeros((6, 100), np.float32), "patch": 10, "stride": 5}
    with pytest.raises(error, match=said):
        explain_tensor(recognizer, **usual | settings)


def test_what_ran_as_a_whole_does_not_claim_parts() -> None:
    normed = nn.Sequential(nn.GroupNorm(1, 3), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 2))
    picture = np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32)
    explanation = explain_tensor(normed.eval(), picture, patch=4, stride=4)
    assert explanation.theoretical_speedup < 1.05
    assert "in parts up to" not in explanation.explain()
    assert "computed in full: parts of the network would cost about as much" in explanation.explain()
    assert "they end at '0' (GroupNorm)" in explanation.explain()


@pytest.mark.parametrize("mode", ["exact", "naive", "approximate"])
@pytest.mark.parametrize("precision", ["half", "double"])
def test_a_network_of_another_precision_is_explained_in_it(precision: str, mode: str) -> None:
    torch.manual_seed(0)
    network = getattr(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 3)).eval(),
        precision,
    )()
    picture = np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32)
    explanation = explain_tensor(network, picture, patch=4, stride=4, mode=mode, perturbation="color", value=1.0)
    kind = torch.float16 if precision == "half" else torch.float64
    for row, column in ((0, 0), (2, 3)):
        laid = torch.from_numpy(picture.copy())[None]
        laid[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1
        with torch.inference_mode():
            expected = network(laid.to(kind)).double().softmax(1)[0, explanation.target]
        # Half precision rounds the outputs themselves to a thousandth.
        tolerance = 2e-3 if precision == "half" else 1e-5
        assert explanation.heat_map[row, column] == pytest.approx(float(expected), abs=tolerance)
    if mode != "approximate":
        assert explanation.verified == 1


def test_an_approximate_heat_map_says_its_likeness_for_any_number_of_axes() -> None:
    for rank, (conv, size, stride) in enumerate(
        [(nn.Conv1d, (160,), 1), (nn.Conv2d, (40, 40), 2), (nn.Conv3d, (14, 14, 14), 2)], start=1
    ):
        torch.manual_seed(0)
        network = nn.Sequential(conv(2, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
        tensor = np.random.default_rng(0).normal(size=(2, *size)).astype(np.float32)
        network(torch.from_numpy(tensor)[None])
        common: dict[str, Any] = {"patch": 4 if rank == 3 else 8, "stride": stride, "mode": "approximate"}
        for extra in ({"tau": 0.5}, {"target_ssim": 0.6}):
            rough = explain_tensor(network.eval(), tensor, **common, **extra)
            assert rough.likeness is not None
            assert "likeness" in rough.explain()
            assert rough.computed == rough.grid.count or "target_ssim" in extra


def test_rounding_to_bfloat16_does_not_hide_what_is_filled_in() -> None:
    """The places that a likeness is reached with are those of the sample: they differ by rounding alone."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 484, 3)
    ).eval()
    picture = np.random.default_rng(0).normal(size=(3, 44, 44)).astype(np.float32)
    common: dict[str, Any] = {"patch": 8, "stride": 2, "mode": "approximate", "target_ssim": 0.7}
    plain = explain_tensor(network, picture, **common)
    lean = explain_tensor(network, picture, precision="bfloat16", **common)
    assert plain.computed < plain.grid.count
    assert plain.likeness < 0.97
    assert lean.likeness == pytest.approx(plain.likeness, abs=0.03)
