"""The secret of a run is nowhere where others could read it, while it goes on and afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import IMPORTS
from watched_search import needles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.extended
def test_a_search_shows_its_secret_and_its_key_nowhere(tmp_path: Path) -> None:
    """Event log, pages and answers of the UI, command lines, environments, all files, output; closures of 3 MB."""
    for name in ("run", "run/tmp"):
        (tmp_path / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "watched_search", str(tmp_path / "run")],
        cwd=tmp_path / "run",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(IMPORTS), "TMPDIR": str(tmp_path / "run" / "tmp")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    # What is in a large closure was found: the places are the right ones.
    assert any("/local/" in where for where in seen["control"])
    assert seen["looked"]["files"] > 100
    assert seen["looked"]["processes"] >= 2 * 5
    assert seen["looked"]["pages"] >= 2 * 12
    assert seen["logs"] > 10_000
    assert seen["units"] >= 8
    # spark.network.crypto.enabled is on there.
    assert seen["encrypted"] == [True]
    assert seen["found"] == []
    # The driver on the address that it was given; the workers on the one that leads there.
    assert set(seen["listening"]) == {"127.0.0.1", "127.0.0.2"}


def test_what_is_looked_for() -> None:
    secret = bytes(range(200, 232))
    for text in (
        b"..." + secret,
        repr({"secret": secret}).encode(),
        str(list(secret)).encode(),
        secret.hex(" ").upper().encode(),
    ):
        assert any(needle in text for needle in needles(secret))
    assert not any(needle in bytes(range(200)) for needle in needles(secret))
