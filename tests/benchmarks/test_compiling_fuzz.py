"""A small sample of the fuzz of compiled pipelines, so that the fuzz itself cannot rot; ``make fuzz`` has the whole."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from places import BENCHMARKS

for module in ("torch", "lightgbm", "xgboost", "catboost", "skl2onnx", "onnxmltools", "onnxruntime"):
    pytest.importorskip(module)

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    found = importlib.util.spec_from_file_location("fuzz_compiling", BENCHMARKS / "fuzz_compiling.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("fuzz")
def test_another_class_is_found() -> None:
    """No rounding of the library's leads from one side of 3 to the other side of 5."""
    import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    rows = np.arange(12.0).reshape(6, 2)

    def differences(method: str, ours: Any, *, rounds: bool) -> list[str]:
        found = _fuzz_agreement.differences(
            method, rows, lambda x: x[:, 0] > 5, ours, narrow=False, rounds=rounds, otherwise=lambda: ours
        )
        return [one.kind for one in found]

    assert differences("predict", lambda x: x[:, 0] > 5, rounds=False) == []
    assert differences("predict", lambda x: x[:, 0] > 3, rounds=False) == ["value"]
    assert differences("predict", lambda x: x[:, 0] > 3, rounds=True) == ["value"]
