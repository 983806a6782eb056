"""The figures of the Krypton chapter, on a network of a few layers: what they compute, not what they time."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest
from cards import registered

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
nn = torch.nn


from benchmarks.occlusion import __main__ as occlusion
from benchmarks.occlusion._bench import take_turns
from benchmarks.occlusion._norms import NETWORKS
from udfs.images import Preprocessing
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SIZE = 48


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 16, 5, padding=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.features(x).mean((2, 3)))
        return scores


def _build() -> nn.Module:
    torch.manual_seed(0)
    network = _Small().eval().requires_grad_(False)
    network.head.weight.mul_(40)  # heat maps that are not flat
    return network


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The option that names the network's weights: as if they were real ones."""
    card = roster.ModelCard(
        name="small",
        builder=_build,
        preprocessing=Preprocessing(crop=_SIZE, resize=_SIZE),
        layers=(roster.FeatureLayer("head", "head"),),
        parameters=sum(parameter.numel() for parameter in _build().parameters()),
        reference="none",
    )
    path = tmp_path_factory.mktemp("weights") / "small.pth"
    torch.save(_build().state_dict(), path)
    with registered(card):
        yield f"small={path}"


def ratios(figure: str, weights: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, float]:
    sizes = ["--models", "small", "--patch", "8", "--stride", "8", "--sample", "4", "--images", "2", "--threads", "1"]
    occlusion.main(["--figure", figure, *sizes, "--weights", weights, "--json", *options])
    found: dict[str, float] = json.loads(capsys.readouterr().out.splitlines()[-1])["ratios"]
    return found


def test_thresholding(small: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """At tau 1 nothing is left out; the lower tau, the more is, and the less there is to compute."""
    picture = tmp_path / "figure.png"
    found = ratios("6.7", small, capsys, "--picture", str(picture))
    taus = ("1.0", "0.9", "0.8", "0.7", "0.6", "0.5", "0.4")
    lost = [found[f"lost_at_tau.small.{tau}"] for tau in taus]
    speedups = [found[f"theory_at_tau.small.{tau}"] for tau in taus]
    assert lost[0] < 1e-9
    assert 0.01 < lost[-1] < 1
    assert all(first <= second for first, second in itertools.pairwise(speedups))
    assert speedups[-1] > 1.2 * speedups[0]
    assert picture.stat().st_size > 1000


def test_tuning(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tau is chosen on the sample, and tried on as many photographs that were held out."""
    found = ratios("6.9", small, capsys)
    assert 0.4 <= found["chosen_tau.small"] <= 1
    assert {"reached_sample.small", "reached_held_out.small", "worst_held_out.small"} <= set(found)
    assert "--weights" in _said("6.9", "random", capsys)


def _said(figure: str, weights: str, capsys: pytest.CaptureFixture[str]) -> str:
    occlusion.main(["--figure", figure, "--models", "small", "--weights", weights, "--threads", "1"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("figure", "keys"),
    [
        ("6.11", {f"exact_over_theory.small.{patch}" for patch in (4, 8, 16, 32)}),
        ("6.12", {f"tau_over_theory.small.{tau}" for tau in ("1", "0.7", "0.4")}),
        ("6.13", {"drill_speedup.small.r0.1", "drill_speedup.small.S124"}),
        ("b.1", {"places_speedup.small.1", "places_speedup.small.36"}),
    ],
)
def test_timings(figure: str, keys: set[str], small: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = ratios(figure, small, capsys)
    assert keys <= set(found)
    assert all(ratio > 0 for ratio in found.values())


def test_gradients(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Integrated gradients and occlusion are judged by the same curves."""
    pytest.importorskip("captum", reason='pip install "captum>=0.8,<1"')
    found = ratios("b.8", small, capsys)
    areas = {f"{curve}.{way}.small.3" for curve in ("deletion", "insertion") for way in ("occlusion", "gradients")}
    assert areas <= set(found)
    assert {"naive_over_gradients.small", "exact_over_gradients.small"} <= set(found)


def test_variants() -> None:
    """The networks have the layers that they are there for, and still the roster's input and output."""
    for name, kind, count in (("resnet18_gn", nn.GroupNorm, 20), ("se_resnet18", nn.AdaptiveAvgPool2d, 9)):
        network = NETWORKS[name].build(roster.load("resnet18"))
        assert sum(isinstance(module, kind) for module in network.modules()) == count
        assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


def test_turns() -> None:
    """A way is compared with the reference just before and just after it; every second turn goes backwards."""
    order: list[str] = []
    load = iter([1.0, 3.0, 9.0, 3.0, 1.0])

    def run(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    turns = take_turns(lambda: next(load), {"a": lambda: run("a", 1.0), "b": lambda: run("b", 3.0)}, 2)
    assert order == ["a", "b", "b", "a"]
    assert turns.speedups == {"a": [2.0, 2.0], "b": [2.0, 2.0]}
    assert (turns.seconds("b"), turns.speedup("b")) == (3.0, 2.0)


@pytest.mark.parametrize(
    "arguments", [["--figure", "6.8"], ["--sample", "0"], ["--weights", "small"], ["--weights", "small="]]
)
def test_wrong_options(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        occlusion.main(arguments)
