"""The documentation site names every page, every public name, and messages that there are."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from places import ROOT
from sessions import CONNECT

from optimizer import __version__

pytestmark = pytest.mark.skipif(CONNECT, reason="once is enough")

DOCS = ROOT / "docs"
PACKAGES = ("vista_spark", "cerebro_spark", "udfs", "optimizer")
# Modules with public names: the two front packages and others.
FACES = (
    "vista_spark",
    "vista_spark.errors",
    "vista_spark.roster",
    "vista_spark.serving",
    "cerebro_spark",
    "cerebro_spark.callbacks",
    "cerebro_spark.errors",
    "cerebro_spark.schemes",
    "cerebro_spark.steering",
    "optimizer.space",
    "udfs.testing",
)


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whatever tags MkDocs gives to it."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)  # a safe loader
    return settings


def _pages(entries: list[Any]) -> list[str]:
    """The files of a navigation, in its order."""
    found = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += [value] if isinstance(value, str) else _pages(value)
    return found


def _from_elsewhere() -> dict[str, str]:
    """What docs/_site.py shows of the repository, by the page; read, since MkDocs is not installed here."""
    tree = ast.parse((DOCS / "_site.py").read_text())
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES"
    )
    notebooks = {f"notebooks/{path.name}": f"tutorials/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    return {page: source for source, page in (listed | notebooks).items()}


def test_the_navigation_has_every_page_once() -> None:
    pages = _pages(_settings()["nav"])
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert sorted(pages) == sorted(written | set(_from_elsewhere()))


def test_a_page_from_elsewhere_is_there() -> None:
    assert not [source for source in _from_elsewhere().values() if not (ROOT / source).is_file()]


def test_the_reference_has_every_public_name_once() -> None:
    pages = [page.read_text() for page in (DOCS / "api").glob("*.md")]
    referred = [name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
    assert not {name for name in referred if referred.count(name) > 1}
    public = {}
    for face in FACES:
        module = import_module(face)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType) and name != "__version__":
                public.setdefault(id(value), set()).add(f"{face}.{name}")
    # An error of all rooms is public in several: one page of them is enough.
    assert not [names for names in public.values() if not names & set(referred)]


def _source() -> str:
    """All of the source, its strings over several lines joined: parsing it would take seconds."""
    sources = (path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(sources))


def test_troubleshooting_has_the_messages_of_today() -> None:
    """A heading that is code is a message of ours, unless it says in brackets whose it is."""
    headings = re.findall(r"^### `([^`]+)`$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(headings) > 20
    text = _source()
    absent = {
        part
        for heading in headings
        for part in heading.split("…")
        if len(part.split()) > 2 and part.strip(" .(:,'") not in text
    }
    assert not absent


def test_the_version_is_said_alike() -> None:
    """In the changelog, the citation and the commands of the documents."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(__version__)}, \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    said = {
        version
        for path in [ROOT / "README.md", *DOCS.glob("*.md")]
        for version in re.findall(r"cerebro_spark-(\d[\w.]*?)(?:-py3-none-any\.whl|\.zip|\.tar\.gz)", path.read_text())
    }
    assert said == {__version__}


def test_the_workflow_has_the_lanes_of_a_submission() -> None:
    lines = re.findall(r"^(?:lane|together) (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    lanes = {lane for line in lines for lane in line.replace('"', "").split() if not lane.startswith(".")}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert lanes
    assert lanes <= set(workflow["jobs"]["lane"]["strategy"]["matrix"]["lane"])


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """With the MkDocs of ``make docs``, where it has run."""
    program = ROOT / ".venv-docs" / "bin" / "mkdocs"
    found = str(program) if program.exists() else shutil.which("mkdocs", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("needs MkDocs: make docs")
    done = subprocess.run(
        [found, "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    tutorial = (tmp_path / "site" / "tutorials" / "feature_transfer" / "index.html").read_text()
    assert 'href="../../memory/' in tutorial or "<img" in tutorial
