from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _long_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a backend that a busy machine stops for seconds: its thread shares this process with everything else."""
    monkeypatch.setattr("udfs.serving._link._SILENCE_S", 60.0)
