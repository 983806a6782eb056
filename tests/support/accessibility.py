"""Checks of a page against WCAG 2 AA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from places import SUPPORT

if TYPE_CHECKING:
    from browser import Page

__all__ = ["violations"]

_SCRIPT = (SUPPORT / "accessibility.js").read_text()


def violations(page: Page) -> list[str]:
    """List what a page does that WCAG 2 AA forbids, as far as a script can tell."""
    return list(page.value(_SCRIPT))
