"""``--model package.module:function``: a network from the folder that the command is run in."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

from PIL import Image
from typer.testing import CliRunner

from vista_spark.cli import app
from vista_spark.cli._options import opened_model
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
import torch

def network():
    pool = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 8), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3), *pool)
"""


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_of_mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "nets_of_mine", raising=False)


@pytest.mark.usefixtures("_here")
def test_a_function_of_the_working_folder_is_a_model() -> None:
    card = opened_model("nets_of_mine:network")
    assert [layer.name for layer in card.layers] == ["1", "2", "3"]
    assert opened_model("resnet18") == "resnet18"
    with pytest.raises(InvalidArgumentError, match="nets_of_yours"):
        opened_model("nets_of_yours:network")


@pytest.mark.usefixtures("_here")
def test_explain_takes_a_function(tmp_path: Path) -> None:
    from photographs import crops, encode  # needs Pillow alone

    (_, _, _, picture) = next(iter(crops(1, side=64)))
    (tmp_path / "picture.png").write_bytes(encode(picture))
    done = CliRunner().invoke(
        app,
        [
            "explain", str(tmp_path / "picture.png"), "--model", "nets_of_mine:network",
            "--out", str(tmp_path / "map.png"),
            "--image-size", "64", "--mode", "naive", "--patch-size", "32", "--stride", "16", "--output", "value",
            "--target", "0",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (tmp_path / "map.png").is_file()


def test_a_folder_of_transformers_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from pretrained import IMAGES, saved  # imports transformers

    saved(IMAGES["resnet"], tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for path in ("mine", "./mine", str(tmp_path / "mine")):
        assert opened_model(path).layers[-1].name == "fc6"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgumentError, match=r"empty.*config\.json"):
        opened_model("empty")


BROKEN = """
import torch

def broken():
    raise RuntimeError("no licence")

def number():
    return 3

class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, 8)

    def forward(self, x):
        y = self.conv(x)
        return (2 * y if y.sum() > 0 else y).mean((2, 3))
"""


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("broken_nets:broken", r"broken_nets\.py, line 5: RuntimeError: no licence"),
        ("broken_nets:number", "model must be a model of torch"),
        ("broken_nets:absent", "no attribute 'absent'"),
        ("broken_nets:Branching", "its forward chooses by the values of a tensor"),
        ("", "names no network"),
        ("no_weights/", r"has no model\.safetensors"),
        ("unknown_kind/", "Unrecognized model identifier"),
        ("no_network/", r"no_network.*config\.json"),
    ],
)
def test_a_model_that_cannot_be_is_one_line(
    model: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "broken_nets.py").write_text(BROKEN)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.jpg").write_bytes(b"x")
    transformers.ResNetConfig().save_pretrained(tmp_path / "no_weights")
    for name, text in (("unknown_kind", '{"model_type": "nonsense"}'), ("no_network", "")):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "config.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "broken_nets", raising=False)
    monkeypatch.setattr("vista_spark.sessions.session", lambda *_, **__: pytest.fail("Spark was started"))
    done = CliRunner().invoke(app, ["transfer", "--images", "photos", "--model", model, "--out", "out"])
    assert done.exit_code == 2, done.output + repr(done.exception)
    assert re.search(reason, done.output), done.output
    assert not (tmp_path / "out").exists()


TOKENS = """
import torch

class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.mix, self.head = torch.nn.Conv2d(3, 8, 8, 8), torch.nn.Linear(16, 16), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.mix(self.patches(x).flatten(2)).mean(2))

def network():
    from vista_spark import roster
    return roster.of(Mixer().eval(), image_size=32, layers=["patches", "mix", "head"])
"""


def test_plan_takes_the_layout_of_an_ambiguous_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mixers.py").write_text(TOKENS)
    (tmp_path / "table.csv").write_text("id,size,label\n" + "".join(f"{i},{i}.5,{i % 2}\n" for i in range(8)))
    (tmp_path / "photos").mkdir()
    for number in range(8):
        Image.new("RGB", (40, 40), (number, 0, 0)).save(tmp_path / "photos" / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mixers", raising=False)
    ask = ["plan", "--model", "mixers:network", "--layers", "mix", "--pooling", "mean", "--table", "table.csv"]
    ask += ["--label", "label", "--images", "photos", "--batch-size", "2"]
    refused = CliRunner().invoke(app, ask)
    assert refused.exit_code != 0
    assert "layout of layer 'mix' must be stated" in re.sub(r"\s+", " ", refused.output)
    planned = CliRunner().invoke(app, [*ask, "--layout", "mix=channels_first"])
    assert planned.exit_code == 0, planned.output
