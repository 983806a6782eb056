"""The seven networks against what torchvision 0.29 gives for the same weights; the figures here were taken from it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from vista_spark import roster

if TYPE_CHECKING:
    from torch import nn

PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "inception_v3": 27_161_264,
    "mobilenet_v2": 3_504_872,
    "squeezenet1_1": 1_235_496,
}

# sha256 of json.dumps(sorted((key, list(shape)) ...)) over torchvision's state dict.
KEYS = {
    "alexnet": "93ba34fd1ae68ec8b3f1c581e9752ea88bdecaefe653deb46a8b65bdad4bbdc6",
    "vgg16": "0cc99bf3870063ffa4ce1257d726dbe7e9a7a89ccfaa103b591510cc0eaee825",
    "resnet18": "5053771ee593804da940bc7cf1dd383af89a52b40e183efce8bddf0a419e6200",
    "resnet50": "a70dbc5161cf2045a7a1e47946736ad5f6b3d6f300049d2836bdd65e7da398d0",
    "inception_v3": "92b4e9c93795f0397fb144feda3bd6c5513c2b86ea378cbae7cea6176feca7f8",
    "mobilenet_v2": "eaba618cc6196d4ce607c564246b41a7311b999768d1494c6e8b37385e24f31d",
    "squeezenet1_1": "947fc15e2c3c2eb582408a602bf07d578fee8e465503c809282290c7098922b3",
}

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "alexnet": {
        "conv1": (64, 55, 55),
        "conv2": (192, 27, 27),
        "conv3": (384, 13, 13),
        "conv4": (256, 13, 13),
        "conv5": (256, 13, 13),
        "fc6": (4096,),
        "fc7": (4096,),
        "fc8": (1000,),
    },
    "vgg16": {
        "conv1_1": (64, 224, 224),
        "conv1_2": (64, 224, 224),
        "pool1": (64, 112, 112),
        "conv2_1": (128, 112, 112),
        "conv2_2": (128, 112, 112),
        "pool2": (128, 56, 56),
        "conv3_1": (256, 56, 56),
        "conv3_2": (256, 56, 56),
        "conv3_3": (256, 56, 56),
        "pool3": (256, 28, 28),
        "conv4_1": (512, 28, 28),
        "conv4_2": (512, 28, 28),
        "conv4_3": (512, 28, 28),
        "pool4": (512, 14, 14),
        "conv5_1": (512, 14, 14),
        "conv5_2": (512, 14, 14),
        "conv5_3": (512, 14, 14),
        "pool5": (512, 7, 7),
        "fc6": (4096,),
        "fc7": (4096,),
        "fc8": (1000,),
    },
    "resnet18": {
        "conv1": (64, 112, 112),
        "conv2_1": (64, 56, 56),
        "conv2_2": (64, 56, 56),
        "conv3_1": (128, 28, 28),
        "conv3_2": (128, 28, 28),
        "conv4_1": (256, 14, 14),
        "conv4_2": (256, 14, 14),
        "conv5_1": (512, 7, 7),
        "conv5_2": (512, 7, 7),
        "pool5": (512, 1, 1),
        "fc6": (1000,),
    },
    "resnet50": {
        "conv1": (64, 112, 112),
        "conv2_1": (256, 56, 56),
        "conv2_2": (256, 56, 56),
        "conv2_3": (256, 56, 56),
        "conv3_1": (512, 28, 28),
        "conv3_2": (512, 28, 28),
        "conv3_3": (512, 28, 28),
        "conv3_4": (512, 28, 28),
        "conv4_1": (1024, 14, 14),
        "conv4_2": (1024, 14, 14),
        "conv4_3": (1024, 14, 14),
        "conv4_4": (1024, 14, 14),
        "conv4_5": (1024, 14, 14),
        "conv4_6": (1024, 14, 14),
        "conv5_1": (2048, 7, 7),
        "conv5_2": (2048, 7, 7),
        "conv5_3": (2048, 7, 7),
        "pool5": (2048, 1, 1),
        "fc6": (1000,),
    },
    "inception_v3": {
        "conv1a": (32, 149, 149),
        "conv2a": (32, 147, 147),
        "conv2b": (64, 147, 147),
        "conv3b": (80, 73, 73),
        "conv4a": (192, 71, 71),
        "mixed_5b": (256, 35, 35),
        "mixed_5c": (288, 35, 35),
        "mixed_5d": (288, 35, 35),
        "mixed_6a": (768, 17, 17),
        "mixed_6b": (768, 17, 17),
        "mixed_6c": (768, 17, 17),
        "mixed_6d": (768, 17, 17),
        "mixed_6e": (768, 17, 17),
        "mixed_7a": (1280, 8, 8),
        "mixed_7b": (2048, 8, 8),
        "mixed_7c": (2048, 8, 8),
        "pool": (2048, 1, 1),
        "fc": (1000,),
    },
    "mobilenet_v2": {
        "conv1": (32, 112, 112),
        "block1": (16, 112, 112),
        "block2": (24, 56, 56),
        "block3": (24, 56, 56),
        "block4": (32, 28, 28),
        "block5": (32, 28, 28),
        "block6": (32, 28, 28),
        "block7": (64, 14, 14),
        "block8": (64, 14, 14),
        "block9": (64, 14, 14),
        "block10": (64, 14, 14),
        "block11": (96, 14, 14),
        "block12": (96, 14, 14),
        "block13": (96, 14, 14),
        "block14": (160, 7, 7),
        "block15": (160, 7, 7),
        "block16": (160, 7, 7),
        "block17": (320, 7, 7),
        "conv18": (1280, 7, 7),
        "pool": (1280, 1, 1),
        "fc": (1000,),
    },
    "squeezenet1_1": {
        "conv1": (64, 111, 111),
        "fire2": (128, 55, 55),
        "fire3": (128, 55, 55),
        "fire4": (256, 27, 27),
        "fire5": (256, 27, 27),
        "fire6": (384, 13, 13),
        "fire7": (384, 13, 13),
        "fire8": (512, 13, 13),
        "fire9": (512, 13, 13),
        "conv10": (1000, 13, 13),
        "pool10": (1000, 1, 1),
    },
}


# The first logits and the deviation of them all, of `patterned` weights on a `patterned` image.
LOGITS: dict[str, tuple[list[float], float]] = {
    "alexnet": ([0.186181, 1.03007, 5.607545, -1.137457, 2.148879, -11.370255], 5.562063),
    "vgg16": ([-0.775828, 1.554038, 2.856629, 2.562194, -2.811775, -2.527553], 3.152139),
    "resnet18": ([0.425858, -1.249194, -3.639522, -1.749092, 1.218594, -0.529255], 1.507214),
    "resnet50": ([-1.544001, 0.574231, -0.837408, -0.538744, -0.009188, -0.069901], 0.741631),
    "inception_v3": ([-0.092826, -0.03765, 0.112933, -0.189674, -0.182546, -0.010123], 0.106065),
    "mobilenet_v2": ([0.074131, -0.07451, 0.190113, 0.208829, -0.002617, 0.044817], 0.118445),
    "squeezenet1_1": ([0.161027, 0.002586, 0.032967, 0.049724, 0.012076, 0.0], 0.512898),
}


def uniform(shape: torch.Size, seed: int) -> torch.Tensor:
    """Numbers in [0, 1) from a formula, the same everywhere; a generator's stream is torch's to change."""
    steps = torch.arange(1, shape.numel() + 1, dtype=torch.float64) + seed
    return (torch.sin(steps * 12.9898) * 43758.5453).remainder(1).reshape(shape)


def patterned(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights that keep the signal's scale, with biases and statistics that all matter."""
    made = {}
    for seed, key in enumerate(sorted(state)):
        tensor = state[key]
        draw = uniform(tensor.shape, 1000 * seed)
        if key.endswith("running_var"):
            draw = draw + 0.5
        elif tensor.ndim > 1:
            draw = (draw - 0.5) * (24 / tensor[0].numel()) ** 0.5
        elif key.endswith("weight"):
            draw = 0.4 + 0.4 * draw
        else:
            draw = (draw - 0.5) * 0.2
        made[key] = draw.to(tensor.dtype)
    return made


def activations(network: nn.Module, paths: list[str], batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the modules give, and a copy of it taken on the spot: they differ if a later layer overwrote it."""
    found: dict[str, torch.Tensor] = {}
    modules = dict(network.named_modules())
    for path in paths:
        modules[path].register_forward_hook(lambda _module, _inputs, output, path=path: found.update({path: output}))
    with torch.no_grad():
        network(batch)
    return found


def test_the_tables_cover_the_roster() -> None:
    cards = [roster.card(name) for name in roster.names() if not name.startswith("compact_")]  # in a test of their own
    ours = tuple(card.name for card in cards if card.framework == "torch" and card.kind == "image")
    assert ours == tuple(PARAMETERS) == tuple(KEYS) == tuple(SHAPES)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_and_keys_are_torchvisions(name: str) -> None:
    network = roster.card(name).skeleton()
    assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS[name]
    assert roster.card(name).parameters == PARAMETERS[name]
    keys = sorted((key, list(tensor.shape)) for key, tensor in network.state_dict().items())
    assert hashlib.sha256(json.dumps(keys).encode()).hexdigest() == KEYS[name]
    for key, tensor in network.state_dict().items():
        assert tensor.dtype == (torch.int64 if key.endswith("num_batches_tracked") else torch.float32)


@pytest.mark.parametrize("name", PARAMETERS)
def test_logits_are_torchvisions(name: str) -> None:
    card = roster.card(name)
    network = roster.load(name, patterned(card.skeleton().state_dict()))
    image = (uniform(torch.Size((1, *card.preprocessing.shape)), 7) * 4 - 2).float()
    with torch.no_grad():
        (logits,) = network(image)
    first, deviation = LOGITS[name]
    assert logits.std().item() == pytest.approx(deviation, rel=1e-3)
    torch.testing.assert_close(logits[: len(first)], torch.tensor(first), rtol=0, atol=1e-3 * deviation)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_layer_is_what_follows_its_nonlinearity(name: str) -> None:
    card = roster.card(name)
    batch = torch.randn((1, *card.preprocessing.shape), generator=torch.Generator().manual_seed(0))
    found = activations(roster.load(name), [layer.module for layer in card.layers], batch)
    negative = [layer.name for layer in card.layers if found[layer.module].min() < 0]
    linear = {"squeezenet1_1": [], "mobilenet_v2": [*(f"block{index}" for index in range(1, 18)), "fc"]}
    assert negative == linear.get(name, [card.layers[-1].name])


@pytest.mark.parametrize("name", PARAMETERS)
def test_layers_come_bottom_to_top_with_their_shapes(name: str) -> None:
    card = roster.card(name)
    batch = torch.empty((1, *card.preprocessing.shape), device="meta")
    found = activations(card.skeleton(), [layer.module for layer in card.layers], batch)
    assert list(found) == [layer.module for layer in card.layers]
    assert {layer.name: tuple(found[layer.module].shape[1:]) for layer in card.layers} == SHAPES[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_fx_and_export_compute_the_same_bits(name: str) -> None:
    network = roster.load(name)
    batch = torch.randn((2, *roster.card(name).preprocessing.shape), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network(batch)
        assert expected.shape == (2, 1000)
        assert torch.equal(torch.fx.symbolic_trace(network)(batch), expected)
        assert torch.equal(torch.export.export(network, (batch,)).module()(batch), expected)


@pytest.mark.parametrize("name", PARAMETERS)
def test_no_layer_overwrites_what_a_reader_holds(name: str) -> None:
    network = roster.load(name)
    before: dict[str, torch.Tensor] = {}
    held: dict[str, torch.Tensor] = {}

    def hold(path: str, output: torch.Tensor) -> None:
        held[path], before[path] = output, output.clone()

    for path, module in network.named_modules():
        module.register_forward_hook(lambda _module, _inputs, output, path=path: hold(path, output))
    batch = torch.randn((1, *roster.card(name).preprocessing.shape), generator=torch.Generator().manual_seed(0))
    copy = batch.clone()
    with torch.no_grad():
        network(batch)
    assert torch.equal(batch, copy)
    assert len(held) > len(roster.card(name).layers)
    assert [path for path, output in held.items() if not torch.equal(output, before[path])] == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_random_weights_keep_the_signal_alive(name: str) -> None:
    card = roster.card(name)
    batch = torch.randn((2, *card.preprocessing.shape), generator=torch.Generator().manual_seed(0))
    found = activations(roster.load(name), [layer.module for layer in card.layers], batch)
    for layer in card.layers:
        one, other = found[layer.module]
        assert 1e-2 < one.std() < 1e2, layer
        assert not torch.equal(one, other), layer


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_module_runs_once_so_a_path_names_one_tensor(name: str) -> None:
    card = roster.card(name)
    network = card.skeleton()
    runs: list[str] = []
    for path, module in network.named_modules():
        module.register_forward_hook(lambda _module, _inputs, _output, path=path: runs.append(path))
    network(torch.empty((1, *card.preprocessing.shape), device="meta"))
    assert len(runs) == len(set(runs))


def test_inceptions_preprocessing_is_torchvisions_with_transform_input_folded_in() -> None:
    folded = roster.card("inception_v3").preprocessing
    pixels = torch.arange(256).double()
    for mean, std, ours, scale in zip(
        (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), folded.mean, folded.std, strict=True
    ):
        normalised = (pixels / 255 - mean) / std
        transformed = normalised * (std / 0.5) + (mean - 0.5) / 0.5
        torch.testing.assert_close((pixels * folded.scale - ours) / scale, transformed, rtol=0, atol=1e-12)


def test_inceptions_auxiliary_classifier_is_carried_and_never_run() -> None:
    network = roster.load("inception_v3")
    batch = torch.zeros(1, 3, 299, 299)
    with torch.no_grad():
        expected = network(batch)
        for parameter in network.AuxLogits.parameters():
            parameter.fill_(torch.nan)
        assert torch.equal(network(batch), expected)


def test_squeezenet_rounds_its_pooling_up() -> None:
    """At 224 pixels no rounding shows; at Caffe's 227 torchvision's last fire module gives 14 x 14."""
    found = activations(
        roster.card("squeezenet1_1").skeleton(), ["features.12"], torch.empty(1, 3, 227, 227, device="meta")
    )
    assert found["features.12"].shape == (1, 512, 14, 14)
