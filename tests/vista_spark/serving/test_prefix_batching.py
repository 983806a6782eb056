"""Networks that share a trunk: found without being told, run once for all, with each network's own answers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from udfs.serving import GroupRecipe, NetworkRecipe, OpenModels, Row, Trunk, read_head
from vista_spark.errors import InvalidArgumentError
from vista_spark.serving import Session
from vista_spark.serving._deployment import Deployment, opened, sample_row
from vista_spark.serving._trunk_grouping import group_recipe, groups

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

SIZE = 16


class Residual(torch.nn.Module):
    """A trunk with a skip connection, and a classifier."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.conv = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.pool = torch.nn.AdaptiveAvgPool2d(2)
        self.fc = torch.nn.Linear(32, classes)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.stem(x))
        return self.fc(self.pool(torch.relu(self.conv(y)) + y).flatten(1))


def fine_tuned(trunk: nn.Module, classes: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    network = copy.deepcopy(trunk)
    network.fc = torch.nn.Linear(32, classes)
    return network.eval()


@pytest.fixture(scope="module")
def trunk() -> nn.Module:
    torch.manual_seed(0)
    return Residual(2).eval()


@pytest.fixture(scope="module")
def pets(trunk: nn.Module) -> list[Deployment]:
    networks = {"cats": fine_tuned(trunk, 2, 1), "dogs": fine_tuned(trunk, 5, 2), "birds": fine_tuned(trunk, 3, 3)}
    return [opened(Session(name, model=network, image_size=SIZE)) for name, network in networks.items()]


class Counting:
    """A traced model that notes how many rows each run has, and whether it begins with an image."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.graph = model.graph
        self.images: list[int] = []

    def prepare(self, threads: int) -> Counting:
        self.model.prepare(threads)
        return self

    def run(self, feeds: Mapping[str, NDArray[Any]], want: Sequence[str]) -> dict[str, NDArray[Any]]:
        self.images += [len(array) for array in feeds.values() if array.shape[1:] == (3, SIZE, SIZE)]
        found: dict[str, NDArray[Any]] = self.model.run(feeds, want)
        return found


def open_counting(members: Sequence[Deployment], recipe: GroupRecipe) -> tuple[Any, list[Counting]]:
    counting = {one.recipe.source.key: Counting(one.network.traced) for one in members}  # type: ignore[union-attr]
    return OpenModels("cpu", 1, counting).open(recipe), list(counting.values())  # type: ignore[arg-type]


def images(count: int) -> list[NDArray[np.float32]]:
    return list(np.random.default_rng(0).normal(size=(count, 3, SIZE, SIZE)).astype(np.float32))


def row(group: Any, session: str, image: NDArray[np.float32], key: str = "") -> Row:
    return Row(session, key, group.readers[session].read({"image": image}))


def own(deployment: Deployment, batch: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    group = OpenModels("cpu", 1).open(group_recipe([deployment]))
    name = deployment.session.name
    return np.stack([one["output"] for one in group.run([row(group, name, image) for image in batch])])


def test_networks_of_one_trunk_are_a_group_and_another_is_not(pets: list[Deployment], trunk: nn.Module) -> None:
    torch.manual_seed(9)
    other = opened(Session("other", model=Residual(2).eval(), image_size=SIZE))
    larger = opened(Session("larger", model=fine_tuned(trunk, 2, 4), image_size=2 * SIZE))
    found = groups([pets[0], other, pets[1], larger, pets[2]])
    names = [[one.session.name for one in group] for group in found]
    assert names == [["cats", "dogs", "birds"], ["other"], ["larger"]]


def test_the_trunk_ends_where_the_networks_begin_to_differ(pets: list[Deployment]) -> None:
    shared = group_recipe(pets).trunk
    assert isinstance(shared, Trunk)
    assert len(shared.layers) == 1, "the sum and its pooling are below the cut: nothing else crosses"
    assert 0.9 < shared.share < 1.0
    assert set(shared.names) == {"cats", "dogs", "birds"}


def test_one_image_for_three_models_passes_the_trunk_once(pets: list[Deployment]) -> None:
    group, counting = open_counting(pets, group_recipe(pets))
    (image,) = images(1)
    answers = group.run([row(group, one.session.name, image, "k") for one in pets])
    assert [one.images for one in counting] == [[1], [], []]
    for deployment, answer in zip(pets, answers, strict=True):
        np.testing.assert_array_equal(answer["output"], own(deployment, [image])[0])


def test_different_images_for_several_models_are_one_batch_of_the_trunk(pets: list[Deployment]) -> None:
    group, counting = open_counting(pets, group_recipe(pets))
    batch = images(7)
    asked = [(place % 3, image) for place, image in enumerate(batch)]
    answers = group.run([row(group, pets[at].session.name, image, str(n)) for n, (at, image) in enumerate(asked)])
    assert [one.images for one in counting] == [[7], [], []]
    for (at, image), answer in zip(asked, answers, strict=True):
        np.testing.assert_allclose(answer["output"], own(pets[at], [image])[0], atol=1e-5, rtol=1e-5)


def test_rows_without_a_key_are_never_taken_for_one(pets: list[Deployment]) -> None:
    group, counting = open_counting(pets, group_recipe(pets))
    a, b = images(2)
    first, second = group.run([row(group, "cats", a), row(group, "cats", b)])
    assert counting[0].images == [2]
    assert not np.array_equal(first["output"], second["output"])


def test_the_trunk_s_weights_are_in_memory_once(pets: list[Deployment]) -> None:
    models = OpenModels("cpu", 1)
    models.open(group_recipe(pets))
    pointers = [
        {held.data_ptr() for held in model._module.parameters() if held.dim() == 4} for model in models._open.values()
    ]
    assert len(pointers) == 3
    assert pointers[0] == pointers[1] == pointers[2]
    assert len(pointers[0]) == 2


def head_file(folder: Path, name: str, classes: int, features: int = 32) -> Path:
    torch.manual_seed(classes)
    file = folder / f"{name}.safetensors"
    safetensors_torch.save_file(torch.nn.Linear(features, classes).state_dict(), file)
    return file


def test_sessions_that_differ_in_their_heads_share_all_else(trunk: nn.Module, tmp_path: Path) -> None:
    files = {name: head_file(tmp_path, name, classes) for name, classes in (("cats", 2), ("dogs", 4))}
    made = [opened(Session(name, model=trunk, head=file, image_size=SIZE)) for name, file in files.items()]
    assert [one.served.outputs[0].shape for one in made] == [(-1, 2), (-1, 4)]
    assert len(groups(made)) == 1
    group, counting = open_counting(made, group_recipe(made))
    (image,) = images(1)
    answers = group.run([row(group, name, image, "k") for name in files])
    assert [one.images for one in counting] == [[1]]
    with torch.no_grad():
        y = torch.relu(trunk.stem(torch.from_numpy(image[None])))
        features = trunk.pool(torch.relu(trunk.conv(y)) + y).flatten(1).numpy()
    for answer, file in zip(answers, files.values(), strict=True):
        np.testing.assert_allclose(answer["output"], read_head(str(file))(features)[0], atol=1e-5, rtol=1e-5)


def test_a_head_that_does_not_fit(trunk: nn.Module, tmp_path: Path) -> None:
    file = head_file(tmp_path, "cats", 2, features=33)
    with pytest.raises(InvalidArgumentError, match="got 33 in session"):
        opened(Session("cats", model=trunk, head=file, image_size=SIZE))


def test_a_sample_is_read_as_a_request_is(pets: list[Deployment]) -> None:
    recipe = pets[0].recipe
    assert isinstance(recipe, NetworkRecipe)
    ((_, array),) = recipe.reader.read(sample_row(pets[0])).items()
    assert array.shape == (3, SIZE, SIZE)
