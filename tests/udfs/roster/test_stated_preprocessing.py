"""Preprocessing that other libraries state: the pixels of the libraries' own transforms, or a refusal."""

from __future__ import annotations

import dataclasses
import enum
import io
import math
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
from torch import nn

from udfs.images import decode
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError

HALF = (0.5, 0.5, 0.5)
BASE: dict[str, Any] = {"input_size": (3, 32, 32), "mean": HALF, "std": HALF, "interpolation": "bicubic"}
SIZES = [(50, 70), (71, 49), (33, 33), (20, 41), (200, 31)]


def network(configuration: Any) -> nn.Module:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    net.pretrained_cfg = configuration
    return net


def picture(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8))


def cropped(image: Image.Image, side: int) -> Image.Image:
    """Centre crop of torchvision, which pads first."""
    width, height = image.size
    if width < side or height < side:
        left, top = (max(0, (side - length) // 2) for length in (width, height))
        padded = Image.new("RGB", (max(width, side), max(height, side)))
        padded.paste(image, (left, top))
        image, (width, height) = padded, padded.size
    left, top = round((width - side) / 2.0), round((height - side) / 2.0)
    return image.crop((left, top, left + side, top + side))


def shorter(image: Image.Image, side: int, resample: Image.Resampling) -> Image.Image:
    """Resize of torchvision, by the shorter side."""
    short, long = sorted(image.size)
    extents = (side, int(side * long / short))
    return image.resize(extents if image.width <= image.height else extents[::-1], resample)


def tensor(image: Image.Image, mean: Any, std: Any) -> np.ndarray:
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    return (pixels - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))


def timms(image: Image.Image, configuration: dict[str, Any]) -> np.ndarray:
    """Evaluation transform of timm for a configuration (``timm/data/transforms_factory.py``)."""
    side = configuration["input_size"][-1]
    scaled = math.floor(side / configuration.get("crop_pct", 0.875))
    resample = Image.Resampling[configuration.get("interpolation", "bicubic").upper()]
    if configuration.get("crop_mode") == "squash":
        image = image.resize((scaled, scaled), resample)
    else:
        image = shorter(image, scaled, resample)
    return tensor(cropped(image, side), configuration["mean"], configuration["std"])


def assert_same(ours: np.ndarray, theirs: np.ndarray, std: float = 0.5) -> None:
    assert np.abs(ours - theirs).max() * std * 255 <= 1


def encoded(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "stated",
    [
        {"crop_pct": 0.9},
        {"crop_pct": 0.9, "crop_mode": "center"},
        {"crop_pct": 0.95, "interpolation": "bilinear"},
        {"crop_pct": 1.0, "interpolation": "lanczos"},
        {"crop_pct": 0.9, "crop_mode": "squash"},
        {"crop_pct": 1.0, "crop_mode": "squash", "interpolation": "nearest"},
        {},
    ],
    ids=str,
)
def test_pixels_are_timms(stated: dict[str, Any], size: tuple[int, int]) -> None:
    configuration = BASE | stated
    card = roster.of(network(configuration))
    assert not card.assumed
    assert_same(decode(encoded(picture(*size)), card.preprocessing), timms(picture(*size), configuration))


def test_another_size_keeps_the_share_that_is_cropped() -> None:
    card = roster.of(network(BASE | {"crop_pct": 0.9}), image_size=64)
    other = BASE | {"crop_pct": 0.9, "input_size": (3, 64, 64)}
    assert_same(decode(encoded(picture(90, 100)), card.preprocessing), timms(picture(90, 100), other))


def test_a_configuration_is_a_dataclass_in_newer_versions() -> None:
    @dataclasses.dataclass
    class PretrainedCfg:
        input_size: tuple[int, int, int] = (3, 32, 32)
        crop_pct: float = 0.9
        crop_mode: str = "squash"
        interpolation: str = "bicubic"
        mean: tuple[float, ...] = HALF
        std: tuple[float, ...] = HALF

    assert roster.of(network(PretrainedCfg())).preprocessing.resize == (35, 35)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"crop_mode": "border"}, 'pretrained_cfg must have crop_mode "center" or "squash".*got \'border\''),
        ({"interpolation": "random"}, "interpolation of nearest, .* got 'random'"),
        ({"input_size": (3, 32, 48)}, r"one side length .*got \(3, 32, 48\)"),
        ({"input_size": (1, 32, 32)}, "input_size of three channels"),
    ],
)
def test_what_cannot_be_applied_in_full_is_refused(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{message}.*Pass preprocessing="):
        roster.of(network(BASE | stated))


class InterpolationMode(enum.Enum):
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class ImageClassification:
    """Preset of the same name in ``torchvision.transforms``, written for pictures of Pillow."""

    def __init__(self, *, crop_size: int, resize_size: int, interpolation: InterpolationMode) -> None:
        self.crop_size, self.resize_size, self.interpolation = [crop_size], [resize_size], interpolation
        self.mean, self.std, self.antialias = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], True

    def __call__(self, image: Image.Image) -> torch.Tensor:
        resample = Image.Resampling[self.interpolation.name]
        image = cropped(shorter(image, self.resize_size[0], resample), self.crop_size[0])
        return torch.from_numpy(tensor(image, self.mean, self.std))


@pytest.mark.parametrize("mode", InterpolationMode)
def test_pixels_are_torchvisions(mode: InterpolationMode) -> None:
    transform = ImageClassification(crop_size=32, resize_size=39, interpolation=mode)
    card = roster.of(network(None), preprocessing=transform)
    for size in SIZES:
        ours = decode(encoded(picture(*size)), card.preprocessing)
        assert_same(ours, transform(picture(*size)).numpy(), 0.229)


class Resize:
    def __init__(self, size: Any) -> None:
        self.size, self.interpolation = size, InterpolationMode.BILINEAR

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)


class ToTensor:
    def __call__(self, image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


class Invert:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return 1 - image


class Compose:
    def __init__(self, *transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


def test_steps_of_torchvision_are_read() -> None:
    card = roster.of(network(None), preprocessing=Compose(Resize([32, 32]), ToTensor()))
    assert_same(
        decode(encoded(picture(50, 70)), card.preprocessing), ToTensor()(Resize([32, 32])(picture(50, 70))).numpy(), 1
    )


@pytest.mark.parametrize(
    "transform",
    [
        Compose(Resize([32, 32]), ToTensor(), Invert()),
        Compose(Resize([32, 48]), ToTensor()),
        Compose(ToTensor()),
        lambda image: image,
    ],
    ids=["a step that is not known", "rectangles", "no size", "a function"],
)
def test_a_transform_with_other_pixels_is_refused(transform: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="preprocessing must resize, crop to a square, scale and normalise"):
        roster.of(network(None), preprocessing=transform)


def test_an_object_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"preprocessing must be a Preprocessing, .* got a int"):
        roster.of(network(None), preprocessing=224)
