"""Packages add pages by an entry point; the shell's own pages are accessible and need no inline script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.metadata import EntryPoint, EntryPoints
from itertools import product
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from fastapi import APIRouter, Request
from jinja2 import TemplateNotFound, UndefinedError
from places import ROOT
from starlette.responses import Response  # noqa: TC002 - FastAPI reads the annotations
from web_shell import Shell

from optimizer.errors import InvalidArgumentError
from udfs.web import Page, _pages, installed_pages, render

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATES = sorted(
    path for package in ("cerebro_spark", "udfs", "vista_spark") for path in (ROOT / package).rglob("templates/*.html")
)
STYLE = (ROOT / "udfs" / "web" / "static" / "style.css").read_text()
MODULE = """
from fastapi import APIRouter, Request
from starlette.responses import Response
from udfs.web import Page, render

router = APIRouter()

@router.get("/cats")
def cats(request: Request) -> Response:
    return render(request, "cats_page/cats.html", title="Cats", names=["<b>Tom</b>", "</title>"])

PAGE = Page("/cats", "Cats", router, "cats_page")
WRONG = "a page"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A package with a page, found by its entry point."""
    folder = tmp_path / "cats_page"
    for name in ("templates", "static"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").write_text(MODULE)
    (folder / "templates" / "cats.html").write_text(
        '{% extends "layout.html" %}{% block content %}'
        "{% for name in names %}<p>{{ name }}</p>{% endfor %}{% endblock %}"
    )
    (folder / "templates" / "layout.html").write_text("a layout without a header")
    (folder / "static" / "cats.js").write_text("export const cats = 2;")
    monkeypatch.syspath_prepend(tmp_path)
    points = {"good": "cats_page:PAGE", "bad": "cats_page:WRONG"}
    monkeypatch.setattr(_pages, "entry_points", lambda group: EntryPoints([EntryPoint("cats", points["good"], group)]))
    (page,) = installed_pages()
    monkeypatch.setattr(_pages, "entry_points", lambda group: EntryPoints([EntryPoint("bad", points["bad"], group)]))
    return page


def test_a_package_adds_a_page(package: Page, tmp_path: Path) -> None:
    shell = Shell.create(tmp_path, [Page("/dogs", "Dogs", APIRouter()), package])
    browser = shell.browser()
    page = browser.get("/cats").text
    assert "<p>&lt;b&gt;Tom&lt;/b&gt;</p><p>&lt;/title&gt;</p>" in page
    assert '<a href="/dogs">Dogs</a>' in page
    assert '<a href="/cats" aria-current="page">Cats</a>' in page
    assert '<button type="button" id="sign-out">' in page  # the layout is the shell's
    script = browser.get("/static/cats_page/cats.js")
    assert (script.text, script.headers["cache-control"]) == ("export const cats = 2;", "no-cache")
    assert "javascript" in script.headers["content-type"]
    assert (
        browser.get("/static/cats_page/cats.js", headers={"If-None-Match": script.headers["etag"]}).status_code == 304
    )


@pytest.mark.parametrize(
    "path", ["../__init__.py", "..%2f__init__.py", "%2e%2e/__init__.py", "..\\__init__.py", "/etc/passwd", "", "."]
)
def test_static_files_are_those_of_the_folder(package: Page, tmp_path: Path, path: str) -> None:
    shell = Shell.create(tmp_path, [package])
    for client in (shell.client(), shell.browser()):
        assert client.get(f"/static/cats_page/{path}").status_code in {401, 404, 405}


def test_an_entry_point_that_is_no_page(package: Page) -> None:
    with pytest.raises(InvalidArgumentError, match="must be pages, got 'a page'"):
        installed_pages()


def test_a_path_without_a_slash() -> None:
    with pytest.raises(InvalidArgumentError, match="path must start with '/', got 'cats'"):
        Page("cats", "Cats", APIRouter())


def test_a_template_of_another_package_and_a_missing_name(package: Page, tmp_path: Path) -> None:
    errors: list[type] = []

    async def ask(request: Request) -> Response:
        for template in ("dogs_page/dogs.html", "cats_page/../layout.html", "cats_page/cats.html"):
            try:
                render(request, template)
            except Exception as error:
                errors.append(type(error))
        return render(request, "home.html")

    shell = Shell.create(tmp_path, [package])
    shell.app.add_api_route("/ask", ask)
    assert shell.browser().get("/ask").status_code == 200
    assert errors == [TemplateNotFound, TemplateNotFound, UndefinedError]


def test_the_start_without_a_page_at_it(package: Page, tmp_path: Path) -> None:
    assert "Choose a page above." in Shell.create(tmp_path, [package]).browser().get("/").text
    assert "No page is installed." in Shell.create(tmp_path).browser().get("/").text


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_keeps_to_the_policy(template: Path) -> None:
    """The content security policy forbids inline scripts, handlers and styles; every value is escaped."""
    text = template.read_text()
    for tag, attributes in Elements(text).elements:
        assert tag not in {"style", "base", "iframe", "object", "embed"}
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "{{ root }}")), attributes
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", text)


def test_every_field_of_the_sign_in_has_a_label(tmp_path: Path) -> None:
    text = Shell.create(tmp_path).client().get("/sign-in").text
    elements = Elements(text).elements
    assert ("html", {"lang": "en"}) in elements
    labels = {attributes["for"] for tag, attributes in elements if tag == "label"}
    assert {attributes["id"] for tag, attributes in elements if tag == "input"} == labels
    assert next(attributes["href"] for tag, attributes in elements if tag == "a") == "#content"
    assert [tag for tag, _ in elements if re.fullmatch(r"h\d", tag)] == ["h1"]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_colours_have_the_contrast_of_wcag_aa() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", STYLE))
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", STYLE)) <= {*colours.values(), "#ffffff"}
    backgrounds = [colours["background"], colours["surface"]]
    for text, background in product(("text", "muted", "accent", "error"), backgrounds):
        assert contrast(colours[text], background) >= 4.5, (text, background)
    assert contrast("#ffffff", colours["accent"]) >= 4.5
    # Borders of controls and the ring of the focus.
    for line, background in product(("line", "focus"), backgrounds):
        assert contrast(colours[line], background) >= 3
    assert ":focus-visible { outline: 3px solid var(--focus);" in STYLE
