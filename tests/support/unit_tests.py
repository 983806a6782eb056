"""Selection of the tests that need neither Spark nor a deep learning framework, by what their modules import."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

from places import ROOT, SUPPORT

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_unit"]

_HEAVY = {
    *("pyspark", "torch", "keras", "tensorflow", "transformers", "tokenizers", "captum", "skimage", "mlflow"),
    *("sklearn", "lightgbm", "xgboost", "catboost", "onnx", "onnxruntime", "skl2onnx", "onnxmltools", "starlette"),
}
_FIXTURES = {"spark", "tracking", "no_job"}


def is_unit(path: Path) -> bool:
    """Return whether a test file runs without Spark and without a framework.

    Imports inside functions count for the file itself, where a test runs them, and not for the modules that it imports.
    """
    tree = ast.parse(path.read_text())
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    skips = {
        str(node.args[0].value).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip" and node.args
        if isinstance(node.args[0], ast.Constant)
    }
    programs = any(isinstance(node, ast.Name) and node.id == "subprocess" for node in ast.walk(tree))
    return not (programs or arguments & _FIXTURES or skips & _HEAVY or _reaches_framework(_imports(path, whole=True)))


def _reaches_framework(modules: frozenset[str]) -> bool:
    queue, seen = list(modules), set(modules)
    while queue:
        module = queue.pop()
        if module.split(".")[0] in _HEAVY:
            return True
        new = _imports_of_module(module) - seen
        queue += new
        seen |= new
    return False


@cache
def _imports_of_module(module: str) -> frozenset[str]:
    return frozenset().union(*(_imports(path, whole=False) for path in _files(module)))


def _files(module: str) -> list[Path]:
    """List the files that an import of a module of ours executes: those of its packages, and its own."""
    parts = module.split(".")
    files = [ROOT.joinpath(*parts[:size], "__init__.py") for size in range(1, len(parts) + 1)]
    files += [ROOT.joinpath(*parts).with_suffix(".py"), SUPPORT / f"{parts[0]}.py"]
    return [path for path in files if path.is_file()]


def _imports(path: Path, *, whole: bool) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree)) if whole else list(_executed(tree.body))
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return frozenset(names)


def _executed(body: list[ast.stmt]) -> list[ast.stmt]:
    """List the statements of a module that its import executes, those under ``if TYPE_CHECKING`` left out."""
    statements: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.dump(node.test):
                statements += _executed(node.body) + _executed(node.orelse)
        elif isinstance(node, ast.Try):
            statements += _executed(node.body) + _executed([line for part in node.handlers for line in part.body])
        elif isinstance(node, ast.With):
            statements += _executed(node.body)
        else:
            statements.append(node)
    return statements
