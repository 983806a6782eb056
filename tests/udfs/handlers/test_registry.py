"""The registry of frameworks: what ships is declared twice, and found with installed metadata and without it."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest
from places import ROOT

from udfs.handlers import _registry as registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Give a process whose installed packages declare these entry points and no others."""

    def declare(*declared: EntryPoint) -> None:
        monkeypatch.setattr(registry, "entry_points", lambda **group: declared if group else ())
        registry._declared.cache_clear()

    yield declare
    registry._declared.cache_clear()


def test_the_package_declares_the_frameworks_that_ship() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = {entry.name: entry.value for entry in registry._SHIPPED}
    assert project["entry-points"][registry.ENTRY_POINTS] == shipped
    for entry in registry._SHIPPED:
        assert set(entry.extras) <= project["optional-dependencies"].keys(), "the extra that an error message names"


def test_frameworks_that_ship_need_no_metadata(installed: Callable[..., None]) -> None:
    pytest.importorskip("torch")
    installed()
    assert registry.frameworks() == ("torch", "keras")
    assert registry.framework("torch").name == "torch"


def test_a_package_declares_a_framework_of_its_own(
    installed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(EntryPoint("mine", "no_such_package:FRAMEWORK [fast]", registry.ENTRY_POINTS))
    assert set(registry.frameworks()) == {"mine", "torch", "keras"}
    monkeypatch.setitem(sys.modules, "no_such_package", None)
    with pytest.raises(ImportError, match=r'mine is not installed: pip install "cerebro-spark\[fast\]"'):
        registry.framework("mine")
