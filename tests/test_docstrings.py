"""The examples in the docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT
from sessions import CONNECT

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.skipif(CONNECT, reason="once is enough")


def _modules() -> list[str]:
    paths = (
        path
        for package in ("cerebro_spark", "optimizer", "udfs", "vista_spark")
        for path in (ROOT / package).rglob("*.py")
    )
    # Airflow has an environment of its own: the tests of its package run its examples.
    with_examples = sorted(
        path.relative_to(ROOT)
        for path in paths
        if ">>> " in path.read_text() and path.parent != ROOT / "cerebro_spark" / "airflow"
    )
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in with_examples]


class _Finder(doctest.DocTestFinder):
    """Finds the stages too, whose module is the public face that saved pipelines name."""

    def _from_module(self, module: ModuleType | None, object: Any) -> bool:  # noqa: A002 - doctest's own name
        named = inspect.isclass(object) and object.__module__ in {"cerebro_spark", "vista_spark"}
        return named or super()._from_module(module, object)  # type: ignore[misc]


@pytest.mark.usefixtures("spark")  # Spark ML's own estimators take a session for granted
@pytest.mark.parametrize("name", _modules())
def test_examples(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in _Finder().find(import_module(name), name):
        runner.run(example)
    assert runner.tries
    assert not runner.failures
