"""Schema of the REST API: requests that are drawn from it get no error of the server, and answers that it describes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

for name in ("fastapi", "sqlalchemy", "httpx", "schemathesis"):
    pytest.importorskip(name)

from live_server import TOKEN, http_client, live_server

if TYPE_CHECKING:
    from pathlib import Path

# Streams and long polls do not end.
ENDLESS = r"/events$|runner/.*/(commands|requests)$"
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


def test_drawn_requests_get_answers_of_the_schema(tmp_path: Path) -> None:
    with live_server(tmp_path / "server.sqlite") as url, http_client(url) as client:
        settings = {"name": "digits", "store": "s", "metric": "loss", "mode": "min", "epochs": 3, "workers": 2}
        assert client.put("/api/v1/runner/experiments/digits", json=settings).status_code == 200
        words = [
            "run",
            f"{url.rstrip('/')}/api/v1/openapi.json",
            "--header",
            f"Authorization: Bearer {TOKEN}",
            "--seed",
            "7",
        ]
        words += ["--max-examples", "4", "--phases", "fuzzing", "--checks", CHECKS, "--exclude-path-regex", ENDLESS]
        found = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *words, "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert found.returncode == 0, found.stdout
