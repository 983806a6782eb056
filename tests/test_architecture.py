"""The arrows between the packages, and what an import may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FRONT = ("vista_spark", "cerebro_spark")
MAY_IMPORT = {
    "vista_spark": {"vista_spark", "udfs", "optimizer"},
    "cerebro_spark": {"cerebro_spark", "udfs", "optimizer"},
    "udfs": {"udfs", "optimizer"},
    "optimizer": {"optimizer"},
}
OURS = set(MAY_IMPORT)
FRAMEWORKS = {"pyspark", "torch", "keras", "tensorflow"}

# What needs the classic context sits in one module and says so (docs/decisions.md).
CLASSIC_ONLY: set[str] = set()
CLASSIC = {"rdd", "sparkContext", "_jvm", "_jdf", "_jsparkSession", "_sc", "_gateway"}

FILES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute module of every import, those in functions and under TYPE_CHECKING included."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            yield node.lineno, ".".join((*above, node.module or "")).strip(".")


def test_there_is_something_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == OURS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    wrong = [
        f"{path}:{line} imports {module}"
        for line, module in imported(path)
        if (top := module.split(".")[0]) in OURS and top not in MAY_IMPORT[package]
    ]
    assert not wrong


@pytest.mark.parametrize("path", sorted((ROOT / "optimizer").rglob("*.py")), ids=lambda path: path.name)
def test_the_optimizer_knows_no_framework(path: Path) -> None:
    assert not {module for _, module in imported(path) if module.split(".")[0] in FRAMEWORKS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_but_the_data_frame_api(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if name in CLASSIC_ONLY:
        pytest.skip("classic Spark only, on purpose")
    used = [
        f"{name}:{node.lineno} uses .{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLASSIC
    ]
    assert not used
    assert not [module for _, module in imported(path) if module.startswith(("py4j", "pyspark.rdd", "pyspark.core"))]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("vista_spark", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "skimage"}),
        ("udfs.inference", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "skimage", "pandas"}),
        ("optimizer.graph", {"torch", "pyspark", "pandas", "pyarrow", "PIL"}),
        ("optimizer.transfer", {"torch", "pyspark", "pandas", "pyarrow", "PIL"}),
        ("optimizer.hopper", {"torch", "pyspark", "pandas", "pyarrow", "PIL", "pulp"}),
        ("cerebro_spark", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "pulp"}),
    ],
)
def test_an_import_stays_light(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(sorted({absent!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
