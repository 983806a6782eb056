"""The door for models: what users call a model, and that nothing of theirs is touched."""

from __future__ import annotations

import copy
import functools
import sys
import textwrap
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.errors import UnknownLayerError
from udfs.handlers import UntraceableModelError, framework
from udfs.images import Preprocessing
from udfs.inference import NetworkFile
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError, UnknownModelError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Callable

PIXELS = Preprocessing(crop=16, resize=18)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.relu(self.norm(self.conv(batch)) + batch)


class Net(nn.Module):
    """A tensor in an attribute: no state dict has it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.layer1 = nn.Sequential(Block(8), Block(8))
        self.drop = nn.Dropout(0.5)
        self.hidden = nn.Linear(8, 6)
        self.scale = torch.full((6,), 3.0)
        self.head = nn.Linear(6, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        pooled = self.drop(self.layer1(self.stem(batch))).mean((2, 3))
        return self.head(self.hidden(pooled) * self.scale)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(3)
    made = Net()
    made.layer1[0].norm.running_mean.uniform_(-1, 1)
    return made


def plain(net: nn.Module, batch: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        output: np.ndarray = copy.deepcopy(net).eval()(batch).numpy()
    return output


def batch(rows: int = 3) -> torch.Tensor:
    return torch.randn((rows, 3, 16, 16), generator=torch.Generator().manual_seed(1))


def test_a_module_as_it_is(net: Net) -> None:
    card = roster.of(net, preprocessing=PIXELS)
    assert (card.name, card.framework, card.kind) == ("Net", "torch", "image")
    assert card.parameters == sum(parameter.numel() for parameter in net.parameters())
    assert [layer.name for layer in card.layers] == ["stem", "layer1", "hidden", "head"]
    np.testing.assert_allclose(plain(roster.load(card), batch()), plain(net, batch()), atol=1e-6)


def test_nothing_of_the_users_is_touched(net: Net) -> None:
    handle = net.head.register_forward_hook(lambda *_: None)
    net.stem.eval()
    before = {
        "modes": [module.training for module in net.modules()],
        "gradients": [parameter.requires_grad for parameter in net.parameters()],
        "hooks": [len(module._forward_hooks) for module in net.modules()],
        "random": torch.random.get_rng_state().tolist(),
    }
    values = copy.deepcopy(net.state_dict())
    card = roster.of(net, preprocessing=PIXELS)
    roster.register(ModelCard("handed", lambda: net, PIXELS, ("layer1",)))
    try:
        roster.of("handed")
        roster.load("handed")
        roster.card("handed").resolve(["layer1.0"])
        roster.card("handed").skeleton().requires_grad_(False)
    finally:
        roster.unregister("handed")
    roster.load(card).head.weight.data.zero_()
    assert before == {
        "modes": [module.training for module in net.modules()],
        "gradients": [parameter.requires_grad for parameter in net.parameters()],
        "hooks": [len(module._forward_hooks) for module in net.modules()],
        "random": torch.random.get_rng_state().tolist(),
    }
    for name, value in net.state_dict().items():
        assert torch.equal(value, values[name]), name
    handle.remove()


def test_a_module_is_copied_as_it_is_now(net: Net) -> None:
    before = plain(net, batch())
    card = roster.of(net, preprocessing=PIXELS)
    assert roster.of(net, preprocessing=PIXELS) == card
    with torch.no_grad():
        net.scale.add_(1)  # no state dict has it
    later = roster.of(net, preprocessing=PIXELS)
    assert later.builder != card.builder
    np.testing.assert_allclose(plain(roster.load(card), batch()), before, atol=1e-6)
    np.testing.assert_allclose(plain(roster.load(later), batch()), plain(net, batch()), atol=1e-6)


@pytest.mark.parametrize("hand", [lambda net: net, lambda net: lambda: net], ids=["module", "lambda"])
def test_a_builder_that_hands_out_a_module_serves_its_weights_of_now(
    net: Net, hand: Callable[[Net], Any], request: pytest.FixtureRequest
) -> None:
    roster.register(ModelCard("handed", hand(net), PIXELS, ("layer1", "head")))
    request.addfinalizer(lambda: roster.unregister("handed"))
    first = roster.of("handed")
    assert isinstance(first.builder, NetworkFile)
    assert roster.of("handed") == first
    with torch.no_grad():
        net.head.weight.add_(1)
    second = roster.of("handed")
    assert second.builder != first.builder
    np.testing.assert_allclose(plain(roster.load(second), batch()), plain(net, batch()), atol=1e-6)


def test_a_cached_builder_serves_the_network_that_it_keeps() -> None:
    kept = functools.lru_cache(Net)
    state = torch.get_rng_state()
    card = roster.of(ModelCard("cached", kept, PIXELS, ("layer1", "head")))
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(tensor.is_meta for tensor in kept().parameters())
    np.testing.assert_allclose(plain(roster.load(card), batch()), plain(kept().eval(), batch()), atol=1e-6)


def test_a_builder_behind_which_a_cache_keeps_a_skeleton_is_refused() -> None:
    kept = functools.cache(Net)
    with pytest.raises(UntraceableModelError, match="a builder that keeps what it built must be called once before"):
        roster.of(ModelCard("kept", lambda: kept().eval(), PIXELS, ("layer1",)))
    assert next(kept().parameters()).is_meta
    kept.cache_clear()
    kept()
    assert isinstance(roster.of(ModelCard("kept", lambda: kept().eval(), PIXELS, ("layer1",))).builder, NetworkFile)


def test_a_builder_with_a_cached_part_is_refused_where_the_part_is_a_skeleton() -> None:
    part = functools.cache(lambda: nn.Linear(3 * 16 * 16, 4))
    card = ModelCard("part", lambda: nn.Sequential(nn.Flatten(), part()), PIXELS, ("1",))
    with pytest.raises(UntraceableModelError, match="must build all parts of the network in each call"):
        roster.load(roster.of(card))


def test_a_builder_that_makes_a_new_network_stays_one() -> None:
    card = ModelCard("fresh", Net, PIXELS, ("layer1",))
    assert roster.of(card).builder is Net
    assert roster.of(card).parameters == roster.of(Net(), preprocessing=PIXELS).parameters


def test_all_tensors_are_mapped_from_one_file(net: Net) -> None:
    made = roster.of(net, preprocessing=PIXELS).builder
    assert len(made.code) < Path(made.file).stat().st_size
    one, other = made(), made()
    assert one.hidden.weight is not other.hidden.weight
    assert torch.equal(one.hidden.weight, net.hidden.weight)
    assert torch.equal(one.scale, net.scale)


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = nn.Flatten()
            self.one = nn.Linear(768, 768, bias=False)
            self.other = nn.Linear(768, 768, bias=False)
            self.other.weight = self.one.weight

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.other(self.one(self.flat(batch)))

    opened = roster.of(Tied(), preprocessing=PIXELS).builder()
    assert opened.other.weight is opened.one.weight


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_other_precisions_stay_what_they_are(net: Net, kind: torch.dtype) -> None:
    net.scale = net.scale.to(kind)
    opened = roster.of(net.to(kind), preprocessing=PIXELS).builder()
    assert {parameter.dtype for parameter in opened.parameters()} == {kind}
    np.testing.assert_allclose(plain(opened, batch().to(kind)), plain(net, batch().to(kind)))


# ---- names


def test_a_name_a_card_and_a_function() -> None:
    assert roster.of("alexnet") == roster.card("alexnet") == roster.of(roster.card("alexnet"))
    assert roster.of(Net, preprocessing=PIXELS).name == "Net"


def test_a_function_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_networks.py").write_text(
        textwrap.dedent(
            """
            import torch

            class Tiny(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = torch.nn.Conv2d(3, 4, 3)

                def forward(self, batch):
                    return self.conv(batch)

            def tiny():
                return Tiny()

            NET = Tiny()
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    card = roster.of("own_networks:tiny", image_size=16)
    assert (card.name, [layer.name for layer in card.layers]) == ("tiny", ["conv"])
    assert roster.of("own_networks:NET", image_size=16).parameters == card.parameters == 112
    # The workers have no such file: its classes travel by value.
    del sys.modules["own_networks"]
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    assert plain(card.builder(), batch()).shape == (3, 4, 14, 14)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (3, InvalidArgumentError, r"model must be a model of torch.*got 3"),
        ("resnet19", UnknownModelError, r"did you mean 'resnet18'"),
        ("no.such:thing", InvalidArgumentError, r"cannot be imported.*package\.module:function"),
        ("torch:nothing", InvalidArgumentError, r"cannot be imported"),
        (lambda: 3, InvalidArgumentError, r"model must be a model of torch.*got 3"),
    ],
)
def test_what_is_no_model_is_refused(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        roster.of(model)


def test_what_cannot_travel_is_refused_in_one_sentence(net: Net) -> None:
    net.stream = (number for number in range(3))
    with pytest.raises(UntraceableModelError, match=r"^Net cannot be (sent|copied).*generator") as caught:
        roster.of(net, preprocessing=PIXELS)
    assert "\n" not in str(caught.value)
    with pytest.raises(UntraceableModelError, match=r"LazyLinear that has no weights yet: run the network once"):
        roster.of(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), preprocessing=PIXELS)


# ---- preprocessing


def test_an_assumed_preprocessing_is_stated(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    card = roster.of(net)
    assert card.preprocessing == roster.card("resnet18").preprocessing
    assert "ImageNet" in card.assumed
    assert "224 x 224" in card.assumed
    assert sum("assumes ImageNet's preprocessing" in record.message for record in caplog.records) == 1
    assert roster.of(net, image_size=32).preprocessing == Preprocessing(crop=32, resize=37)
    assert not roster.of(net, preprocessing=PIXELS).assumed


def test_a_network_says_its_own_preprocessing(net: Net) -> None:
    net.pretrained_cfg = {"mean": (0.5,) * 3, "std": (0.25,) * 3, "input_size": (3, 32, 32), "crop_pct": 0.8}
    card = roster.of(net)
    # What a configuration leaves out has timm's defaults.
    expected = Preprocessing(crop=32, resize=40, mean=(0.5,) * 3, std=(0.25,) * 3, resample="bicubic")
    assert card.preprocessing == expected
    assert not card.assumed


@pytest.mark.parametrize(
    "net",
    [nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 3)), nn.Conv2d(1, 4, 3)],
    ids=["another size", "grey"],
)
def test_a_network_that_does_not_run_on_such_images_says_so(net: nn.Module) -> None:
    with pytest.raises(InvalidArgumentError, match=r"does not run on images of 224 px.*image_size=.*preprocessing="):
        roster.of(net)


# ---- layers


def test_layers_are_numbered_as_the_roster_numbers_them() -> None:
    vgg = roster.card("vgg16")
    found = roster.of(nn.Sequential(*copy.deepcopy(roster.card("alexnet").builder()).features), image_size=64)
    named = [layer.module.removeprefix("features.") for layer in roster.card("alexnet").layers]
    assert set(named[:5]) <= {layer.module for layer in found.layers}
    assert vgg.resolve(-1) == vgg.resolve([1]) == vgg.resolve([-1]) == vgg.resolve(1)


def test_layers_of_a_resnet() -> None:
    found = roster.of(roster.card("resnet18").builder(), image_size=64)
    expected = ["relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]
    assert [layer.name for layer in found.layers] == expected
    assert [layer.name for layer in found.resolve([-1, "layer4", "layer4.0.conv1"])] == [
        "layer4.0.conv1",
        "layer4",
        "fc",
    ]


def test_numbers_from_the_top(net: Net) -> None:
    card = roster.of(net, preprocessing=PIXELS)
    (top,) = card.resolve(-1)
    assert top.name == "head"
    assert card.resolve([1]) == card.resolve([-1]) == card.resolve(np.int64(1)) == (top,)
    assert card.resolve([np.int64(-2), top]) == card.resolve(2)
    assert card.resolve([FeatureLayer("any", "layer1")]) == card.resolve("layer1")
    for wrong in (0, [0], 5, [-5], np.int64(5)):
        with pytest.raises(UnknownLayerError, match="counts 1 to 4 from the top"):
            card.resolve(wrong)


def test_layers_that_the_user_lists(net: Net) -> None:
    card = roster.of(net, preprocessing=PIXELS, layers=["stem", FeatureLayer("low", "layer1.0")], name="mine")
    assert (card.name, [layer.name for layer in card.layers]) == ("mine", ["stem", "low"])
    with pytest.raises(UnknownLayerError, match=r"no layer 'layer2' in the network of model 'Net'.*layer1"):
        roster.of(net, preprocessing=PIXELS, layers=["layer2"])


def test_layers_of_a_card_as_strings_and_a_path_as_weights(tmp_path: Path) -> None:
    torch.save(Net().state_dict(), tmp_path / "w.pt")
    card = ModelCard("mine", Net, PIXELS, ["stem", "layer1"], weights=tmp_path / "w.pt")  # type: ignore[arg-type]
    assert card.layers == (FeatureLayer("stem", "stem"), FeatureLayer("layer1", "layer1"))
    assert card.weights == str(tmp_path / "w.pt")
    assert replace(card, layers="stem").layers == (FeatureLayer("stem", "stem"),)  # type: ignore[arg-type]


def test_a_card_without_layers_and_parameters_is_filled_in() -> None:
    card = roster.of(ModelCard("mine", Net, PIXELS))
    assert [layer.name for layer in card.layers] == ["stem", "layer1", "hidden", "head"]
    assert card.parameters == sum(parameter.numel() for parameter in Net().parameters())


def test_a_layer_that_gives_a_tuple_is_there_at_transform() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Flatten(2)
            self.lstm = nn.LSTM(256, 5, batch_first=True)
            self.head = nn.Linear(5, 2)
            self.unused = nn.Linear(2, 2)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            sequence, _ = self.lstm(self.rows(images))
            return self.head(sequence[:, -1])

    card = ModelCard("recurrent", Recurrent, PIXELS, ("lstm",))
    traced = framework("torch").trace(roster.load(card), PIXELS.inputs)
    assert traced.graph[traced.layer("lstm")].output_shape == (3, 5)
    for name in ("unused", "lstms"):
        with pytest.raises(UnknownLayerError, match=rf"no layer '{name}' in .*gives one tensor.*lstm.*head"):
            roster.register(replace(card, layers=(name,)))
    assert "recurrent" not in roster.names()


# ---- in a file without the author's code


def test_a_network_opens_without_its_code_under_the_same_paths(net: Net, tmp_path: Path) -> None:
    own, card = framework("torch"), roster.of(net, preprocessing=PIXELS)
    file = NetworkFile.without_code(roster.load(card), own, PIXELS.inputs, tmp_path / "network.pt2")
    assert file.code is None
    opened = replace(card, builder=file)
    paths = own.run_order(file, PIXELS.inputs)
    assert {layer.module for layer in card.layers} | {"drop", "layer1", "layer1.0.norm"} <= set(paths)
    ours, theirs = (own.trace(roster.load(made), PIXELS.inputs) for made in (opened, card))
    pixels = batch(5).numpy()
    for path in ("stem", "layer1.0", "layer1.0.norm", "drop", "head"):
        (one,) = ours.run({ours.graph.inputs[0]: pixels}, [ours.layer(path)]).values()
        (other,) = theirs.run({theirs.graph.inputs[0]: pixels}, [theirs.layer(path)]).values()
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=path)
    np.testing.assert_allclose(plain(roster.load(opened), batch(4)), plain(net, batch(4)), atol=1e-5)


def test_a_network_that_torch_cannot_export_is_refused_in_one_sentence(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images if float(images.sum()) > 0 else -images

    with pytest.raises(UntraceableModelError, match=r"^Branching cannot be saved without its code") as caught:
        NetworkFile.without_code(Branching().eval(), framework("torch"), PIXELS.inputs, tmp_path / "network.pt2")
    assert "\n" not in str(caught.value)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mix(self.norm(x))


class Listed(nn.Module):
    """A network with a list of blocks beside other children, as timm's and torchvision's have it."""

    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.embed, self.drop, self.blocks = nn.Conv2d(3, 4, 4, 4), nn.Dropout(), blocks
        self.norm, self.pre, self.hidden, self.head = nn.LayerNorm(4), nn.Identity(), nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.drop(self.embed(x)).permute(0, 2, 3, 1))
        return self.head(self.hidden(self.pre(self.norm(x)).mean((1, 2))))


class Tokens(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.flatten(1, 2)).reshape(x.shape[0], *x.shape[1:3], 4)


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


class Vision(nn.Module):
    def __init__(self, parts: OrderedDict[str, nn.Module]) -> None:
        super().__init__()
        self.conv_proj, self.encoder = nn.Conv2d(3, 4, 4, 4), nn.Sequential(parts)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(4, 2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads(self.encoder(self.conv_proj(x).flatten(2).transpose(1, 2)).mean(1))


ENCODER = [f"blocks.inner.layers.{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda: Listed(nn.Sequential(*(Residual() for _ in range(6)))),
            ["embed", *(f"blocks.{number}" for number in range(6)), "norm", "hidden", "head"],
        ),
        # Stages are a list, too; what is within a stage is not opened while there are enough.
        (
            lambda: Listed(nn.Sequential(*(nn.Sequential(Residual(), Residual()) for _ in range(3)))),
            ["embed", "blocks.0", "blocks.1", "blocks.2", "norm", "hidden", "head"],
        ),
        # As torchvision's ViT: names with a number within a module that is not alone.
        (
            lambda: Listed(
                nn.Sequential(
                    OrderedDict(
                        drop=nn.Dropout(),
                        layers=nn.Sequential(OrderedDict((f"encoder_layer_{n}", Residual()) for n in range(4))),
                        ln=nn.LayerNorm(4),
                    )
                )
            ),
            ["embed", *(f"blocks.layers.encoder_layer_{n}" for n in range(4)), "norm", "hidden", "head"],
        ),
        (
            lambda: Vision(
                OrderedDict(
                    drop=nn.Dropout(),
                    layers=nn.Sequential(OrderedDict((f"encoder_layer_{n}", Residual()) for n in range(4))),
                    ln=nn.LayerNorm(4),
                )
            ),
            [
                "conv_proj",
                *(f"encoder.layers.encoder_layer_{n}" for n in range(4)),
                "encoder.ln",
                "heads",
            ],
        ),
        # Two lists are stages that the author named.
        (
            lambda: nn.Sequential(
                OrderedDict(
                    stem=nn.Conv2d(3, 4, 3),
                    low=nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 1)) for _ in range(3))),
                    high=nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 1)) for _ in range(3))),
                    pool=nn.AdaptiveMaxPool2d(1),
                    flat=nn.Flatten(),
                    head=nn.Linear(4, 2),
                )
            ),
            ["stem", "low", "high", "pool", "head"],
        ),
        (
            lambda: Wrapped(Listed(nn.Sequential(*(Residual() for _ in range(3))))),
            [
                "model.embed",
                "model.blocks.0",
                "model.blocks.1",
                "model.blocks.2",
                "model.norm",
                "model.hidden",
                "model.head",
            ],
        ),
    ],
    ids=["blocks", "stages", "nested", "torchvision", "two lists", "wrapper"],
)
def test_blocks_in_a_list_are_layers(build: Callable[[], nn.Module], expected: list[str]) -> None:
    card = roster.of(build().eval(), preprocessing=PIXELS)
    assert [layer.name for layer in card.layers][: len(expected)] == expected
    assert [layer.name for layer in card.resolve(2)] == [layer.name for layer in card.layers[-2:]]


def test_layers_of_the_librarys_encoder_are_layers() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    network = Listed(Tokens(nn.TransformerEncoder(layer, 6, nn.LayerNorm(4), enable_nested_tensor=False))).eval()
    card = roster.of(network, preprocessing=PIXELS)
    assert [layer.name for layer in card.resolve(ENCODER)] == ENCODER
    kept: list[torch.Tensor] = []
    network.blocks.inner.layers[2].register_forward_hook(lambda module, inputs, output: kept.append(output))
    image = torch.randn(2, *PIXELS.shape)
    with torch.no_grad():
        network(image)
    traced = framework("torch").trace(card.builder(), PIXELS.inputs)
    name = traced.layer("blocks.inner.layers.2")
    (tokens,) = traced.run({traced.graph.inputs[0]: image.numpy()}, [name]).values()
    np.testing.assert_allclose(tokens, kept[0], atol=1e-5)
