"""Explanations in a browser: drop an image, see its heat map, recompute a rectangle, replace and cancel a request."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from accessibility import violations
from handler_pool import HandlerPool
from pages import open_experiment
from PIL import Image
from real_inputs import mobilenet_v2_weights
from steering_server import RUNNER_TOKEN, Server
from torch import nn

from cerebro_spark.steering.pages import PAGE
from udfs.images import Preprocessing
from udfs.requests import RequestHandler
from vista_spark import roster
from vista_spark.explaining.pages import PAGE as EXPLANATIONS
from vista_spark.explaining.runner import ESTIMATE, EXPLAIN, NETWORKS, Explanations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from browser import Page

    from udfs.requests import RequestContext

pytestmark = pytest.mark.browser

NETWORK = "explained_in_a_browser"
MARKUP = "<img src=x onerror=alert(1)>"
STATE = "document.getElementById('state').innerText"
DROP = """((name, text) => {{
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const dropped = new DataTransfer();
  dropped.items.add(new File([bytes], name));
  document.getElementById('drop').dispatchEvent(new DragEvent('drop', {{ dataTransfer: dropped, cancelable: true }}));
}})({name}, {text})"""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 2)),
    ).eval()


class Gate:
    """Handler of heat maps that stops after the first values of a map until it is opened."""

    def __init__(self) -> None:
        self.is_open, self.documents = threading.Event(), list[Any]()
        self.is_open.set()
        self._explanations = Explanations()

    def handlers(self) -> tuple[RequestHandler, ...]:
        explanations = self._explanations
        return (
            RequestHandler("explain", self._explain),
            RequestHandler("explain_estimate", explanations.estimate),
            RequestHandler("explain_networks", lambda *values: only_ours(explanations.networks(*values))),
        )

    def _explain(self, document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
        self.documents.append(document)
        report = context.report

        def report_and_wait(progress: dict[str, Any]) -> None:
            report(progress)
            while progress["fraction"] and not self.is_open.wait(0.05):
                context.check_cancelled()

        context.report = report_and_wait  # type: ignore[method-assign]
        return self._explanations.explain(document, context)


def only_ours(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "networks": [each for each in result["networks"] if each["name"] == NETWORK]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, pages=(PAGE, EXPLANATIONS))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def gate(server: Server) -> Iterator[Gate]:
    card = roster.ModelCard(NETWORK, network, Preprocessing(crop=48, resize=48), class_names=(MARKUP, "dog"))
    roster.register(card)
    gate = Gate()
    pool = HandlerPool(server.port, RUNNER_TOKEN, *gate.handlers())
    yield gate
    gate.is_open.set()
    pool.close()
    roster.unregister(NETWORK)


def drop(page: Page, name: str, content: bytes) -> None:
    page.value(DROP.format(name=json.dumps(name), text=json.dumps(base64.b64encode(content).decode())))


def picture() -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((240, 160)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def facts(page: Page) -> dict[str, str]:
    names, texts = (
        page.value(f"[...document.querySelectorAll('#facts {tag}')].map(each => each.innerText)")
        for tag in ("dt", "dd")
    )
    return dict(zip(names, texts, strict=True))


def test_an_image_is_explained_a_rectangle_recomputed_and_a_request_cancelled(
    page: Page, server: Server, gate: Gate
) -> None:
    page.visit(server.url("explanations"))
    page.wait("document.body?.dataset.ready === 'true'")
    assert violations(page) == []
    drop(page, "notes.png", b"<script>alert(1)</script>")
    page.wait("document.getElementById('problem').innerText.includes('notes.png is not an image')")
    drop(page, "gradient.png", picture())
    page.wait(f"{STATE} === 'Ready.'")
    page.wait("/^About .* s for 25 places\\.$/.test(document.getElementById('estimate').innerText)")

    page.click("#explain")
    page.wait(f"{STATE}.startsWith('Done in')")
    assert gate.documents[0]["region"] is None
    assert facts(page)["Places"] == "5 \u00d7 5"
    classes = page.value("[...document.querySelectorAll('#classes tr')].map(each => each.cells[0].innerText)")
    assert sorted(classes) == sorted([f"{MARKUP} (0)", "dog (1)"]), "names are text"
    page.value("document.getElementById('map').focus()")
    page.press("ArrowRight", "ArrowDown")
    value = page.value("document.getElementById('value').innerText")
    assert "covered" in value and "(" in value
    page.press("ArrowDown")
    assert page.value("document.getElementById('value').innerText") != value
    assert violations(page) == []

    page.drag("#map", (0.25, 0.1), (0.5, 0.6))
    page.wait("document.getElementById('left').value !== ''")
    page.wait(f"{STATE}.startsWith('Done in') && document.getElementById('facts').innerText.includes('3 \u00d7 2')")
    edges = page.value("['left', 'top', 'right', 'bottom'].map(id => Number(document.getElementById(id).value))")
    assert gate.documents[1]["region"] == edges
    assert all(abs(edge - wanted) <= 1 for edge, wanted in zip(edges, (60, 16, 120, 96), strict=True))

    page.value("document.getElementById('right').focus()")
    page.write("241")
    page.click("#explain")
    page.wait("document.getElementById('problem').innerText.includes(\"within 0 and the photograph's 240\")")
    page.click("#whole")

    gate.is_open.clear()
    page.click("#explain")
    page.wait(f"/^[1-9][0-9]? % of the places/.test({STATE})")
    page.click("#explain")  # replaces the one before
    page.click("#cancel")
    page.wait(f"/^Cancelled after [0-9]+ % of the places/.test({STATE})")
    with_state = page.value(
        "fetch('api/v1/requests?kind=explain').then(reply => reply.json())"
        ".then(({requests}) => requests.map(each => each.state))"
    )
    assert with_state == ["done", "done", "failed", "cancelled", "cancelled"]


def test_a_configuration_links_to_the_page(page: Page, server: Server, gate: Gate) -> None:
    runner = server.runner("punks", pool="pool")
    runner.start("c000", {"lr": 0.1})
    runner.train("c000", 0.5)
    runner.end()
    open_experiment(page, server.url("experiments/punks"))
    page.click("#configurations tr[data-id=c000] .link")
    page.click("dialog a")
    page.wait("document.body?.dataset.ready === 'true'")
    assert page.value("document.getElementById('network').selectedOptions[0].text") == "c000 of punks"
    page.wait("document.getElementById('estimate').innerText.includes('run must be a search of this pool')")


@pytest.mark.slow
def test_picture_of_the_page(page: Page, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``PICTURES`` is the folder that the picture is written to, by default the test's own."""
    data = pytest.importorskip("skimage.data")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "mobilenet_v2.pth").symlink_to(mobilenet_v2_weights())
    monkeypatch.setenv("CEREBRO_WEIGHTS", str(tmp_path / "weights"))
    cat = io.BytesIO()
    Image.fromarray(data.chelsea()).save(cat, "PNG")
    pool = HandlerPool(server.port, RUNNER_TOKEN, EXPLAIN, ESTIMATE, NETWORKS)
    page.visit(server.url("explanations"))
    page.wait("document.body?.dataset.ready === 'true'")
    drop(page, "chelsea.png", cat.getvalue())
    page.wait(f"{STATE} === 'Ready.'")
    for stride, start, end in ((16, None, None), (8, (0.28, 0.12), (0.62, 0.6))):
        page.value(f"document.getElementById('stride').value = '{stride}'")
        if start is None:
            page.value("document.getElementById('stride').dispatchEvent(new Event('change'))")
            page.wait("document.getElementById('estimate').innerText.includes('196 places')", 120)
            page.click("#explain")
        else:
            page.drag("#map", start, end)
        page.wait(f"{STATE}.startsWith('Done in')", 300)
        page.wait("!document.getElementById('facts').innerText.includes('running')")
    assert facts(page)["Mapped class"].startswith("Egyptian cat, 0.7")
    page.value("document.getElementById('map').focus()")
    page.press("ArrowUp")
    page.picture(Path(os.environ.get("PICTURES", tmp_path)) / "explanations_page.png")
    pool.close()
