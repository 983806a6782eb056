"""The one-time token of the printed address becomes a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from sqlalchemy import create_engine
from starlette.testclient import TestClient

from udfs.web import Accounts, Principal, WebSettings, create_app

if TYPE_CHECKING:
    from pathlib import Path


def test_the_printed_address_signs_in_once(tmp_path: Path) -> None:
    accounts = Accounts(create_engine(f"sqlite:///{tmp_path / 'server.db'}"))
    settings = WebSettings()
    token = accounts.create_one_time_token(Principal("ada", "editor"))
    address, html = f"{settings.url}?token={token}", {"Accept": "text/html"}
    with TestClient(create_app(settings, accounts), base_url=settings.url) as browser:
        page = browser.get(address, headers=html)
        assert (page.status_code, str(page.url)) == (200, settings.url)
        assert "ada (editor)" in page.text
    with TestClient(create_app(settings, accounts), base_url=settings.url) as other:
        page = other.get(address, headers=html)
        assert page.status_code == 403
        assert not other.cookies
