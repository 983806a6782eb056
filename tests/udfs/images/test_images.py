from __future__ import annotations

import ast
import errno
import io
import pickle
import struct
import subprocess
import sys
import textwrap
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, features

from optimizer.errors import InvalidArgumentError
from udfs import images
from udfs.images import (
    IMAGE_REASONS,
    MAX_PIXELS,
    ImageError,
    Preprocessing,
    _isobmff,
    decode,
    open_rgb,
    picture_geometry,
)
from udfs.inference import _feeds

PIXELS = Preprocessing(crop=32, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1.0)
PHOTOGRAPH = Image.fromarray(sklearn.datasets.load_sample_image("china.jpg"))
SMALL = PHOTOGRAPH.resize((64, 48))
ORIENTATION = 0x0112


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def flat(colour: Any, mode: str = "RGB", size: tuple[int, int] = (8, 8)) -> Image.Image:
    return Image.new(mode, size, colour)


def rgb(value: Any) -> np.ndarray:
    return np.asarray(open_rgb(value))


def attempt(value: Any) -> np.ndarray | ImageError:
    try:
        return rgb(value)
    except ImageError as error:
        return error


def exif(orientation: int) -> Image.Exif:
    block = Image.Exif()
    block[ORIENTATION] = orientation
    return block


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_claiming(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    )


SMALL_PNG = encode(SMALL)


def torchvision_pipeline(image: Image.Image, p: Preprocessing) -> np.ndarray:
    """Resize, CenterCrop, ToTensor and Normalize, written out from torchvision's functional API."""
    width, height = image.size
    resample = Image.Resampling[p.resample.upper()]
    if p.resize is None:
        image = image.resize((p.crop, p.crop), resample)
    elif isinstance(p.resize, tuple):
        image = image.resize(p.resize[::-1], resample)
    else:
        short, long = (width, height) if width <= height else (height, width)
        new_short, new_long = p.resize, int(p.resize * long / short)
        size = (new_short, new_long) if width <= height else (new_long, new_short)
        image = image.resize(size, resample)
    width, height = image.size
    if p.crop > width or p.crop > height:
        left = (p.crop - width) // 2 if p.crop > width else 0
        top = (p.crop - height) // 2 if p.crop > height else 0
        right = (p.crop - width + 1) // 2 if p.crop > width else 0
        bottom = (p.crop - height + 1) // 2 if p.crop > height else 0
        image = ImageOps.expand(image, (left, top, right, bottom), fill=0)
        width, height = image.size
    pixels = np.asarray(image)
    top, left = round((height - p.crop) / 2.0), round((width - p.crop) / 2.0)
    pixels = pixels[top : top + p.crop, left : left + p.crop].astype(np.float64) * p.scale
    if p.channels == "BGR":
        pixels = pixels[:, :, ::-1]
    return ((pixels - p.mean) / p.std).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (301, 301), (256, 256), (90, 411), (257, 256), (40, 30)])
@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing(crop=224, resize=256),
        Preprocessing(crop=227, resize=256, channels="BGR", mean=(104.0, 117.0, 123.0), std=(1.0, 1.0, 1.0), scale=1.0),
        Preprocessing(crop=299),
        Preprocessing(crop=225, resize=224),
        Preprocessing(crop=97, resize=64),
        Preprocessing(crop=224, resize=(256, 259), resample="bicubic"),
        Preprocessing(crop=97, resize=120, resample="lanczos"),
        Preprocessing(crop=97, resample="nearest"),
    ],
)
def test_the_numbers_are_torchvisions(size: tuple[int, int], preprocessing: Preprocessing) -> None:
    image = PHOTOGRAPH.resize(size, Image.Resampling.BICUBIC)
    result = decode(encode(image), preprocessing)
    assert result.shape == preprocessing.shape
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, torchvision_pipeline(image, preprocessing), rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop": (224, 160)}, r"crop of .*got \(224, 160\).*squares. Give crop=224.*x\[:, :, :height, :width\]"),
        ({"crop": 224, "resize": [256, 200, 3]}, r"resize of .*got \[256, 200, 3\].*Give resize=256"),
        ({"crop": 224, "resize": (256, 0)}, r"resize of .*a positive number of pixels.*got 0"),
        ({"crop": 224, "resample": "cubic"}, r"resample of .*one of nearest, bilinear, bicubic, .*got 'cubic'"),
        ({"crop": 224, "crop_start": "centre"}, r"crop_start of .*one of rounded, floor, got 'centre'"),
        ({"crop": 0}, "crop of .*a positive number of pixels.*got 0"),
        ({"crop": 224.5}, r"crop of .*number of pixels.*got 224\.5"),
        ({"crop": "224"}, "crop of .*number of pixels.*got '224'"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_written(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Preprocessing(**settings)


def test_another_input_size_keeps_the_proportion_of_a_pair() -> None:
    assert Preprocessing(crop=224, resize=[256, 320]).with_size(112).resize == (128, 160)
    assert Preprocessing(crop=224, resize=(256, 256)) == Preprocessing(crop=224, resize=[256, 256])


@pytest.mark.parametrize(("size", "start"), [((32, 35), (0, 1)), ((33, 37), (0, 2)), ((40, 29), (4, -2))])
def test_a_crop_that_starts_at_the_floor(size: tuple[int, int], start: tuple[int, int]) -> None:
    # torchvision begins at (0, 2), (0, 2) and (4, -1).
    floor = Preprocessing(crop=32, resize=size, mean=(0.0,) * 3, std=(1.0,) * 3, crop_start="floor")
    picture = PHOTOGRAPH.resize(size[::-1])
    (top, left) = start
    wanted = np.asarray(picture.crop((left, top, left + 32, top + 32)), np.float32).transpose(2, 0, 1)
    np.testing.assert_allclose(decode(encode(picture), floor), wanted / 255, atol=1e-6)
    assert picture_geometry(size, floor).offset == start


def test_a_size_of_numpy_is_a_size() -> None:
    numbers: dict[str, Any] = {"crop": np.int64(224), "resize": np.int32(256)}
    assert repr(Preprocessing(**numbers)) == repr(Preprocessing(crop=224, resize=256))


def test_the_arithmetic_is_float32_of_the_documented_formula_bit_for_bit() -> None:
    p = Preprocessing(crop=32)
    pixels = np.asarray(SMALL.resize((32, 32), Image.Resampling.BILINEAR), np.float32)
    expected = (pixels * np.float32(p.scale) - np.float32(p.mean)) / np.float32(p.std)
    np.testing.assert_array_equal(decode(encode(SMALL), p), expected.transpose(2, 0, 1))


def test_out_is_filled_and_returned_and_left_alone_by_a_bad_image() -> None:
    batch = np.full((2, 3, 32, 32), 7, np.float32)
    row = batch[0]
    assert decode(encode(SMALL), PIXELS, out=row) is row
    np.testing.assert_array_equal(batch[0], decode(encode(SMALL), PIXELS))
    with pytest.raises(ImageError):
        decode(encode(SMALL)[:-100], PIXELS, out=batch[1])
    assert (batch[1] == 7).all()
    with pytest.raises(ValueError, match="out must be float32"):
        decode(encode(SMALL), PIXELS, out=np.empty((32, 32, 3), np.float32))
    with pytest.raises(ValueError, match="out must be float32"):
        decode(encode(SMALL), PIXELS, out=np.empty((3, 32, 32)))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_deflate"}),
    ],
)
def test_lossless_formats_come_back_exactly(kind: str, options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(rgb(encode(SMALL, kind, **options)), np.asarray(SMALL))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 2}])
def test_jpeg_comes_back_closely(options: dict[str, Any]) -> None:
    difference = rgb(encode(SMALL, "JPEG", quality=95, **options)).astype(int) - np.asarray(SMALL)
    assert np.abs(difference).mean() < 8


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_bytes_like_value(wrap: Any) -> None:
    np.testing.assert_array_equal(rgb(wrap(encode(SMALL))), np.asarray(SMALL))


def test_the_first_frame_of_an_animation() -> None:
    frames = [flat(c) for c in ("red", "green", "blue")]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:])
        np.testing.assert_allclose(rgb(data), np.asarray(frames[0]), atol=4)


# --- colour modes


def test_grey_palette_and_bilevel() -> None:
    grey = SMALL.convert("L")
    np.testing.assert_array_equal(rgb(encode(grey)), np.asarray(grey.convert("RGB")))
    np.testing.assert_array_equal(
        rgb(encode(grey, "JPEG", quality=100))[..., 0], rgb(encode(grey, "JPEG", quality=100))[..., 2]
    )
    palette = SMALL.quantize(16)
    for kind in ("PNG", "GIF", "BMP", "TIFF"):
        np.testing.assert_array_equal(rgb(encode(palette, kind)), np.asarray(palette.convert("RGB")))
    bilevel = SMALL.convert("1")
    for kind in ("PNG", "TIFF", "BMP"):
        values = rgb(encode(bilevel, kind))
        np.testing.assert_array_equal(values[..., 1] == 255, np.asarray(bilevel))
        assert set(np.unique(values)) == {0, 255}


def test_transparency_is_laid_over_white_exactly() -> None:
    colour, alpha = np.meshgrid(np.arange(256), np.arange(256))
    pixels = np.stack([colour, 255 - colour, colour, alpha], axis=-1).astype(np.uint8)
    # Never halfway between two integers, since 255 is odd: rounding is unambiguous.
    expected = np.rint((pixels[..., :3] * alpha[..., None] + 255.0 * (255 - alpha[..., None])) / 255)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(pixels, "RGBA"))), expected)
    grey = np.stack([colour, alpha], axis=-1).astype(np.uint8)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(grey, "LA")))[..., 0], expected[..., 0])
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(pixels, "RGBA"), "TIFF")), expected)


def test_the_colour_under_transparent_pixels_does_not_show() -> None:
    for image in (flat((255, 0, 0, 0), "RGBA"), flat((0, 0), "LA")):
        assert (rgb(encode(image)) == 255).all()
    assert (rgb(encode(flat((255, 0, 0, 0), "RGBA"), "WEBP", lossless=True, exact=True)) == 255).all()


def test_a_transparent_key_colour_becomes_white() -> None:
    half = flat(10, "L")
    half.paste(200, (0, 0, 4, 8))
    expected = np.where(np.asarray(half) == 10, 255, 200)
    np.testing.assert_array_equal(rgb(encode(half, transparency=10))[..., 0], expected)
    np.testing.assert_array_equal(rgb(encode(half.convert("RGB"), transparency=(10, 10, 10)))[..., 0], expected)
    palette = half.convert("P")
    for kind in ("PNG", "GIF"):
        np.testing.assert_array_equal(rgb(encode(palette, kind, transparency=10))[..., 0], expected)
    # As a table of alphas, which Pillow warns about when it is dropped.
    np.testing.assert_array_equal(rgb(encode(palette, transparency=bytes([255] * 10 + [0])))[..., 0], expected)


def test_cmyk_is_close_to_the_same_colour_in_rgb() -> None:
    colour = (200, 60, 30)
    cmyk = Image.new("RGB", (16, 16), colour).convert("CMYK")
    # Pillow writes a CMYK JPEG inverted and with Adobe's marker, as Photoshop does.
    for data in (encode(cmyk, "JPEG", quality=95), encode(cmyk, "TIFF")):
        np.testing.assert_allclose(rgb(data).reshape(-1, 3).mean(axis=0), colour, atol=4)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_keeps_its_gradient(kind: str) -> None:
    gradient = np.tile(np.linspace(0, 65535, 256).astype(np.uint16), (4, 1))
    values = rgb(encode(Image.fromarray(gradient), kind))
    assert values[0, 0, 0] == 0
    assert values[0, -1, 0] == 255
    assert (np.diff(values[0, :, 0].astype(int)) >= 0).all()
    assert len(np.unique(values)) == 256


def test_16_bit_grey_and_16_bit_colour_agree() -> None:
    gradient = np.linspace(0, 65535, 64).astype(">u2")
    rows = b"\0" + np.repeat(gradient, 3).tobytes()
    header = struct.pack(">IIBBBBB", 64, 1, 16, 2, 0, 0, 0)
    colour = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    grey = encode(Image.fromarray(gradient.astype(np.uint16).reshape(1, 64)))
    np.testing.assert_array_equal(rgb(colour), rgb(grey))


def test_a_transparent_16_bit_grey_becomes_white() -> None:
    pixels = np.full((4, 4), 1000, np.uint16)
    pixels[0] = 30000
    values = rgb(encode(Image.fromarray(pixels), transparency=1000))
    assert (values[1:] == 255).all()
    assert (values[0] == 30000 // 256).all()


def test_32_bit_and_float_grey() -> None:
    wide = np.arange(0, 65536, 256, dtype=np.int32).reshape(16, 16)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(wide), "TIFF"))[..., 2], wide // 256)
    fraction = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(fraction), "TIFF"))[..., 0].ravel(), np.arange(256))
    level = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(level), "TIFF"))[..., 0], level)
    for bad, reason in (
        (wide * 2, "pixels out of range"),
        (level - 1, "pixels out of range"),
        (level * np.nan, "not finite"),
    ):
        with pytest.raises(ImageError, match=reason):
            open_rgb(encode(Image.fromarray(bad), "TIFF"))


def unsigned_tiff(pixels: np.ndarray) -> bytes:
    """Write one strip of 32-bit numbers, which Pillow writes as signed ones alone."""
    rows, columns = pixels.shape
    tags = [(256, columns), (257, rows), (258, 32), (259, 1), (262, 1), (273, 146), (277, 1), (278, rows)]
    tags += [(279, pixels.nbytes), (339, 1)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    header = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)
    return header.ljust(146, b"\0") + pixels.astype("<u4").tobytes()


def test_32_bit_integers_are_scaled_or_refused() -> None:
    """Nothing tells which number is white: a picture of 8 bits in 32 must not become black."""
    level = np.arange(256, dtype=np.int32).reshape(16, 16)
    np.testing.assert_array_equal(rgb(encode(Image.fromarray(level), "TIFF"))[..., 0], level)
    full = level.astype(np.uint32) << 24 | 7
    with pytest.raises(ImageError, match="pixels out of range"):
        open_rgb(encode(Image.fromarray(full.view(np.int32)), "TIFF"))  # Pillow writes them as signed
    np.testing.assert_array_equal(rgb(unsigned_tiff(full))[..., 1], level)
    np.testing.assert_array_equal(rgb(unsigned_tiff(level.astype(np.uint32)))[..., 1], level)
    for between in (level * 1000, level << 20, -level):
        with pytest.raises(ImageError, match="pixels out of range"):
            open_rgb(encode(Image.fromarray(between), "TIFF"))


def container(major: bytes, *others: bytes) -> bytes:
    brands = major + bytes(4) + b"".join(others)
    return (8 + len(brands)).to_bytes(4, "big") + b"ftyp" + brands + bytes(100)


@pytest.mark.parametrize("turn", [1, 6])
def test_avif_is_decoded(turn: int) -> None:
    if not features.check("avif"):
        pytest.skip("this Pillow is without AVIF")
    data = encode(SMALL, "AVIF", quality=95, exif=exif(turn))
    picture = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(rgb(data), np.rot90(picture, -1) if turn == 6 else picture)
    for length in (40, len(data) // 2, len(data) - 5):
        assert attempt(data[:length]).reason == "truncated or corrupt AVIF file"
    with pytest.raises(ImageError, match="too many pixels"):
        open_rgb(data, max_pixels=10)


def test_heic_is_decoded() -> None:
    pillow_heif = pytest.importorskip("pillow_heif", reason="pip install pillow-heif")
    pillow_heif.register_heif_opener()
    data = encode(SMALL, "HEIF", quality=95)
    np.testing.assert_array_equal(rgb(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    tags = Image.Exif()
    tags[0x112] = 6
    turned = rgb(encode(SMALL, "HEIF", quality=95, exif=tags.tobytes()))
    assert turned.shape[:2] == SMALL.size
    assert attempt(data[: len(data) // 2]).reason == "truncated or corrupt HEIC file"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (container(b"avif"), "AVIF cannot be decoded here"),
        (container(b"mif1", b"miaf", b"avif"), "AVIF cannot be decoded here"),
        (container(b"heic", b"mif1"), "HEIC cannot be decoded here"),
        (container(b"mif1", b"heic"), "HEIC cannot be decoded here"),
        (container(b"mp42", b"isom"), "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image"),
    ],
)
def test_a_format_that_pillow_does_not_decode_is_named(
    data: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader in ("_avif", "_heic"):
        monkeypatch.setattr(_isobmff, reader, lambda: None)
    bad(data, reason)


def test_a_colour_space_that_pillow_does_not_convert_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Which spaces those are depends on Pillow's version.
    def convert(image: Image.Image, mode: str) -> None:
        raise ValueError(f"conversion from {image.mode} to {mode} not supported")

    data = encode(flat((50, 60, 70), "LAB"), "TIFF")
    monkeypatch.setattr(Image.Image, "convert", convert)
    with pytest.raises(ImageError, match="unsupported colour mode: LAB") as caught:
        open_rgb(data)
    assert isinstance(caught.value.__cause__, ValueError)


# --- orientation


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(kind: str, orientation: int) -> None:
    data = encode(SMALL, kind, exif=exif(orientation))
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert expected.size == (SMALL.size if orientation < 5 else SMALL.size[::-1])
    np.testing.assert_array_equal(rgb(data), np.asarray(expected))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
def test_orientation_in_either_byte_order_and_width(order: str, kind: int) -> None:
    value = struct.pack(f"{order}{'HH' if kind == 3 else 'I'}", *((6, 0) if kind == 3 else (6,)))
    block = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IHHHI", 8, 1, ORIENTATION, kind, 1) + value
    data = encode(SMALL, "JPEG", exif=b"Exif\0\0" + block + b"\0\0\0\0")
    assert open_rgb(data).size == SMALL.size[::-1]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_does_not_cost_the_picture(kind: str) -> None:
    whole = exif(6).tobytes()
    for block in (whole[:length] for length in range(6, len(whole) - 4)):
        turned = rgb(encode(SMALL, kind, exif=block))
        np.testing.assert_array_equal(np.sort(turned.shape[:2]), np.sort(SMALL.size))
    garbage = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(range(256))
    assert open_rgb(encode(SMALL, kind, exif=garbage)).size == SMALL.size


# --- bad files


def bad(value: Any, reason: str) -> ImageError:
    with pytest.raises(ImageError) as caught:
        decode(value, PIXELS)
    assert caught.value.reason == reason
    assert "0x" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_truncated_file_is_an_error_and_never_filled_up(kind: str, progressive: bool) -> None:
    data = encode(SMALL, kind, **({"progressive": True} if progressive and kind == "JPEG" else {}))
    whole = rgb(data)
    errors = 0
    for length in range(12, len(data), 7):
        result = attempt(data[:length])
        if isinstance(result, ImageError):
            assert result.reason == f"truncated or corrupt {kind} file"
            assert result.__cause__ is not None
            errors += 1
        else:
            # Only a trailer was cut off.
            np.testing.assert_array_equal(result, whole)
            assert len(data) - length < 32
    assert errors > 10


JPEGS: dict[str, dict[str, Any]] = {
    "baseline": {"quality": 90},
    "full colour": {"subsampling": 0},
    "own codes": {"optimize": True},
    "restarts": {"restart_marker_rows": 1},
    "progressive": {"progressive": True},
    "progressive restarts": {"progressive": True, "restart_marker_rows": 1},
    "grey": {"grey": True},
    "grey, progressive": {"grey": True, "progressive": True},
    "CMYK": {"cmyk": True},
}


def jpeg(name: str, size: tuple[int, int] = (150, 100)) -> bytes:
    options = dict(JPEGS[name])
    mode = "L" if options.pop("grey", False) else "CMYK" if options.pop("cmyk", False) else "RGB"
    return encode(PHOTOGRAPH.resize(size).convert(mode), "JPEG", **options)


@pytest.mark.parametrize(
    "tail", [b"\xff\xd9", b"\xff\xd9" + b"trailer" * 9, b"\0" * 5000], ids=["end", "more", "zeros"]
)
@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_that_was_cut_and_closed_is_an_error(name: str, tail: bytes) -> None:
    """libjpeg paints the rest grey, and only warns; Pillow passes no warning on."""
    data = jpeg(name)
    headers = data.index(b"\xff\xda") + 20
    # What is missing of the last block may go unnoticed.
    for length in sorted({*range(headers, len(data) - 40, 61), *range(len(data) - 150, len(data) - 40)}):
        result = attempt(data[:length] + tail)
        assert isinstance(result, ImageError), f"{len(data) - length} bytes are missing"
        assert result.reason == "truncated or corrupt JPEG file"


def test_a_jpeg_that_was_cut_between_two_restarts_is_an_error() -> None:
    """There libjpeg looks for a marker, as after the last scan."""
    for name in ("restarts", "progressive restarts"):
        data = jpeg(name)
        scan = data.rindex(b"\xff\xda")
        places = [
            place for place in range(scan, len(data) - 2) if data[place] == 0xFF and 0xD0 <= data[place + 1] < 0xD8
        ]
        assert len(places) > 3
        for place in places:
            for cut in (place - 1, place, place + 1, place + 2):
                assert isinstance(attempt(data[:cut] + b"\xff\xd9"), ImageError)


def test_a_progressive_jpeg_without_its_last_scans_is_an_error() -> None:
    data = jpeg("progressive")
    scans = [place for place in range(len(data) - 1) if data[place : place + 2] == b"\xff\xda"]
    assert len(scans) > 5
    for scan in scans[1:]:
        # The table of codes comes before the scan that uses it.
        table = data.rindex(b"\xff\xc4", 0, scan)
        assert isinstance(attempt(data[:table] + b"\xff\xd9"), ImageError)


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("size", [(1, 1), (8, 8), (33, 17), (150, 100), (641, 479)])
def test_a_complete_jpeg_has_pillows_pixels(name: str, size: tuple[int, int]) -> None:
    data = jpeg(name, size)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    for tail in (b"", b"\0", b"anything" * 100, b"\xff\xd9", data):
        np.testing.assert_array_equal(rgb(data + tail), expected)


def test_every_reason_is_one_of_the_documented_ones() -> None:
    """A reason made of what varies could not be counted."""
    raised = set()
    for file in [*Path(images.__file__).parent.glob("*.py"), Path(_feeds.__file__)]:
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("ImageError") and call.args:
                text = call.args[0]
                if isinstance(text, ast.Constant):
                    raised.add(text.value)
                else:
                    assert ast.unparse(text) == "f'truncated or corrupt {kind} file'"
    assert len(raised) > 12
    assert raised <= set(IMAGE_REASONS)
    assert len(set(IMAGE_REASONS)) == len(IMAGE_REASONS)
    assert not any(":" in reason for reason in IMAGE_REASONS)


FILES = {
    "JPEG": encode(SMALL, "JPEG", exif=exif(6)),
    "progressive": encode(SMALL, "JPEG", progressive=True),
    "PNG": encode(SMALL, "PNG", exif=exif(6)),
    "palette": encode(SMALL.quantize(), "PNG", transparency=b"\0\x80"),
    "APNG": encode(SMALL, "PNG", save_all=True, append_images=[SMALL.rotate(90)]),
    "WEBP": encode(SMALL, "WEBP", exif=exif(6)),
    "GIF": encode(SMALL, "GIF"),
    "BMP": encode(SMALL, "BMP"),
    "TIFF": encode(SMALL, "TIFF", compression="tiff_lzw"),
}


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_corrupt_file_decodes_or_raises_an_image_error(name: str, data: st.DataObject) -> None:
    damaged = bytearray(FILES[name])
    # Half of the damage goes to the headers, where the interesting fields are.
    anywhere = st.integers(0, len(damaged) - 1) | st.integers(0, 150)
    for at in data.draw(st.lists(anywhere, min_size=1, max_size=6)):
        damaged[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
    cut = data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))
    result = attempt(bytes(damaged[:cut]))
    if isinstance(result, ImageError):
        assert result.reason
    else:
        tensor = decode(bytes(damaged[:cut]), PIXELS)
        assert tensor.shape == (3, 32, 32)
        assert np.isfinite(tensor).all()


@settings(max_examples=100, deadline=None)
@given(prefix=st.sampled_from([FILES[k][:n] for k in FILES for n in (4, 12, 30)]), tail=st.binary(max_size=200))
def test_noise_behind_a_magic_number(prefix: bytes, tail: bytes) -> None:
    with pytest.raises(ImageError):
        open_rgb(prefix + tail)


def test_values_without_an_image() -> None:
    assert str(bad(None, "null")) == "null"
    bad(b"", "empty file")
    unknown = "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image"
    for data in (b"\xff", b"hello, world", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>"):
        bad(data, unknown)


@pytest.mark.parametrize("value", [3, 1.5, ["a"], object()])
def test_a_column_of_the_wrong_type_is_not_blamed_on_the_image(value: object) -> None:
    with pytest.raises(TypeError, match="an image must be"):
        decode(value, PIXELS)


def test_what_is_not_about_the_image_propagates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def exhausted(*_: Any, **__: Any) -> None:
        raise MemoryError

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "load", exhausted)
        patch.setattr("PIL.ImageFile.ImageFile.load", exhausted)
        with pytest.raises(MemoryError):
            decode(SMALL_PNG, PIXELS)
    (tmp_path / "a.png").write_bytes(SMALL_PNG)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", broken)
        with pytest.raises(OSError, match="input/output") as caught:
            decode(str(tmp_path / "a.png"), PIXELS)
        assert not isinstance(caught.value, ImageError)


def test_an_image_error_survives_pickling() -> None:
    error = bad("/no/such/file.png", "no such file")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason, again.detail) == (str(error), error.reason, "/no/such/file.png")


# --- size


def test_a_single_pixel_fills_the_crop() -> None:
    for p in (Preprocessing(crop=32, resize=40), Preprocessing(crop=32)):
        result = decode(encode(flat((10, 20, 30), size=(1, 1))), p)
        assert (result == result[:, :1, :1]).all()


def test_twenty_and_a_hundred_megapixels_are_fine() -> None:
    image = PHOTOGRAPH.resize((5472, 3648), Image.Resampling.NEAREST)
    result = decode(encode(image, "JPEG"), Preprocessing(crop=64, resize=64))
    close = torchvision_pipeline(image, Preprocessing(crop=64, resize=64))
    assert np.abs(result - close).mean() < 0.05
    # Beyond the size where Image.open starts to warn; a warning would fail the test.
    assert open_rgb(encode(flat(0, "1", (10_000, 10_000)))).size == (10_000, 10_000)


def test_bombs_are_refused_before_they_are_unpacked() -> None:
    bad(png_claiming(20_000, 20_000), "too many pixels")
    bad(png_claiming(2**31 - 1, 2**31 - 1), "too many pixels")
    side = int(MAX_PIXELS**0.5)
    bad(png_claiming(side + 1, side + 1), "too many pixels")
    bad(png_claiming(side, side), "truncated or corrupt PNG file")
    bad(spark(flat("red")) | {"height": 20_000, "width": 20_000, "data": Sized(1_200_000_000)}, "too many pixels")


def test_the_limit_of_pixels_is_an_argument() -> None:
    for value in (SMALL_PNG, encode(SMALL, "JPEG"), spark(SMALL)):
        assert open_rgb(value, 64 * 48).size == (64, 48)
        with pytest.raises(ImageError, match=r"too many pixels: 64 x 48 is more than 3071"):
            open_rgb(value, 64 * 48 - 1)
        with pytest.raises(ImageError, match="too many pixels"):
            decode(value, Preprocessing(crop=8, max_pixels=3071))
    assert decode(SMALL_PNG, Preprocessing(crop=8).with_limit(3072)).shape == (3, 8, 8)
    assert decode(SMALL_PNG, Preprocessing(crop=224, resize=256, max_pixels=3072)).shape == (3, 224, 224)
    with pytest.raises(InvalidArgumentError, match="max_pixels of Preprocessing"):
        Preprocessing(crop=8, max_pixels=0)


@pytest.mark.parametrize(
    "kind", ["upright", "turned", "transparent", "grey of 16 bits", "grey of 32 bits", "palette", "WEBP"]
)
def test_decoding_takes_no_more_memory_than_a_plan_counts(kind: str, tmp_path: Path) -> None:
    size = (6000, 4000)
    made: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
        "upright": (flat("red", size=size), "JPEG", {}),
        "turned": (flat("red", size=size), "JPEG", {"exif": exif(6)}),
        "transparent": (flat((9, 9, 9, 9), "RGBA", size), "PNG", {}),
        "grey of 16 bits": (flat(999, "I;16", size), "PNG", {}),
        "grey of 32 bits": (flat(0.5, "F", size), "TIFF", {}),
        "palette": (flat(7, "P", size), "PNG", {"transparency": 7}),
        "WEBP": (flat("red", size=size), "WEBP", {"exif": exif(6)}),
    }
    image, encoding, options = made[kind]
    path = tmp_path / "image"
    path.write_bytes(encode(image, encoding, **options))
    code = textwrap.dedent(
        f"""
        import pathlib, re
        from udfs.images import BYTES_PER_PIXEL, Preprocessing, decode

        def peak():
            status = pathlib.Path("/proc/self/status").read_text()
            return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])

        before = peak()
        decode({str(path)!r}, Preprocessing(crop=64))
        taken = peak() - before
        print(taken / {size[0] * size[1]}, BYTES_PER_PIXEL)
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    taken, counted = map(float, run.stdout.split())
    assert 3 < taken <= counted, taken


def test_an_extreme_aspect_ratio_is_refused_before_it_is_resized() -> None:
    strip = encode(flat("red", size=(30_000, 1)))
    with pytest.raises(ImageError, match="too many pixels"):
        decode(strip, Preprocessing(crop=224, resize=256))
    assert decode(strip, Preprocessing(crop=224)).shape == (3, 224, 224)


def test_a_zero_sized_image_is_corrupt() -> None:
    bad(png_claiming(0, 5), "truncated or corrupt PNG file")


# --- Spark's image struct


class Sized(bytes):
    """Bytes that claim another length."""

    def __new__(cls, _: int) -> Sized:  # noqa: PYI034
        return super().__new__(cls)

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


def spark(image: Image.Image) -> dict[str, Any]:
    mode = {"L": 0, "RGB": 16, "RGBA": 24}[image.mode]
    pixels = np.atleast_3d(np.asarray(image))
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]
    height, width, channels = pixels.shape
    data = np.ascontiguousarray(pixels[..., order]).tobytes()
    return {"origin": "file:/a", "height": height, "width": width, "nChannels": channels, "mode": mode, "data": data}


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_sparks_struct_is_the_same_as_the_file(mode: str) -> None:
    image = SMALL.convert(mode)
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    np.testing.assert_array_equal(rgb(spark(image)), rgb(encode(image)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"height": -1, "width": -1, "nChannels": -1, "mode": -1, "data": b""}, "Spark could not decode the file"),
        ({"data": b"123"}, "wrong length of data"),
        ({"data": b""}, "wrong length of data"),
        ({"height": 0, "data": b""}, "wrong length of data"),
        ({"height": -8, "width": -8}, "wrong length of data"),
        ({"mode": 5}, "unsupported mode of Spark's image struct"),
        ({"mode": 24}, "unsupported mode of Spark's image struct"),
        ({"data": None}, "null"),
        ({"height": None}, "null"),
    ],
)
def test_bad_structs(change: dict[str, Any], reason: str) -> None:
    bad(spark(flat("red")) | change, reason)


def test_another_struct_is_not_blamed_on_the_image() -> None:
    with pytest.raises(TypeError, match="without"):
        decode({"path": "a", "content": b""}, PIXELS)


# --- paths


def test_paths_and_file_uris(tmp_path: Path) -> None:
    for name in ("a.png", "with space.png", "per%20cent.png", "ü:colon.png"):
        file = tmp_path / name
        file.write_bytes(SMALL_PNG)
        for value in (file, str(file), f"file:{file}", f"file://{file}", f"file://localhost{file}", file.as_uri()):
            np.testing.assert_array_equal(rgb(value), np.asarray(SMALL))


def test_a_relative_path_with_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("img:1.png").write_bytes(SMALL_PNG)
    assert open_rgb("img:1.png").size == SMALL.size


def test_paths_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    for value in (
        tmp_path / "none.png",
        f"file:{tmp_path}/none.png",
        f"file:{tmp_path}/no%20ne.png",
        tmp_path,
        tmp_path / "a.txt" / "b",
        "",
        "file:",
        "a\0b",
        "x" * 5000,
        "file:" + "%41" * 2000,
    ):
        bad(value, "no such file")
    bad("nosuchscheme://host/a.png", "no file system for the URI")
    bad(tmp_path / "a.txt", "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image")


def test_uris_go_through_pyarrow() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/images/a b.png", SMALL_PNG)
    try:
        np.testing.assert_array_equal(rgb("fsspec+memory://images/a b.png"), np.asarray(SMALL))
        bad("fsspec+memory://images/none.png", "no such file")
    finally:
        memory.rm("/images", recursive=True)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("s3a://bucket/a b.png", "s3://bucket/a%20b.png"),
        ("s3://bucket/a%20b.png", "s3://bucket/a%20b.png"),
        ("hdfs://name:8020/a.png", "hdfs://name:8020/a.png"),
    ],
)
def test_sparks_uris_are_spelt_as_arrow_wants_them(value: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        @staticmethod
        def from_uri(uri: str) -> None:
            raise ConnectionError(uri)

    monkeypatch.setattr("pyarrow.fs.FileSystem", Recorder)
    # A connection that fails is not the image's fault either.
    with pytest.raises(ConnectionError) as caught:
        open_rgb(value)
    assert caught.value.args == (asked,)


# --- tensors


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_a_tensor_passes_through_unnormalised(dtype: Any) -> None:
    p = Preprocessing(crop=4)
    tensor = (np.arange(48).reshape(3, 4, 4) - 9).astype(dtype)
    result = decode(tensor, p)
    assert result.dtype == np.float32
    assert result.dtype.isnative
    np.testing.assert_array_equal(result, tensor.astype(np.float32))
    transposed = decode(np.asfortranarray(tensor), p)
    assert transposed.flags.c_contiguous
    np.testing.assert_array_equal(transposed, result)
    out = np.zeros(p.shape, np.float32)
    assert decode(tensor, p, out=out) is out
    np.testing.assert_array_equal(out, result)


def test_bad_tensors() -> None:
    bad(np.zeros((32, 32, 3), np.float32), "tensor of the wrong shape")
    bad(np.zeros((1, 3, 32, 32), np.float32), "tensor of the wrong shape")
    bad(np.zeros((3, 32, 32), np.uint8), "tensor is not of a float type")
    for value in (np.nan, np.inf, -np.inf, 1e300):
        tensor = np.zeros((3, 32, 32))
        tensor[2, 31, 31] = value
        bad(tensor, "tensor is not finite")


# --- threads


def test_threads_get_the_same_as_one_after_the_other() -> None:
    values = [FILES[name] for name in FILES] * 12 + [FILES[name][:-40] for name in FILES] * 4

    def outcome(value: bytes) -> bytes | str:
        try:
            return decode(value, PIXELS).tobytes()
        except ImageError as error:
            return str(error)

    expected = [outcome(v) for v in values]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(outcome, values)) == expected


def test_needs_no_framework_and_no_spark() -> None:
    code = "import sys, udfs.images; print({'torch', 'keras', 'pyspark', 'skimage'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "set()"
