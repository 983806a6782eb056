"""Cookie of a session, and the token that the pages of a session send with changes."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.web._settings import WebSettings

__all__ = ["cookie_name", "csrf_token"]


def cookie_name(settings: WebSettings) -> str:
    """Return the name of the session cookie, which contains the port: browsers share cookies between ports."""
    return f"cerebro-session-{settings.port}"


def csrf_token(session: str) -> str:
    """Return the token that a page of a session sends with each change."""
    return hmac.digest(session.encode(), b"csrf", "sha256").hex()
