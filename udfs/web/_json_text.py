"""Check of the text in JSON bodies."""

from __future__ import annotations

import json

__all__ = ["is_unicode"]


def is_unicode(body: bytes) -> bool:
    r"""Return True if a body is UTF-8, and no string of its JSON contains half of a surrogate pair.

    Python's JSON parser accepts halves, as escapes and as bytes, also in UTF-16. They have no encoding: each response
    that repeats a stored one would fail.

    Examples
    --------
    >>> is_unicode(b'{"name": "\\ud83d\\ude00"}'), is_unicode(b'{"name": "\\ud83d"}'), is_unicode(b'"\xed\xa0\xbd"')
    (True, False, False)
    """
    try:
        text = body.decode()
        if "\0" in text:  # no JSON, unless it is UTF-16 or UTF-32
            return False
        if "\\ud" in text.lower():
            json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeError:
        return False
    except (ValueError, RecursionError):
        return True  # the route replies that the body is not JSON
    return True
