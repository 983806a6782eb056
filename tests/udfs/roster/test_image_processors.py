"""Image processors of ``transformers`` as a Preprocessing: the same pixels on real photographs, or a refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers", reason='pip install "cerebro-spark[pretrained]"')

from photographs import encode, photograph

from udfs.images import Preprocessing, decode
from udfs.roster._image_processor import read_preprocessing
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, kind: str, settings: dict[str, Any], file: str = "preprocessor_config.json") -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / file).write_text(json.dumps(settings))


def square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


HALF = (0.5, 0.5, 0.5)
SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("vit", {"image_processor_type": "ViTImageProcessor", "size": square(48)}, {"crop": 48}),
    # As older versions wrote it.
    ("vit", {"feature_extractor_type": "ViTFeatureExtractor", "size": 48, "resample": 3}, {"resample": "bicubic"}),
    ("convnext", {"feature_extractor_type": "ConvNextFeatureExtractor", "size": 48}, {"resize": 54, "crop": 48}),
    ("convnext", {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}}, {"resize": None}),
    (
        "deit",
        {"image_processor_type": "DeiTImageProcessor", "size": square(61), "crop_size": square(48)},
        {"resize": (61, 61)},
    ),
    (
        "efficientnet",
        {
            "image_processor_type": "EfficientNetImageProcessor",
            "size": square(48),
            "rescale_offset": True,
            "rescale_factor": 1 / 127.5,
            "include_top": True,
            "resample": 0,
        },
        {"mean": (1.5, 1.5, 1.5), "std": (0.25, 0.25, 0.25), "resample": "nearest"},
    ),
    (
        "mobilenet_v1",
        {"image_processor_type": "MobileNetV1ImageProcessor", "size": {"shortest_edge": 57}, "crop_size": square(48)},
        {"mean": HALF, "resize": 57, "crop_start": "floor"},
    ),
    (
        "vit",
        {"image_processor_type": "ViTImageProcessor", "size": square(48), "do_rescale": False, "do_normalize": False},
        {"scale": 1.0, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)},
    ),
    (
        "levit",
        {"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 56}, "crop_size": square(56)},
        {"resize": 64},
    ),
    ("mobilevit", {"image_processor_type": "MobileViTImageProcessor", "crop_size": square(48)}, {"channels": "BGR"}),
]


@pytest.mark.parametrize(("kind", "settings", "expected"), SAME)
def test_a_processor_is_mapped_to_the_same_pixels(
    kind: str, settings: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, kind, settings)
    preprocessing = read_preprocessing(tmp_path, "folder")
    assert {name: getattr(preprocessing, name) for name in expected} == expected
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    for picture in (photograph("china").resize((301, 200)), photograph("flower").crop((9, 9, 160, 280))):
        theirs = np.asarray(processor(picture, return_tensors="np")["pixel_values"][0])
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(decode(encode(picture, "PNG"), preprocessing), theirs, atol=2e-6 * scale)


def test_settings_within_those_of_a_processor(tmp_path: Path) -> None:
    settings = {"image_processor_type": "ViTImageProcessor", "size": square(24), "image_mean": [0.1, 0.2, 0.3]}
    write(tmp_path, "vit", {"image_processor": settings}, "processor_config.json")
    assert read_preprocessing(tmp_path, "folder").mean == (0.1, 0.2, 0.3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": {"height": 32, "width": 48}}, "rectangles of 32 x 48 pixels"),
        ({"size": {"shortest_edge": 48}}, "shorter side to 48 and does not crop"),
        ({"size": {"shortest_edge": 48, "longest_edge": 96}}, "resizes by .*longest_edge"),
        ({"size": square(32), "do_resize": False}, "does not resize"),
        ({"size": square(32), "do_pad": True}, "pads"),
        ({"size": square(32), "image_mean": [0.5], "image_std": [0.5, 0.5]}, "has 2 channels"),
        ({"image_processor_type": "SegformerNoSuchProcessor"}, r"cannot be read \(ValueError"),
    ],
)
def test_what_no_preprocessing_does_is_refused_in_words(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, "vit", {"image_processor_type": "ViTImageProcessor", **settings})
    with pytest.raises(
        InvalidArgumentError, match=rf"preprocessing must be set for folder, whose image processor.*{message}"
    ):
        read_preprocessing(tmp_path, "folder")


def test_a_mapping_is_proved_on_pictures_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "image_processor_type": "MobileNetV1ImageProcessor",
        "size": {"shortest_edge": 57},
        "crop_size": square(48),
    }
    write(tmp_path, "mobilenet_v1", settings)
    right = read_preprocessing(tmp_path, "folder")
    for wrong in (
        {"resample": "bicubic"},
        {"crop_start": "rounded"},
        {"scale": 1 / 256},
        {"mean": (0.5, 0.5, 0.49)},
        {"resize": 56},
        {"channels": "BGR"},
    ):
        changed = Preprocessing(**{name: getattr(right, name) for name in right.__slots__} | wrong)
        monkeypatch.setattr("udfs.roster._image_processor._mapped", lambda _processor, made=changed: made)
        with pytest.raises(InvalidArgumentError, match="pixels that differ by up to"):
            read_preprocessing(tmp_path, "folder")
