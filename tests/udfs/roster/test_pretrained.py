"""Networks of ``transformers`` from their folders: the same pixels, features and logits as the library's own."""

from __future__ import annotations

import json
import math
import pickle
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='pip install "cerebro-spark[torch]"')
transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[pretrained]"')

from photographs import encode, photograph
from pretrained import IMAGES, TEXTS, Case, saved
from texts import tiny_bert

from udfs.images import Preprocessing, decode
from udfs.weights import WeightsError
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import network

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image
    from torch import nn

# The others take minutes.
QUICK = ("vit-named-classes", "convnext", "deit")


def pictures() -> list[Image.Image]:
    """A wide photograph, a tall one, and one smaller than most inputs, with odd sides."""
    return [
        photograph("china").resize((213, 142)),
        photograph("flower").crop((100, 0, 283, 301)),
        photograph("china").resize((33, 27)),
    ]


def own_pixels(folder: Path) -> np.ndarray:
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = [processor(picture, return_tensors="np")["pixel_values"][0] for picture in pictures()]
    return np.stack(pixels).astype(np.float32)


def own_outputs(model: nn.Module, pixels: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Map each module of the library's own network to what it returned, and ``vector`` to what the classifier read."""
    returned: dict[str, np.ndarray] = {}

    def hook(path: str) -> Any:
        def keep(_module: nn.Module, inputs: Any, output: Any) -> None:
            if path == "classifier":
                returned["classifier.vector"] = inputs[0].numpy()
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor):
                returned[path] = tensor.numpy().copy()  # a later layer may write over it in place

        return keep

    # As a worker runs them: other orders of summation, and other roundings of pixels, grow over fifty layers.
    model = model.to(memory_format=torch.channels_last)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    hooks = [module.register_forward_hook(hook(path)) for path, module in model.named_modules()]
    with torch.inference_mode():
        outputs = model(torch.from_numpy(pixels).contiguous(memory_format=torch.channels_last))
    torch.set_num_threads(threads)
    for each in hooks:
        each.remove()
    keys = ("logits", "pooler_output", "last_hidden_state")
    return returned, next(outputs[key] for key in keys if outputs.get(key) is not None).numpy()


def as_map(tokens: np.ndarray, special: int) -> np.ndarray:
    """Patches by row and column, without the special tokens."""
    patches = tokens[:, special:]
    side = math.isqrt(patches.shape[1])
    return patches.reshape(len(tokens), side, side, -1).transpose(0, 3, 1, 2)


def assert_close(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    theirs = theirs.reshape(ours.shape)
    scale = max(1.0, float(np.abs(theirs).max()))
    assert np.ptp(theirs) > 1e-4, f"{what} hardly depends on anything"
    # MobileNetV2's own float32 numbers are 1.1e-5 from its float64 ones here, and in some layers 3e-5.
    np.testing.assert_allclose(ours / scale, theirs / scale, atol=1e-4, rtol=0, err_msg=what)


SPECIAL = {"ViT": 1, "DeiT": 2, "Beit": 1, "Dinov2": 1, "Dinov2WithRegisters": 4, "Swin": 0, "Swinv2": 0}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in IMAGES]
)
def test_a_network_for_images_has_the_librarys_own_numbers(name: str, tmp_path: Path) -> None:
    case = IMAGES[name]
    model = saved(case, tmp_path)
    # As Spark's closures send it.
    card = pickle.loads(pickle.dumps(roster.from_pretrained(tmp_path, name="mine")))
    assert card.parameters == sum(
        parameter.numel() for path, parameter in model.named_parameters() if counted(name, path)
    )
    # Pixels.
    theirs = own_pixels(tmp_path)
    ours = np.stack([decode(encode(picture, "PNG"), card.preprocessing) for picture in pictures()])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * max(1.0, float(np.abs(theirs).max())))
    # Features of all layers, from weights that the processes of a node share.
    net = network(card, None, 0)
    blocks = [layer for layer in card.layers if re.search(r"\d", layer.name)]
    assert len(blocks) >= 2
    layers = {layer.module: net.layer(layer) for layer in card.layers}
    found = net.traced.run({net.graph.inputs[0]: ours}, [*layers.values(), *net.graph.outputs])
    returned, output = own_outputs(own_task(case, model), ours)
    for module, layer in layers.items():
        path = module.removesuffix(".feature_map")
        expected = output if path == "vector" else returned[path]
        if module.endswith(".feature_map"):
            expected = as_map(expected, SPECIAL[case.kind])
        assert found[layer].ndim == expected.ndim, module
        assert_close(found[layer], expected, module)
    (top,) = net.graph.outputs
    assert_close(found[top], output, "output")


def counted(name: str, path: str) -> bool:
    """Whether a parameter is part of the network without its head, where the head is of another task."""
    return name != "vit-no-pooler" or (path.startswith("vit.") and not path.endswith("mask_token"))


def own_task(case: Case, model: nn.Module) -> nn.Module:
    """The library's network without the head of another task."""
    return model.base_model if case.network == "ForMaskedImageModeling" else model


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "distilbert" else pytest.mark.slow) for name in TEXTS]
)
def test_a_text_encoder_has_the_librarys_own_numbers(name: str, tmp_path: Path) -> None:
    case = TEXTS[name]
    model = saved(case, tmp_path, processor=False)
    (tmp_path / "tokenizer.json").write_bytes((tiny_bert() / "tokenizer.json").read_bytes())
    card = roster.from_pretrained(tmp_path, max_length=9)
    assert [layer.name for layer in card.layers] == ["layer1", "layer2"]
    assert card.parameters == sum(parameter.numel() for parameter in roster.load(card).parameters())
    net = network(card, None, 0)
    ids = np.random.default_rng(1).integers(5, 40, (3, 9))
    mask = (np.arange(9) < np.array([[9], [4], [6]])).astype(np.int64)
    ids[mask == 0] = model.config.pad_token_id
    with torch.inference_mode():
        outputs = model.base_model(torch.from_numpy(ids), torch.from_numpy(mask), output_hidden_states=True)
    states = [state.numpy() for state in outputs.hidden_states[1:]]
    for pooling in ("mean", "cls"):
        targets = list(net.targets(2, pooling))
        found = net.traced.run(dict(zip(net.graph.inputs, (ids, mask), strict=True)), targets)
        for target, state in zip(targets, states, strict=True):
            mean = (state * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            assert_close(found[target], mean if pooling == "mean" else state[:, 0], target)


# ---- layers and classes


LAYERS = {
    "vit": ["stem", "block1", "block2", "block3", "pool", "fc"],
    "deit-teacher": ["stem", "block1", "block2", "block3"],
    "swin": ["stem", "stage1_block1", "stage1_block2", "stage2_block1", "stage2_block2", "pool", "fc"],
    "convnext": ["stem", "stage1_block1", "stage2_block1", "stage2_block2", "pool", "fc"],
    "resnet": ["conv1", "conv2_1", "conv3_1", "conv3_2", "pool5", "fc6"],
    "regnet-x": ["stem", "stage1_block1", "stage2_block1", "stage2_block2", "pool", "fc"],
    "efficientnet": ["stem", *(f"block{number}" for number in range(1, 8)), "head", "pool", "fc"],
    "mobilenet-v1": ["conv1", *(f"{kind}{number}" for number in range(1, 14) for kind in ("dw", "pw")), "pool", "fc"],
    "mobilenet-v2": [*(f"block{number}" for number in range(1, 18)), "conv18", "pool", "fc"],
}
PLAIN = Preprocessing(crop=32)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_the_fields_names_from_the_bottom_to_the_top(name: str, tmp_path: Path) -> None:
    saved(IMAGES[name], tmp_path, processor=False)
    card = roster.from_pretrained(tmp_path, preprocessing=PLAIN)
    assert [layer.name for layer in card.layers] == LAYERS[name]
    # In the order in which they run, each under its own path.
    modules = [layer.module for layer in card.layers]
    assert [layer.module for layer in card.resolve([*reversed(LAYERS[name])])] == modules
    roster.register(card)
    roster.unregister(card.name)


def test_tokens_of_patches_are_a_feature_map_and_a_pooled_vector_is_none(tmp_path: Path) -> None:
    saved(IMAGES["swin"], tmp_path, processor=False)
    # 16 channels of the last stage: a square, as if they were patches.
    net = network(roster.from_pretrained(tmp_path, preprocessing=PLAIN), None, 0)
    shapes = {layer.name: net.graph[net.layer(layer)].output_shape for layer in net.card.layers}
    assert shapes["stage1_block1"] == (8, 16, 16)
    assert shapes["stage2_block2"] == (16, 8, 8)
    assert shapes["pool"] == (16, 1)


def test_class_names_name_and_reference(tmp_path: Path) -> None:
    folder = tmp_path / "vit-base.v2"
    saved(IMAGES["vit-named-classes"], folder, processor=False)
    card = roster.from_pretrained(f"{folder}/", preprocessing=PLAIN)
    assert card.class_names == ("cat", "dog", "bird", "fish", "snail")
    assert card.name == "vit_base_v2"
    assert card.weights == str(folder / "model.safetensors")
    assert card.reference == f"ViTForImageClassification of transformers, {folder}/"
    saved(IMAGES["convnext"], tmp_path / "numbers", processor=False)
    assert roster.from_pretrained(tmp_path / "numbers", preprocessing=PLAIN).class_names is None


# ---- weights


def test_half_precision_and_torchs_own_file(tmp_path: Path) -> None:
    model = saved(IMAGES["vit"], tmp_path, processor=False)
    (tmp_path / "model.safetensors").unlink()
    torch.save({key: tensor.half() for key, tensor in model.state_dict().items()}, tmp_path / "pytorch_model.bin")
    card = roster.from_pretrained(tmp_path, preprocessing=PLAIN)
    loaded = roster.load(card)  # the card's own weights, not random ones
    pixels = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32))
    expected = model.half().float()(pixels).logits
    assert loaded.classifier.weight.dtype == torch.float32
    np.testing.assert_allclose(loaded(pixels).numpy(), expected.numpy(), atol=1e-5)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    model = saved(IMAGES["vit"], tmp_path, processor=False)
    card = roster.from_pretrained(tmp_path, preprocessing=PLAIN)
    state = model.state_dict()
    missing = {key: tensor for key, tensor in state.items() if not key.startswith("classifier")}
    with pytest.raises(WeightsError, match=r"ViTForImageClassification: 2 missing: classifier.bias, classifier.weight"):
        roster.load(card, missing)
    with pytest.raises(WeightsError, match=r"1 unexpected: tail.weight"):
        roster.load(card, {**state, "tail.weight": torch.zeros(2)})
    with pytest.raises(WeightsError, match=r"1 of another shape: classifier.weight is \(2, 16\) where the model has"):
        roster.load(card, {**state, "classifier.weight": torch.zeros(2, 16)})


# ---- what is refused


def write(folder: Path, name: str, content: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, r"has no config.json: give a folder of save_pretrained"),
        ("{", r"config.json of .* is not JSON"),
        ([], r"has no model_type"),
        ({"model_type": "no_such_kind"}, r"config.json of .* must be a configuration of transformers \d"),
        ({"model_type": "gpt2"}, r"kind 'gpt2', which reads neither images nor text as these do: bert, roberta"),
        (
            {"model_type": "ours", "architectures": ["Ours"], "auto_map": {}},
            r"brings code of its own, which is not run",
        ),
        ({"model_type": "vit", "num_channels": 1}, r"reads images of 1 channels"),
        ({"model_type": "vit"}, r"has no model.safetensors and no pytorch_model.bin"),
    ],
)
def test_another_folder_is_refused(config: Any, message: str, tmp_path: Path) -> None:
    if config is not None:
        write(tmp_path, "config.json", config)
    with pytest.raises((InvalidArgumentError, WeightsError), match=message):
        roster.from_pretrained(tmp_path)


def test_what_the_folder_lacks_is_named(tmp_path: Path) -> None:
    saved(IMAGES["vit"], tmp_path, processor=False)
    with pytest.raises(InvalidArgumentError, match=r"no preprocessor_config.json.*give preprocessing="):
        roster.from_pretrained(tmp_path)
    with pytest.raises(
        InvalidArgumentError, match=r"ViTForImageClassification of .* does not run on pictures of 48 px.*match"
    ):
        roster.from_pretrained(tmp_path, preprocessing=Preprocessing(crop=48))
    (tmp_path / "model.safetensors").rename(tmp_path / "model.safetensors.index.json")
    with pytest.raises(WeightsError, match=r"weights in several files.*max_shard_size"):
        roster.from_pretrained(tmp_path, preprocessing=PLAIN)


def test_transformers_is_needed_where_a_network_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(IMAGES["vit"], tmp_path, processor=False)
    card = roster.from_pretrained(tmp_path, preprocessing=PLAIN)
    monkeypatch.setitem(sys.modules, "transformers", None)
    for call in (lambda: roster.from_pretrained(tmp_path), card.builder):
        with pytest.raises(ImportError, match=r"cerebro-spark\[pretrained\].*where the Spark workers run"):
            call()
    # A text encoder is built without it.
    assert roster.from_pretrained(tiny_bert()).name == "tiny_bert"
