"""Page for data debugging: suspicious rows of a pool are relabelled by keyboard, and the server keeps the decisions."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from accessibility import violations
from PIL import Image
from steering_server import RUNNER_TOKEN

from cerebro_spark.steering import Client
from cerebro_spark.steering._http import Connection

if TYPE_CHECKING:
    from browser import Page
    from fake_runner import FakeRunner
    from steering_server import Server

pytestmark = pytest.mark.browser

FOCUS = "document.activeElement.getAttribute('aria-label')"
DECISIONS = "[...document.querySelectorAll('#rows .decision span')].map(each => each.innerText)"
EVIL = "<img src=x onerror=alert(1)>"


def thumbnail(shade: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, shade, shade)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def result() -> dict[str, Any]:
    rows = [
        {
            "id": ident,
            "given_label": 1,
            "suggested_label": 7,
            "score": 0.001 * (place + 1),
            "is_error": True,
            "rank": place + 1,
            "values": {"job": EVIL, "age": 40.5},
            "image": thumbnail(40 * place),
        }
        for place, ident in enumerate([11, EVIL, 33])
    ]
    classes = list(range(10))
    return {"rows": rows, "total": 900, "errors": 3, "id_column": "key", "label_column": "y", "classes": classes}


def answer(pool: Connection, outcome: dict[str, Any]) -> dict[str, Any]:
    """Take the next request of the pool, answer it, and return its document."""
    (record,) = pool.request("GET", "runner/pools/p1/requests?wait=20&session=s")["requests"]
    pool.request("POST", f"runner/requests/{record['id']}?session=s", {"state": "done", "result": outcome})
    return {"kind": record["kind"], **record["document"]}


def test_a_row_is_relabelled_by_keyboard(page: Page, server: Server, runner: FakeRunner) -> None:
    pool = Connection(server.url(), RUNNER_TOKEN, 10)
    kinds = ["label_errors", "comparison"]
    pool.request("PUT", "runner/pools/p1", {"kinds": kinds, "session": "s"})
    page.visit(server.url("experiments/adult/data"))
    page.wait("document.querySelector('[data-ready]') !== null && document.getElementById('trial').length > 1")
    page.value("document.getElementById('id-column').value = 'key'")
    page.click("#find button[type=submit]")
    asked = answer(pool, result())
    assert asked == {"kind": "label_errors", "run": "adult", "limit": 100, "id_column": "key", "held_out": False}
    page.wait("document.querySelectorAll('#rows tbody tr').length === 3")
    assert page.value("document.querySelector('#rows tbody').innerText.split('<img').length") == 5, "texts are texts"
    assert page.value("document.querySelector('#rows img').naturalWidth") == 8
    assert violations(page) == []
    page.value("document.querySelector('#rows tbody tr').focus()")
    # The next row has the focus before the server has answered.
    page.press("s")
    page.press("3")
    assert page.value(FOCUS) == "Row 33"
    page.press("k")
    page.wait(f"{DECISIONS}.filter(Boolean).length === 3")
    assert page.value(DECISIONS) == ["✎ 7 by ada ", "✎ 3 by ada ", "✓ kept by ada "]
    # A second decision about the row, before the server has answered the first.
    page.press("ArrowUp", "4")
    page.press("ArrowUp", "u")
    page.wait(f"{DECISIONS}[1] === ''")
    server.accounts.set_program("reader", "viewer", "token-of-a-reader-123")
    client = Client(server.url(), "token-of-a-reader-123")
    decided = [(each["key"], each["corrected_label"]) for each in client.corrections("adult", id_column="key")]
    assert decided == [(33, 1), (11, 7)]
    assert 'id_column="key", label_column="y"' in page.value("document.getElementById('code').innerText")
    address = page.value("document.getElementById('export').href")
    rows = page.value(f"fetch({json.dumps(address)}).then(reply => reply.text())")
    assert [row[:3] for row in csv.reader(rows.splitlines())][1:] == [["33", "1", "1"], ["11", "1", "7"]]
    # A viewer sees the rows and the decisions, and cannot change them.
    guest = page.another_user()
    guest.visit(server.link("guest", "viewer"))
    guest.visit(server.url("experiments/adult/data"))
    guest.wait(f"{DECISIONS}.filter(Boolean).length === 2")
    assert guest.value("document.querySelectorAll('#find, #rows button, #corrections button').length") == 0
    guest.close_tab()
