"""The networks of ``keras.applications`` as models of the roster: layers, preprocessing, weights."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cards import registered
from photographs import crops, encode
from PIL import Image
from real_inputs import cifar_images, cifar_network

pytest.importorskip("tensorflow")

from udfs.handlers import TensorSpec, framework

FRAMEWORK = framework("keras")

import keras
from keras import layers

from optimizer.errors import UnknownLayerError
from udfs import images
from udfs.images import Preprocessing
from udfs.weights import WeightsError
from udfs.weights.keras import fit_weights
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.extended

NAMES = [name for name in roster.names() if roster.card(name).framework == "keras"]

# Spatial size and depth of each named layer at the network's own image size, from the papers' tables.
SHAPES = {
    "keras_vgg16": {"conv1_1": (224, 224, 64), "pool5": (7, 7, 512), "fc6": (4096,), "fc8": (1000,)},
    "keras_resnet50": {"conv1": (112, 112, 64), "conv2_3": (56, 56, 256), "conv5_3": (7, 7, 2048), "pool5": (2048,)},
    "keras_inception_v3": {"conv4a": (71, 71, 192), "mixed_5d": (35, 35, 288), "mixed_7c": (8, 8, 2048), "fc": (1000,)},
    "keras_densenet121": {"dense1": (56, 56, 256), "transition3": (7, 7, 512), "dense4": (7, 7, 1024), "pool": (1024,)},
    "keras_mobilenet_v2": {"block1": (112, 112, 16), "block3": (56, 56, 24), "block17": (7, 7, 320), "pool": (1280,)},
    "keras_efficientnet_b0": {"stem": (112, 112, 32), "block4c": (14, 14, 80), "top": (7, 7, 1280), "fc": (1000,)},
}

# Multiply-adds of one image, in units of 1e9, from the papers; of ResNet-50 its first version, with stride in the 1x1.
PUBLISHED = {
    "keras_vgg16": 15.5,
    "keras_resnet50": 3.86,
    "keras_inception_v3": 5.71,
    "keras_densenet121": 2.85,
    "keras_mobilenet_v2": 0.30,
    "keras_efficientnet_b0": 0.39,
}

# What keras.applications does to RGB bytes.
MODES = {
    "keras_vgg16": "caffe",
    "keras_resnet50": "caffe",
    "keras_inception_v3": "tf",
    "keras_densenet121": "torch",
    "keras_mobilenet_v2": "tf",
}


def tiny(input_shape: tuple[int, int, int] = (8, 8, 3)) -> Any:
    x = keras.Input(input_shape)
    body = keras.Sequential([keras.Input(input_shape), layers.Conv2D(4, 3), layers.ReLU(name="act")], name="body")
    return keras.Model(x, layers.Dense(2, name="head")(layers.GlobalAveragePooling2D()(body(x))))


TINY = ModelCard(
    name="tiny",
    builder=tiny,
    preprocessing=Preprocessing(crop=8, layout="NHWC"),
    layers=(FeatureLayer("act", "body/act"), FeatureLayer("logits", "head")),
    parameters=3 * 4 * 9 + 4 + 4 * 2 + 2,
    reference="none",
    framework="keras",
)


@pytest.fixture
def own_model() -> Iterator[ModelCard]:
    with registered(TINY) as card:
        yield card


def bits(model: Any) -> list[bytes]:
    return [variable.value.numpy().tobytes() for variable in model.weights]


def test_the_roster_is_there_without_keras() -> None:
    code = (
        "import sys; from vista_spark import roster; roster.card('keras_vgg16').resolve(2); "
        "sys.exit(bool({'keras', 'tensorflow'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_tables_cover_the_roster() -> None:
    assert set(NAMES) == set(SHAPES) == set(PUBLISHED) == {*MODES, "keras_efficientnet_b0"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_layers_shapes_parameters_and_flops(name: str) -> None:
    card = roster.card(name)
    network = roster.load(name)
    traced: Any = FRAMEWORK.trace(network, [TensorSpec(card.preprocessing.shape)])
    assert network.count_params() == card.parameters
    order = [traced.paths.index(layer.module) for layer in card.layers]
    assert order == sorted(set(order))
    modules = {layer.name: traced.layer(layer.module) for layer in card.layers}
    for layer, shape in SHAPES[name].items():
        assert traced.graph[modules[layer]].output_shape == shape, layer
    assert modules[card.layers[-1].name] == traced.graph.outputs[0]
    assert traced.graph.flops() / 2e9 == pytest.approx(PUBLISHED[name], rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_cards_travel(name: str) -> None:
    card = roster.card(name)
    assert pickle.loads(pickle.dumps(card)) == card  # (what Spark's closures do)
    assert hash(card) == hash(replace(card))


@pytest.mark.parametrize("name", MODES)
def test_preprocessing_is_that_of_keras(name: str) -> None:
    from keras.src.applications.imagenet_utils import preprocess_input

    picture = next(picture for _, _, _, picture in crops(1))
    preprocessing = replace(roster.card(name).preprocessing, crop=32, resize=None)
    pixels = np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR), np.float32)
    found = images.decode(encode(picture, "PNG"), preprocessing)
    assert found.shape == (32, 32, 3)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, preprocess_input(pixels.copy(), mode=MODES[name]), rtol=0, atol=2e-5)


def test_channels_last_is_the_same_picture() -> None:
    file = encode(next(picture for _, _, _, picture in crops(1)))
    first = Preprocessing(crop=48, resize=56)
    last = replace(first, layout="NHWC")
    assert last.shape == (48, 48, 3)
    np.testing.assert_array_equal(images.decode(file, last), images.decode(file, first).transpose(1, 2, 0))


def test_the_signal_of_random_weights_neither_fades_nor_blows_up() -> None:
    card = roster.card("keras_mobilenet_v2")
    card = replace(card, preprocessing=card.preprocessing.with_size(64))
    network = roster.load(card)
    x = np.random.default_rng(0).uniform(-1, 1, (4, 64, 64, 3)).astype(np.float32)
    logits = network(x, training=False).numpy()
    assert 0.05 < logits.std(axis=0).mean() < 100


def test_random_weights_are_the_seeds_and_the_process_is_left_alone() -> None:
    random.seed(11)
    np.random.seed(11)
    expected = (random.random(), np.random.random(), layers.Dense(1).name)
    random.seed(11)
    np.random.seed(11)
    one = roster.load(TINY, seed=3)
    assert (random.random(), np.random.random()) == expected[:2]
    number = int(expected[2].rpartition("_")[2]) if "_" in expected[2] else 0
    assert layers.Dense(1).name == f"dense_{number + 1}"
    assert bits(roster.load(TINY, seed=3)) == bits(one)
    assert bits(roster.load(TINY, seed=4)) != bits(one)
    keras_one = roster.load("keras_mobilenet_v2", seed=3)
    assert bits(roster.load("keras_mobilenet_v2", seed=3)) == bits(keras_one)
    assert bits(roster.load("keras_mobilenet_v2", seed=4)) != bits(keras_one)


def test_layers_have_one_name_whatever_the_process_built_before() -> None:
    layers.Conv2D(1, 1), layers.GlobalAveragePooling2D()
    first = [layer.name for layer in roster.load("keras_mobilenet_v2").layers]
    assert "global_average_pooling2d" in first
    assert first == [layer.name for layer in roster.load("keras_mobilenet_v2").layers]


# --- weights


@pytest.mark.parametrize("suffix", [".weights.h5", ".h5", ".keras", ""])
def test_weights_go_through_every_format(suffix: str, tmp_path: Path) -> None:
    source = roster.load(TINY, seed=5)
    path = tmp_path / f"weights of mine{suffix or '.weights.h5'}"
    if suffix in (".h5", ".keras"):
        source.save(path)
    else:
        source.save_weights(path)
    if not suffix:
        path = path.rename(tmp_path / "shipped")
    for place in (path, str(path), path.as_uri()):
        assert bits(roster.load(TINY, place)) == bits(source)


def test_weights_that_do_not_fit_say_why(tmp_path: Path) -> None:
    wide = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Conv2D(5, 3)])
    narrow = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3)])
    other = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(7, 3)])
    for model, name in ((wide, "wide"), (narrow, "narrow")):
        model.save_weights(tmp_path / f"{name}.weights.h5")
        model.save(tmp_path / f"{name}.h5")
    for suffix in (".weights.h5", ".h5"):
        with pytest.raises(WeightsError, match=r"do not fit mine: .*2 unexpected: .*\(3, 3, 4, 5\)"):
            fit_weights(narrow, tmp_path / f"wide{suffix}", "mine")
        with pytest.raises(WeightsError, match=r"do not fit mine: .*2 missing: .*\(3, 3, 4, 5\)"):
            fit_weights(wide, tmp_path / f"narrow{suffix}", "mine")
        with pytest.raises(WeightsError, match="do not fit mine"):
            fit_weights(other, tmp_path / f"narrow{suffix}", "mine")
    with pytest.raises(WeightsError, match=r"is \(3, 3, 3, 4\) where the model has \(3, 3, 3, 7\)"):
        fit_weights(other, tmp_path / "narrow.weights.h5", "mine")


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    model = roster.load(TINY)
    (tmp_path / "text.h5").write_text("not at all")
    whole = tmp_path / "whole.weights.h5"
    model.save_weights(whole)
    (tmp_path / "damaged.h5").write_bytes(whole.read_bytes()[:1000])
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    (tmp_path / "state.pt").write_bytes(b"PK\x03\x04 and no more")
    for name, message in {
        "text.h5": "is not a weights file of Keras",
        "damaged.h5": "damaged",
        "other.keras": "is not a weights file of Keras",
        "state.pt": "is not a weights file of Keras",
        "absent.h5": "not there",
    }.items():
        with pytest.raises(WeightsError, match=message):
            roster.load(TINY, tmp_path / name)
    with pytest.raises(InvalidArgumentError, match="not a mapping"):
        roster.load(TINY, {})


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_no_code_of_a_file_is_run(tmp_path: Path) -> None:
    def lambda_model() -> Any:
        return keras.Sequential(
            [keras.Input((3,)), layers.Lambda(lambda x: 1 / 0 if x is None else x), layers.Dense(2)]
        )

    evil, mine = lambda_model(), keras.Sequential([keras.Input((3,)), layers.ReLU(), layers.Dense(2)])
    evil.save(tmp_path / "evil.keras")
    fit_weights(mine, tmp_path / "evil.keras", "mine")
    assert bits(mine) == bits(evil)


def test_real_weights_recognise_real_pictures() -> None:
    model = cifar_network()
    pictures = cifar_images()
    plain = Preprocessing(crop=32, mean=(0, 0, 0), std=(1, 1, 1), scale=1, layout="NHWC")
    batch = np.stack([images.decode(str(path), plain) for path, _ in pictures])
    traced: Any = FRAMEWORK.trace(model, [TensorSpec((32, 32, 3))])
    graph = traced.graph
    cut = graph.cut([graph.names[len(graph) // 2]])
    logits = traced.run(traced.run({graph.inputs[0]: batch}, cut.live), graph.outputs)[graph.outputs[0]]
    assert logits.argmax(axis=1).tolist() == [label for _, label in pictures]


# --- models of one's own


def test_a_model_of_ones_own(own_model: ModelCard) -> None:
    assert roster.names()[-1] == "tiny"
    assert [layer.name for layer in own_model.resolve(2)] == ["act", "logits"]
    assert [layer.name for layer in own_model.resolve(["head", "body/conv2d", "body"])] == [
        "body/conv2d",
        "body",
        "logits",
    ]
    with pytest.raises(UnknownLayerError, match=r"no layer 'heads' in model 'tiny'; did you mean 'head'"):
        own_model.resolve("heads")


def test_a_card_that_contradicts_its_network() -> None:
    with pytest.raises(UnknownLayerError, match=r"no layer 'body/sigmoid' in the network of model 'tiny'"):
        roster.register(replace(TINY, layers=(FeatureLayer("seven", "body/sigmoid"),)))
    with pytest.raises(InvalidArgumentError, match="has 122 parameters, its card says 7"):
        roster.register(replace(TINY, parameters=7))
    with pytest.raises(InvalidArgumentError, match=r"got 'kears'; did you mean 'keras'\?"):
        roster.register(replace(TINY, framework="kears"))
    assert "tiny" not in roster.names()


def test_the_image_size_reaches_a_builder_that_takes_it() -> None:
    small = roster.load(replace(TINY, preprocessing=TINY.preprocessing.with_size(6)))
    assert small.input_shape == (None, 6, 6, 3)
    fixed = replace(TINY, builder=lambda: tiny())  # noqa: PLW0108 - takes no argument
    assert roster.load(replace(fixed, preprocessing=TINY.preprocessing.with_size(6))).input_shape == (None, 8, 8, 3)
