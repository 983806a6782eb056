from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import sklearn.datasets
from PIL import Image
from skimage.feature import hog as reference

from udfs.images import ImageError, hog, hog_length

PHOTOGRAPH = Image.fromarray(sklearn.datasets.load_sample_image("flower.jpg"))


def encode(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def stripes(*, vertical: bool) -> Image.Image:
    wave = np.tile((127 + 120 * np.sin(np.arange(128) / 4)).astype(np.uint8), (128, 1))
    return Image.fromarray(wave if vertical else wave.T).convert("RGB")


def test_the_numbers_are_scikit_images() -> None:
    picture = np.asarray(PHOTOGRAPH.resize((128, 128), Image.Resampling.BILINEAR))
    result = hog(encode(PHOTOGRAPH))
    assert result.dtype == np.float32
    expected = reference(picture, orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2), channel_axis=-1)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    assert result.std() > 0.01


def test_the_bins_tell_directions_apart() -> None:
    upright = hog(encode(stripes(vertical=True))).reshape(-1, 9).sum(axis=0)
    lying = hog(encode(stripes(vertical=False))).reshape(-1, 9).sum(axis=0)
    assert upright.argmax() != lying.argmax()
    assert upright.max() > 0.9 * upright.sum()


def test_colour_counts_where_brightness_is_level() -> None:
    picture = Image.new("RGB", (128, 128), (200, 0, 0))
    picture.paste((0, 102, 0), (64, 0, 128, 128))
    assert np.ptp(np.asarray(picture.convert("L"))) < 2
    assert hog(encode(picture)).max() > 0.1


@pytest.mark.parametrize("image", [PHOTOGRAPH, PHOTOGRAPH.resize((1, 1)), PHOTOGRAPH.convert("L")])
@pytest.mark.parametrize("size", [16, 60, 128])
@pytest.mark.parametrize("shape", [(9, 8, 2), (6, 5, 3), (4, 16, 1)])
def test_the_length_is_known_beforehand(image: Image.Image, size: int, shape: tuple[int, int, int]) -> None:
    options = dict(zip(("orientations", "pixels_per_cell", "cells_per_block"), shape, strict=True))
    result = hog(encode(image), size, **options)
    assert result.shape == (hog_length(size, **options),)
    assert np.isfinite(result).all()


def test_no_block_fits() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        hog_length(15)
    with pytest.raises(ValueError, match="at least 16"):
        hog(encode(PHOTOGRAPH), 8)
    with pytest.raises(ValueError, match="at least 1"):
        hog_length(128, cells_per_block=0)


@pytest.mark.parametrize("value", [None, b"", b"hello", encode(PHOTOGRAPH)[:5000], "/no/such/file.png"])
def test_bad_images(value: object) -> None:
    with pytest.raises(ImageError):
        hog(value)


def test_without_scikit_image_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(ImportError, match=r"cerebro-spark\[demo\]"):
        hog(encode(PHOTOGRAPH))
