"""The examples in the docstrings run, and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from sessions import CONNECT

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(CONNECT, reason="once is enough")


def _modules() -> list[str]:
    paths = (
        path
        for package in ("cerebro_spark", "optimizer", "udfs", "vista_spark")
        for path in (ROOT / package).rglob("*.py")
    )
    with_examples = sorted(path.relative_to(ROOT) for path in paths if ">>> " in path.read_text())
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in with_examples]


@pytest.mark.usefixtures("spark")  # Spark ML's own estimators take a session for granted
@pytest.mark.parametrize("name", _modules())
def test_examples(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed
