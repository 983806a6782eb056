"""Requests for images and texts at the door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from udfs.serving import Admission, BadRequestError, TensorSpec

IMAGES = Admission("cats", (TensorSpec("image", "bytes", (-1,)),), {"image": ("float32", (3, 4, 4))})
TEXTS = Admission("mood", (TensorSpec("text", "str", (-1,)),), {})


def column(*values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def test_encoded_images_travel_as_they_are() -> None:
    rows = IMAGES.rows({"image": column(b"\xff\xd8one", bytearray(b"two"))})
    assert [row["image"].tobytes() for row in rows] == [b"\xff\xd8one", b"two"]


def test_a_preprocessed_image_may_come_instead() -> None:
    (row,) = IMAGES.rows({"image": np.ones((1, 3, 4, 4), np.float32)})
    assert row["image"].shape == (3, 4, 4)


def test_texts_become_utf_8() -> None:
    rows = TEXTS.rows({"text": column("naïve", "naïve".encode())})
    assert [row["text"].tobytes().decode() for row in rows] == ["naïve", "naïve"]


@pytest.mark.parametrize(
    ("admission", "inputs", "words"),
    [
        (IMAGES, {"image": column(b"")}, "no bytes"),
        (IMAGES, {"image": column("a.jpg")}, "got str"),
        (IMAGES, {"image": np.ones((1, 3, 4, 5), np.float32)}, r"\(-1, 3, 4, 4\)"),
        (IMAGES, {"image": np.ones((1, 3, 4, 4), np.uint8)}, "must be float32, got uint8"),
        (IMAGES, {"image": column(bytes(50 << 20))}, "at most"),
        (TEXTS, {"text": column(b"\xff\xfe\xfa")}, "must be UTF-8"),
        (TEXTS, {"text": column(3)}, "got int"),
        (TEXTS, {"text": column(*["a"] * 5000)}, "got 5000"),
    ],
)
def test_what_is_refused(admission: Admission, inputs: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        admission.rows(inputs)
