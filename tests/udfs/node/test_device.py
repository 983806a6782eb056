from __future__ import annotations

import pytest

from optimizer.errors import InvalidArgumentError
from udfs.node import check_device


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:1", "GPU:0", "mps", "xpu:2", "cpu:0"])
def test_devices(name: str) -> None:
    assert check_device(name) == name


@pytest.mark.parametrize("name", ["cpuu", "", "cuda:", "cuda:x", "auto:1", "gpu0", None, 0, "cpu "])
def test_others_are_refused(name: object) -> None:
    with pytest.raises(InvalidArgumentError, match="device must be"):
        check_device(name)


def test_the_nearest_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"device must be one of auto, .*, got 'cpuu'; did you mean 'cpu'"):
        check_device("cpuu")
