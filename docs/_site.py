"""What MkDocs calls as it builds the site: pages from elsewhere in the repository, and links to them.

The README is the first page, the notebooks are the tutorials. A link in a document is a path in the repository, so that
it works there; :func:`on_page_markdown` makes it one between pages.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

import griffe
import nbconvert
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Pages by the file that they show; notebooks are added below.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/reporting.md",
}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES |= {f"notebooks/{path.name}": f"tutorials/{path.stem}.md" for path in NOTEBOOKS}
SOURCES = {page: source for source, page in PAGES.items()}

_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
# Colours of a terminal, in the outputs of notebooks.
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_ROLE = re.compile(r":(?:class|func|meth|attr|mod|data|exc|obj):`~?\.?([\w.]+)`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose files lie outside of docs/, and the pictures of the notebooks."""
    for source, page in PAGES.items():
        path = ROOT / source
        if path.suffix == ".ipynb":
            text, pictures = _notebook(path)
            for name, picture in pictures.items():
                files.append(File.generated(config, f"tutorials/{name}", content=picture))
        else:
            text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def _notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    exporter = nbconvert.MarkdownExporter()
    text, resources = exporter.from_filename(str(path))
    pictures = {f"{path.stem}_{name}": content for name, content in resources["outputs"].items()}
    for name in resources["outputs"]:
        text = text.replace(f"({name})", f"({path.stem}_{name})")
    return f"{_ESCAPE.sub('', text)}\n\n*This page is `notebooks/{path.name}`, as it ran.*\n", pictures


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs's
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    folder = posixpath.dirname(SOURCES.get(here, f"docs/{here}"))

    def follow(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        if not (ROOT / target).exists():
            return link[0]
        if target in PAGES:
            target = PAGES[target]
        elif target.startswith("docs/"):
            target = target.removeprefix("docs/")
        else:
            _LOG.warning("%s links to %s, which is no page: name the file without a link", here, target)
        return posixpath.relpath(target, posixpath.dirname(here) or ".") + (link["anchor"] or "")

    return _LINK.sub(follow, markdown)


class Roles(griffe.Extension):
    """Links for the roles of Sphinx in docstrings, which editors show as well."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:  # griffe's
        """Replace the roles of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_reference, obj.docstring.value)


def _reference(role: re.Match[str]) -> str:
    name = role[1].rpartition(".")[2] if role[0].find("`~") > 0 else role[1]
    return f'<autoref identifier="{role[1]}" optional><code>{name}</code></autoref>'


_LOG = logging.getLogger(f"mkdocs.hooks.{__name__}")
