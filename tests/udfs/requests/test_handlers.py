"""Handlers of requests: their kinds, entry points, and results as JSON."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from optimizer.errors import InvalidArgumentError
from udfs.requests import HANDLERS, RequestHandler, installed_handlers, plain_json

ECHO = RequestHandler("echo", lambda document, context: dict(document))


@pytest.mark.parametrize("kind", ["", "Echo", "a-b", "../x", "x" * 51])
def test_a_kind_is_a_plain_word(kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match="kind must have lower-case letters"):
        RequestHandler(kind, ECHO.handle)


@pytest.mark.parametrize(("names", "is_valid"), [(["ECHO"], True), (["ECHO", "ECHO"], False), (["ECHO.kind"], False)])
def test_handlers_are_found_by_their_entry_points(
    monkeypatch: pytest.MonkeyPatch, names: list[str], is_valid: bool
) -> None:
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "handlers_of_a_test", module)
    points = [EntryPoint(f"p{i}", f"handlers_of_a_test:{name}", HANDLERS) for i, name in enumerate(names)]
    monkeypatch.setattr("udfs.requests._handler.entry_points", lambda group: points)
    if is_valid:
        assert installed_handlers() == {"echo": ECHO}
    else:
        with pytest.raises(InvalidArgumentError, match="must be handlers of different kinds"):
            installed_handlers()


def test_a_handler_without_its_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("lost", "a_package_that_is_not_installed:HANDLER", HANDLERS)
    monkeypatch.setattr("udfs.requests._handler.entry_points", lambda group: [point])
    assert installed_handlers() == {}


def test_results_become_json() -> None:
    numpy = pytest.importorskip("numpy")
    value: dict[Any, Any] = {1: numpy.float32(0.5), "map": numpy.array([[1.0, numpy.nan]]), "flag": numpy.bool_(True)}
    assert plain_json(value) == {"1": 0.5, "map": [[1.0, "nan"]], "flag": True}
    with pytest.raises(TypeError, match="got a object"):
        plain_json({"rows": [object()]})


def test_requests_need_the_standard_library_alone() -> None:
    code = (
        "import sys, udfs.requests; heavy = {'pyspark', 'torch', 'numpy', 'pandas', 'fastapi', 'sqlalchemy'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
