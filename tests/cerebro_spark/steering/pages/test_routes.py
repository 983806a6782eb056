"""Pages of experiments: names are escaped, links follow the path prefix, and files are served to them."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from web_shell import Shell

from cerebro_spark.steering.pages import PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.testclient import TestClient


def browser(folder: Path, role: str = "editor", root_path: str = "") -> TestClient:
    return Shell.create(folder, [PAGE], root_path=root_path).browser(role)


@pytest.mark.parametrize("run", ["<script>alert(1)<b>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "süß"])
def test_the_name_of_a_run_is_text(tmp_path: Path, run: str) -> None:
    with browser(tmp_path) as client:
        page = client.get(f"/experiments/{quote(run, safe='')}")
    assert page.status_code == 200
    assert re.findall(r"<script[^>]*>", page.text) == re.findall(r'<script type="module" src="[^"]*">', page.text)
    assert "onerror=alert(1)>" not in page.text
    shown = re.search(r'data-run="([^"]*)"', page.text)
    assert shown is not None and unescape(shown[1]) == run


@pytest.mark.parametrize("path", ["/", "/experiments/a"])
@pytest.mark.parametrize("root_path", ["", "/user/ada/proxy/8765"])
def test_links_and_files_are_below_the_path_prefix(tmp_path: Path, path: str, root_path: str) -> None:
    with browser(tmp_path, root_path=root_path) as client:
        page = client.get(f"{root_path}{path}")
        links = re.findall(r'(?:href|src)="([^"#]*)"', page.text)
        assert len(links) >= 6
        assert [link for link in links if not link.startswith(f"{root_path}/")] == []
        assert [link for link in links if client.get(link).status_code != 200] == []


def test_modules_import_files_that_are_served(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        todo, seen = ["/static/cerebro_spark.steering.pages/experiment.js"], set[str]()
        while todo:
            path = todo.pop()
            seen.add(path)
            module = client.get(path)
            assert module.status_code == 200, path
            assert module.headers["content-type"].startswith("text/javascript")
            folder = path.rpartition("/")[0]
            for name in re.findall(r'^import .* from "([^"]+)"', module.text, re.MULTILINE):
                target = f"/static/{name.removeprefix('../')}" if name.startswith("../") else f"{folder}/{name[2:]}"
                todo += [target] if target not in seen else []
    assert len(seen) > 10


def test_viewers_have_no_controls(tmp_path: Path) -> None:
    with browser(tmp_path, "viewer") as client:
        page = client.get("/experiments/a").text
    assert 'data-editor="false"' in page
    assert 'id="add"' not in page
    assert 'id="end"' not in page


def test_pages_need_a_session(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        client.cookies.clear()
        for path in ("/", "/experiments/a"):
            reply = client.get(path)
            assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")


def test_the_licence_of_the_chart_library_is_served_with_it(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        licence = client.get("/static/cerebro_spark.steering.pages/uPlot.LICENSE.txt").text
    assert "The MIT License" in licence
    assert "Leon Sorokin" in licence
