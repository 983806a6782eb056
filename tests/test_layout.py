"""Tests are in the folder that corresponds to their package, so that either is easy to find from the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from places import ROOT, SUPPORT

if TYPE_CHECKING:
    from pathlib import Path

TESTS = SUPPORT.parent
ROOMS = ("vista_spark", "cerebro_spark", "udfs", "optimizer")
PACKAGES = sorted(path.parent.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("__init__.py"))
FOLDERS = sorted(
    path.relative_to(TESTS)
    for room in ROOMS
    for path in (TESTS / room, *(TESTS / room).rglob("*/"))
    if path.name != "__pycache__"
)


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_has_tests_of_its_name(package: Path) -> None:
    """A folder under its path, or a file of its name beside those of the package around it."""
    tests = [*(TESTS / package).rglob("test_*.py"), *(TESTS / package.parent).glob(f"test_{package.name}*.py")]
    assert tests, f"no test: make tests/{package}/test_*.py"


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_of_tests_has_a_package(folder: Path) -> None:
    assert folder in PACKAGES, f"tests/{folder} is of no package: move its tests to where theirs is"


def test_shared_code_lies_in_one_place() -> None:
    """A module that is no test is in tests/support, the one folder of tests on Python's path."""
    programs = {
        "cerebro_spark/tune/interrupted.py",
        "cluster/moved_weights.py",
        "faults/adapting.py",
        "faults/driver.py",
        "faults/serving.py",
        "hostile/opener.py",
        "mlmd/read_graph.py",
    }  # started by path in a process of their own
    modules = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path.parent != SUPPORT and path.name != "conftest.py" and not path.name.startswith("test_")
    }
    assert modules == programs
