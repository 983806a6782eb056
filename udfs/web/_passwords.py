"""Password hashes by scrypt."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading

__all__ = ["hash_password", "is_password"]

# The parameters that OWASP recommends: 32 MiB per attempt.
_N, _R, _P = 1 << 15, 8, 3
_MEMORY = 64 << 20
# Attempts run at the same time; each takes the memory above.
_CONCURRENT = threading.BoundedSemaphore(2)


def hash_password(password: str) -> str:
    """Return the salted hash of a password, with its parameters.

    Examples
    --------
    >>> hash_password("correct horse").split("$")[:4]
    ['scrypt', '32768', '8', '3']
    """
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _N, _R, _P)
    return "$".join(
        ["scrypt", str(_N), str(_R), str(_P), *(base64.b64encode(part).decode() for part in (salt, digest))]
    )


def is_password(password: str, stored: str) -> bool:
    """Compare a password with a stored hash, in the same time for an empty hash.

    Examples
    --------
    >>> stored = hash_password("correct horse")
    >>> is_password("correct horse", stored), is_password("battery staple", stored), is_password("", "")
    (True, False, False)
    """
    if not stored:
        # The time of a reply does not show which names have a password.
        _scrypt(password, b"0" * 16, _N, _R, _P)
        return False
    _, n, r, p, salt, digest = stored.split("$")
    computed = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(computed, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    with _CONCURRENT:
        return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY, dklen=32)
