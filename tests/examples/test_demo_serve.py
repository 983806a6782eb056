"""The demo of serving fits its load and deadline to the machine."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from places import EXAMPLES

pytest.importorskip("torch")
pytest.importorskip("skimage")


@pytest.fixture(scope="module")
def demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo_serve", EXAMPLES / "serving.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkey = pytest.MonkeyPatch()
    monkey.syspath_prepend(str(EXAMPLES))
    # A dataclass looks its module up.
    monkey.setitem(__import__("sys").modules, "demo_serve", module)
    spec.loader.exec_module(module)
    yield module
    monkey.undo()


@pytest.mark.parametrize("request_ms", [1.0, 20.0, 100.0, 400.0, 3000.0])
def test_one_backend_can_answer_the_load_in_time(request_ms: float, demo: Any) -> None:
    fit = demo.calibrate(request_ms, 3.0)
    assert 0 < fit.rate <= 3.0
    assert 3 * fit.rate * request_ms <= 1000 * demo.LOAD * 1.001
    assert fit.slo_ms >= max(demo.SLO_MS, 4 * request_ms)
    assert f"a request takes {request_ms:.0f} ms here" in fit.note


def test_a_fast_machine_gets_what_is_wanted(demo: Any) -> None:
    fit = demo.calibrate(10.0, 3.0)
    assert (fit.rate, fit.slo_ms) == (3.0, demo.SLO_MS)
