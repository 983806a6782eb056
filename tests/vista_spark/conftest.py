from __future__ import annotations

import pytest


@pytest.fixture
def _tiny_bert() -> None:
    """Register the small BERT of the tests, even if another model was registered under its name before."""
    from texts import tiny_bert  # an optional extra

    tiny_bert()
