"""Settings of the process: a user's function may change them for its configuration alone."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import apply_settings, changed_settings, settings_kept, take_settings

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGES: dict[str, Callable[[], Any]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "deterministic": lambda: torch.use_deterministic_algorithms(mode=True, warn_only=True),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "gradients": lambda: torch.set_grad_enabled(False),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "matrix products": lambda: torch.set_float32_matmul_precision("medium"),
    "cuDNN": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "variable": lambda: os.environ.update(CEREBRO_SPARK_TEST="1", PATH=""),
    "variable gone": lambda: os.environ.pop("PATH"),
    "directory": lambda: os.chdir("/"),
    "numpy": lambda: np.seterr(divide="raise"),
    "warnings": lambda: warnings.simplefilter("ignore"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_block_changes_is_put_back_and_can_be_applied_again(name: str) -> None:
    before = take_settings()
    with settings_kept():
        CHANGES[name]()
        after = take_settings()
        assert after != before
    assert take_settings() == before
    with settings_kept():
        apply_settings(changed_settings(before, after))
        assert take_settings() == after
    assert take_settings() == before
    assert changed_settings(before, before) == {}


def test_random_numbers_go_on_where_they_were() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    with settings_kept():
        torch.rand(5)
    assert torch.rand(2).tolist() == expected


def test_an_error_puts_them_back_too(tmp_path: Path) -> None:
    before = Path.cwd()

    def fails() -> None:
        with settings_kept():
            os.chdir(tmp_path)
            os.chdir("gone")

    with pytest.raises(FileNotFoundError):
        fails()
    assert Path.cwd() == before


def test_settings_of_keras() -> None:
    keras = pytest.importorskip("keras")
    tf = pytest.importorskip("tensorflow")
    changes: list[Callable[[], Any]] = [
        lambda: keras.config.set_floatx("float64"),
        lambda: keras.config.set_epsilon(1e-3),
        lambda: keras.config.set_image_data_format("channels_first"),
        lambda: keras.config.set_dtype_policy("mixed_bfloat16"),
        lambda: tf.config.run_functions_eagerly(True),
        tf.config.experimental.enable_op_determinism,
    ]
    before = take_settings()
    for change in changes:
        with settings_kept():
            change()
            assert take_settings() != before
        assert take_settings() == before
