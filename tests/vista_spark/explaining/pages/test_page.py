"""The page of explanations for different roles."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool
from starlette.testclient import TestClient

from udfs.web import ACCOUNTS_METADATA, Accounts, WebSettings, create_app
from vista_spark.explaining.pages import PAGE


@pytest.fixture
def accounts() -> Accounts:
    engine = create_engine("sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool)
    ACCOUNTS_METADATA.create_all(engine)
    return Accounts(engine)


@pytest.mark.parametrize(("role", "is_disabled"), [("viewer", True), ("editor", False)])
def test_a_viewer_sees_the_page_but_sends_nothing(accounts: Accounts, role: str, is_disabled: bool) -> None:
    settings = WebSettings()
    token = accounts.set_program("ada", role)
    app = create_app(settings, accounts, [PAGE])
    with TestClient(app, base_url=settings.url, headers={"Authorization": f"Bearer {token}"}) as client:
        text = client.get("/explanations").text
        assert ("<fieldset disabled>" in text) == is_disabled
        assert ("need the role editor" in text) == is_disabled
        script = client.get("/static/vista_spark.explaining.pages/explanations.js")
        assert script.status_code == 200 and "innerHTML" not in script.text
    assert TestClient(app, base_url=settings.url).get("/explanations", follow_redirects=False).status_code != 200
