"""The plugin's tab in Spark's UI and in the history server, over HTTP and in a browser, from a real job."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from browser import open_page
from places import IMPORTS, SUPPORT
from sessions import CONNECT
from waiting import until

from udfs.driver import plugin_jar

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(CONNECT, reason="starts sessions of its own"),
    pytest.mark.skipif(plugin_jar() is None, reason="make jvm builds the jar"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

SPARK = Path(pyspark.__file__).parent
IMAGES = 48
# Texts that are wider than their cells, and parts that do not fit in the window.
CUT = """[...document.querySelectorAll('.cerebro td, .cerebro th, .cerebro p, .cerebro svg')].filter(each =>
  each.scrollWidth > each.clientWidth + 1 && each.tagName !== 'svg' || each.getBoundingClientRect().right > innerWidth
).map(each => each.textContent)"""


@contextmanager
def job(folder: Path, images: int = 0, **settings: str) -> Iterator[dict[str, Any]]:
    """Run the job, and keep its UI open for a ``with`` block; what it logs is in the file ``log``."""
    command = [sys.executable, str(SUPPORT / "progress_tab_job.py"), json.dumps(settings), str(images)]
    variables = {"PYTHONPATH": os.pathsep.join(IMPORTS), "TMPDIR": str(folder)}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        found = next((line for line in process.stdout if line.startswith("FOUND")), None)
        assert found, (folder / "log").read_text()[-4000:]
        yield json.loads(found.removeprefix("FOUND"))
        process.stdin.close()


@contextmanager
def history_server(folder: Path, events: Path, class_path: str) -> Iterator[str]:
    """Start a history server for a ``with`` block, and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-Dspark.history.fs.logDirectory=file:{events} -Dspark.history.ui.port={port}"
    variables = {"SPARK_HISTORY_OPTS": options, "SPARK_DAEMON_CLASSPATH": class_path, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "history-log").open("w") as log:
        server = subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"],
            env=os.environ | variables | {"SPARK_HOME": str(SPARK)},
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def text_of(url: str) -> str:
    """Fetch a page; an error and a server that does not answer yet are an empty one."""
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            text: str = reply.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return ""


def shows(url: str, *parts: str) -> bool:
    """Return whether the page of the tab has some texts."""
    text = text_of(url)
    return all(part in text for part in parts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tab")
    (made / "events").mkdir()
    return made


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[dict[str, Any]]:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder / 'events'}",
        "spark.cerebro.ui.stalledAfter": "3s",
    }
    with job(folder, IMAGES, **settings) as found:
        until(lambda: shows(f"{found['ui']}/cerebro/", "wait_for_a_lock"), 60)
        yield found


def test_the_tab_shows_the_stages(running: dict[str, Any]) -> None:
    page = text_of(f"{running['ui']}/cerebro/")
    assert running["rows"] == IMAGES
    row = re.search(r"<td>features of &lt;photographs&gt; </td>\s*<td>(\d+)</td>\s*<td>([\d.]+)</td>", page)
    assert row is not None, page
    assert int(row[1]) == IMAGES
    assert float(row[2]) > 0
    for phase in ("start of workers", "opening the network", "decoding", "network", "Arrow conversion"):
        assert re.search(rf"{phase} [\d.]+ s \(\d+ %\)", page), phase
    assert "<photographs>" not in page
    assert re.search(r"<td>driver</td><td>[^<]+</td><td>inference</td><td>\d+</td>\s*<td>[\d.]+ [MG]iB</td>", page)
    assert ">Cerebro<" in text_of(f"{running['ui']}/jobs/")


def test_metrics_have_the_id_of_the_application(running: dict[str, Any], folder: Path) -> None:
    gauges = json.loads(text_of(f"{running['ui']}/metrics/json"))["gauges"]
    name = f"{running['application']}.driver.plugin.org.cerebro.spark.CerebroPlugin.memory.jvm.rss.bytes"
    assert gauges[name]["value"] > 2**20
    assert "MetricsSystem: Using default name" not in (folder / "log").read_text()


def test_a_worker_without_progress_has_its_stack(running: dict[str, Any]) -> None:
    page = text_of(f"{running['ui']}/cerebro/")
    assert "Workers without progress" in page
    assert "in wait_for_a_lock" in page


def test_the_search_has_a_bar_per_unit(running: dict[str, Any]) -> None:
    page = text_of(f"{running['ui']}/cerebro/")
    chart = page[page.index("<h4>Search</h4>") : page.index("<h4>Memory of Python workers</h4>")]
    shown = re.search(r"2 configurations on 2 workers, (\d+) units in [\d.]+ s\.", chart)
    assert shown is not None, chart
    titles = re.findall(r"<title>(c00\d): ([^<]+)</title>", chart)
    assert len(titles) == int(shown[1])
    assert {name for name, _ in titles} == {"c000", "c001"}
    assert any(text.startswith("epoch 1, shard") for _, text in titles), titles
    assert any(text.startswith("evaluation, shard") for _, text in titles), titles


def test_memory_of_the_executor_is_by_region(running: dict[str, Any]) -> None:
    until(lambda: shows(f"{running['ui']}/cerebro/", "Memory of executors"), 30)
    page = text_of(f"{running['ui']}/cerebro/")
    for region in ("jvm", "python", "total"):
        assert re.search(rf"<td>driver</td><td>[^<]+</td><td>{region}</td>\s*<td>[\d.]+ [MG]iB</td>", page), region


def test_links_lead_to_the_stages(running: dict[str, Any]) -> None:
    page = text_of(f"{running['ui']}/cerebro/")
    links = re.findall(r'href="(/stages/stage/[^"]+)"', page)
    assert links
    assert "Details for Stage" in text_of(running["ui"] + links[0].replace("&amp;", "&"))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 1100])
def test_nothing_is_cut(running: dict[str, Any], folder: Path, width: int) -> None:
    (folder / f"browser{width}").mkdir()
    with open_page(folder / f"browser{width}") as page:
        page.visit(f"{running['ui']}/cerebro/", width)
        page.wait("document.querySelectorAll('.cerebro rect').length > 5")
        page.picture(folder / f"tab{width}.png")
        assert page.value(CUT) == []
        titles = page.value("[...document.querySelectorAll('.cerebro rect title')].map(each => each.textContent)")
        assert any(title.startswith("start of workers: ") for title in titles), titles
        assert page.value("document.querySelectorAll('.cerebro script').length") == 0


@pytest.mark.slow
def test_the_history_server_shows_the_tab_from_the_event_log(folder: Path, tmp_path: Path) -> None:
    """After the application has ended; without the jar, the application is shown without the tab."""
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{tmp_path}",
        "spark.ui.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    (tmp_path / "job").mkdir()
    with job(tmp_path / "job", **settings) as found:
        pass
    (log,) = tmp_path.glob(f"*{found['application']}*")
    lines = [line for file in [log, *log.glob("events*")] if file.is_file() for line in file.read_text().splitlines()]
    for event in ("WorkersReported", "MemoryReported"):
        assert [line for line in lines if f'"org.cerebro.spark.ui.{event}"' in line]
    assert not list((tmp_path / "job").glob("cerebro-spark-workers-*/*.json")), "status files are left"
    application = f"history/{found['application']}"
    with history_server(tmp_path / "job", tmp_path, str(plugin_jar())) as address:
        until(lambda: shows(f"{address}/{application}/cerebro/", "Inference (1)", ">40<"), 120)
        page = text_of(f"{address}/{application}/cerebro/")
        assert f'href="/{application}/stages/stage/?id=' in page
        assert ">Cerebro<" in text_of(f"{address}/{application}/jobs/")
    with history_server(tmp_path / "job", tmp_path, "") as address:
        until(lambda: shows(f"{address}/{application}/jobs/", "Completed Jobs"), 120)
        assert ">Cerebro<" not in text_of(f"{address}/{application}/jobs/")


def test_links_respect_the_base_of_a_proxy(tmp_path: Path) -> None:
    with job(tmp_path, **{"spark.ui.proxyBase": "/behind/proxy"}) as found:
        until(lambda: shows(f"{found['ui']}/cerebro/", 'href="/behind/proxy/stages/stage/?id='), 60)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"spark.cerebro.ui": "false"}, ""),
        ({"spark.ui.enabled": "false"}, ""),
        ({"spark.cerebro.ui": "flase"}, "spark.cerebro.ui must be true or false, got 'flase'"),
    ],
)
def test_without_the_tab_the_job_runs(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    with job(tmp_path, **settings) as found:
        assert found["rows"] == 40
        if found["ui"] and not said:
            assert ">Cerebro<" not in text_of(f"{found['ui']}/jobs/")
    log = (tmp_path / "log").read_text()
    assert said in log
    assert " is off" not in log
