"""Pages of experiments: names are escaped, links follow the path prefix, and files are served to them."""

from __future__ import annotations

import re
from html import unescape
from importlib.resources import files
from inspect import Parameter, signature
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from web_shell import Shell

import cerebro_spark
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


@pytest.mark.parametrize(
    "path", ["/", "/experiments/a", "/experiments/a/data", "/launch", "/experiments/a/drill-down", "/compare?runs=a"]
)
@pytest.mark.parametrize("root_path", ["", "/user/ada/proxy/8765"])
def test_links_and_files_are_below_the_path_prefix(tmp_path: Path, path: str, root_path: str) -> None:
    with browser(tmp_path, root_path=root_path) as client:
        page = client.get(f"{root_path}{path}")
        links = [link for link in re.findall(r'(?:href|src)="([^"#]*)"', page.text) if "/api/" not in link]
        assert len(links) >= 6
        assert [link for link in links if not link.startswith(f"{root_path}/")] == []
        assert [link for link in links if client.get(link).status_code != 200] == []


@pytest.mark.parametrize(("name", "fewest"), [("experiment", 10), ("launch", 9), ("compare", 5), ("data", 8)])
def test_modules_import_files_that_are_served(tmp_path: Path, name: str, fewest: int) -> None:
    with browser(tmp_path) as client:
        todo, seen = [f"/static/cerebro_spark.steering.pages/{name}.js"], set[str]()
        while todo:
            path = todo.pop()
            seen.add(path)
            module = client.get(path)
            assert module.status_code == 200, path
            assert module.headers["content-type"].startswith("text/javascript")
            folder = path.rpartition("/")[0]
            for file in re.findall(r'^import .* from "([^"]+)"', module.text, re.MULTILINE):
                target = f"/static/{file.removeprefix('../')}" if file.startswith("../") else f"{folder}/{file[2:]}"
                todo += [target] if target not in seen else []
    assert len(seen) > fewest


def test_viewers_have_no_controls(tmp_path: Path) -> None:
    with browser(tmp_path, "viewer") as client:
        page = client.get("/experiments/a").text
    assert 'data-editor="false"' in page
    assert 'id="add"' not in page
    assert 'id="end"' not in page
    assert "drill-down" not in page


def test_forms_are_for_editors(tmp_path: Path) -> None:
    for role, status in (("viewer", 403), ("editor", 200)):
        with browser(tmp_path, role) as client:
            replies = [client.get(path).status_code for path in ("/launch", "/experiments/a/drill-down")]
            assert replies == [status, status]
            assert ("/launch" in client.get("/").text) == (role == "editor")


def test_links_encode_the_name_of_a_run(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        page = client.get("/experiments/a%20%3Fb").text
    assert 'href="/experiments/a%20%3Fb/drill-down"' in page
    assert 'href="/api/v1/experiments/a%20%3Fb/notebook"' in page


def test_names_in_forms_are_text(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        for path in (
            "/compare?runs=%3Cscript%3Ealert(1)%3C%2Fscript%3E",
            "/experiments/%3Cscript%3Ealert(1)/drill-down",
        ):
            page = client.get(path).text
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert" in page


def test_pages_need_a_session(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        client.cookies.clear()
        for path in ("/", "/experiments/a"):
            reply = client.get(path)
            assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(("name", "holder"), [("uPlot", "Leon Sorokin"), ("plotly", "Plotly Technologies")])
def test_the_licence_of_a_chart_library_is_served_with_it(tmp_path: Path, name: str, holder: str) -> None:
    with browser(tmp_path) as client:
        licence = client.get(f"/static/cerebro_spark.steering.pages/{name}.LICENSE.txt").text
    assert "MIT License" in licence
    assert holder in licence


def test_only_the_comparison_loads_the_large_chart_library(tmp_path: Path) -> None:
    with browser(tmp_path) as client:
        pages = {path: client.get(path).text for path in ("/", "/experiments/a", "/launch", "/compare")}
        script = client.get("/static/cerebro_spark.steering.pages/plotly-strict.min.js").text
    assert [path for path, text in pages.items() if "plotly" in text] == ["/compare"]
    # Elements with these ids keep the library from adding styles, which the policy forbids too.
    ids = re.findall(r'<(?:meta|link) id="([^"]+)"', pages["/compare"])
    assert len(ids) == 2
    assert ids[1] in script and "no-inline-styles" in script


def test_the_form_has_the_settings_of_each_procedure() -> None:
    script = (files("cerebro_spark.steering.pages") / "static" / "procedures.js").read_text()
    epochs = dict(re.findall(r'^const (\w+) = \["(\w+)"', script, re.MULTILINE))
    rows = re.findall(r"^  (\w+): \{ title: .*, epochs: (\w+), settings: \[(.*)\] \}", script, re.MULTILINE)
    searches = {
        "grid": "GridSearch",
        "random": "RandomSearch",
        "halving": "SuccessiveHalving",
        "hyperband": "Hyperband",
        "asha": "ASHA",
        "pbt": "PBT",
        "evolution": "AgingEvolution",
    }
    assert [name for name, *_ in rows] == list(searches)
    for name, kind, settings in rows:
        listed = {epochs[kind], *re.findall(r'"(\w+)"', settings)}
        parameters = signature(getattr(cerebro_spark, searches[name])).parameters
        required = {key for key, each in parameters.items() if each.default is Parameter.empty}
        set_elsewhere = {"backend", "store", "trainer_fn", "search_space", "feature_columns", "label_columns"}
        assert required - set_elsewhere <= listed <= set(parameters), name
