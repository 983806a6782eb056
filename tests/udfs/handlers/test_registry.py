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


def test_no_package_replaces_what_ships(installed: Callable[..., None]) -> None:
    pytest.importorskip("torch")
    installed(EntryPoint("torch", "no_such_package:FRAMEWORK", registry.ENTRY_POINTS))
    assert registry.framework("torch").suffix == ".pt2"


def test_a_missing_module_of_our_own_is_no_missing_framework(installed: Callable[..., None]) -> None:
    installed(EntryPoint("mine", "udfs.no_such_module:FRAMEWORK", registry.ENTRY_POINTS))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.framework("mine")


def test_only_the_frameworks_that_are_imported_are_asked_about_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "keras", None)
    assert "torch" in registry.imported_frameworks()
    assert "keras" not in registry.imported_frameworks(), "asking would import it"
