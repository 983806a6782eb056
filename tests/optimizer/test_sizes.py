"""Sizes, as people write them and as Spark does."""

from __future__ import annotations

import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.sizes import number_of_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "expected"), [("32g", 32 * GIB), ("512m", GIB // 2), ("1.5G", 3 * GIB // 2), ("7", 7)]
)
def test_sizes_as_spark_writes_them(text: str, expected: int) -> None:
    assert number_of_bytes(text) == expected


def test_no_size() -> None:
    with pytest.raises(InvalidArgumentError, match="'plenty' is not a size: write 32g, 512m or a number of bytes"):
        number_of_bytes("plenty")
