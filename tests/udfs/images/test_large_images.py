"""Images of too many pixels: JPEG files are decoded at a fraction of their size, others are refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from udfs.arrow import RowError
from udfs.images import ImageError, Preprocessing, decode
from udfs.inference import ImageFeed
from udfs.serving import FeedReader

WIDTH, HEIGHT = 1500, 1100
SMALL = Preprocessing(crop=32, resize=40)


def file_of(kind: str, size: tuple[int, int] = (WIDTH, HEIGHT), **options: Any) -> bytes:
    across, down = np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1])
    pixels = np.stack(np.broadcast_arrays(across[None, :], down[:, None], np.float64(90)), 2).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def limited(max_pixels: int, crop: int = 32, resize: Any = 40) -> Preprocessing:
    return Preprocessing(crop=crop, resize=resize, max_pixels=max_pixels)


@pytest.mark.parametrize("shrinks", [2, 4, 8])
def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(shrinks: int) -> None:
    content = file_of("JPEG", quality=95)
    most = (WIDTH // shrinks + 1) * (HEIGHT // shrinks + 1)
    with pytest.raises(ImageError, match="too many pixels"):
        decode(content, limited(most))
    np.testing.assert_allclose(decode(content, limited(most), draft=True), decode(content, SMALL), atol=0.08)


def test_images_within_the_limit_are_decoded_exactly() -> None:
    for content in (file_of("JPEG"), file_of("JPEG", progressive=True), file_of("PNG")):
        np.testing.assert_array_equal(decode(content, limited(WIDTH * HEIGHT), draft=True), decode(content, SMALL))


@pytest.mark.parametrize("turn", [3, 6, 8])
def test_it_is_turned_upright(turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    content = file_of("JPEG", exif=exif, quality=95)
    np.testing.assert_allclose(decode(content, limited(200_000), draft=True), decode(content, SMALL), atol=0.08)


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_an_incomplete_one_is_an_error(cut: float) -> None:
    content = file_of("JPEG")
    with pytest.raises(ImageError, match="truncated or corrupt JPEG"):
        decode(content[: int(cut * len(content))] + b"\xff\xd9", limited(200_000), draft=True)


@pytest.mark.parametrize(
    ("content", "preprocessing"),
    [
        (file_of("PNG"), limited(200_000)),
        (file_of("WEBP"), limited(200_000)),
        (file_of("JPEG", progressive=True), limited(200_000)),
        (file_of("JPEG"), limited(WIDTH * HEIGHT // 70)),
        (file_of("JPEG"), limited(WIDTH * HEIGHT // 2, resize=600)),
        (file_of("JPEG"), limited(WIDTH * HEIGHT // 2, resize=(300, 800))),
    ],
)
def test_others_are_refused(content: bytes, preprocessing: Preprocessing) -> None:
    """A file of several scans is kept in memory at full size, and no size may fall below what the model reads."""
    with pytest.raises(ImageError, match="too many pixels"):
        decode(content, preprocessing, draft=True)


@pytest.mark.parametrize(("crop", "most"), [(32, 1 << 23), (224, 256 * 224**2), (4096, 178_956_970)])
def test_the_limit_of_a_served_model_follows_its_input(crop: int, most: int) -> None:
    reader = FeedReader((ImageFeed("image", "x", Preprocessing(crop=crop)),))
    side = int(most**0.5) + 1
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    with pytest.raises(RowError, match=rf"{side} x {side} is more than {most}. Resize the image before sending it"):
        reader.read({"image": np.frombuffer(file.getvalue(), np.uint8)})


def test_a_photograph_of_12_megapixels_is_read_by_a_small_model() -> None:
    reader = FeedReader((ImageFeed("image", "x", SMALL),))
    content = np.frombuffer(file_of("JPEG", (4032, 3024)), np.uint8)
    assert reader.read({"image": content})["x"].shape == (3, 32, 32)
