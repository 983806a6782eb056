"""Signatures that tell a run's own messages from everybody else's, and from copies of its own."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from udfs.rpc._errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAC_BYTES", "NONCE_BYTES", "Seal", "Signature"]

MAC_BYTES = 32
NONCE_BYTES = 16


class Seal:
    """Signs and checks the messages of one connection.

    The key is derived from the run's secret, from a random number of each side, and from the encrypted session if there
    is one: what was overheard on one connection, or decrypted between two sessions, is of no use on another. Each
    signature covers who sends, and the message's place on the connection: a message that is sent again, left out or
    moved is refused.

    Parameters
    ----------
    secret : bytes
        The run's, at least 16 random bytes.
    endpoint_nonce, caller_nonce : bytes
        16 random bytes of each side.
    session : bytes
        What both sides know of the encrypted session; nothing where it is not encrypted (default).

    Examples
    --------
    >>> caller, endpoint = (Seal(b"the run's secret", bytes(16), bytes(16)) for _ in range(2))
    >>> mac = caller.sign("request", 0, b"how many?")
    >>> endpoint.check(mac, "request", 0, b"how many?")
    >>> endpoint.check(mac, "request", 1, b"how many?")
    Traceback (most recent call last):
    ...
    udfs.rpc._errors.RefusedError: a message that is not signed with this run's secret
    """

    def __init__(self, secret: bytes, endpoint_nonce: bytes, caller_nonce: bytes, session: bytes = b"") -> None:
        self._key = hmac.digest(secret, b"cerebro-spark|" + endpoint_nonce + caller_nonce + session, "sha256")

    def sign(self, purpose: str, number: int, content: bytes = b"") -> bytes:
        """Sign a short content.

        Parameters
        ----------
        purpose : str
            Sender and part of the message; is signed as well, and does not travel.
        number : int
            Of the message among those of its sender on this connection; the same.
        content : bytes
        """
        return self.signature(purpose, number, (content,)).value()

    def check(self, mac: bytes, purpose: str, number: int, content: bytes = b"") -> None:
        """Check a signature.

        Raises
        ------
        RefusedError
            It is not of the secret, or of another purpose, number or content.
        """
        self.signature(purpose, number, (content,)).check(mac)

    def signature(self, purpose: str, number: int, parts: Iterable[bytes] = ()) -> Signature:
        """Begin the signature of a content that comes in parts."""
        signature = Signature(hmac.new(self._key, f"{purpose}|{number}|".encode(), "sha256"))
        for part in parts:
            signature.update(part)
        return signature


class Signature:
    """A signature in the making."""

    __slots__ = ("_mac",)

    def __init__(self, mac: hmac.HMAC) -> None:
        self._mac = mac

    def update(self, part: bytes | memoryview) -> None:
        """Add the next part of the content."""
        self._mac.update(part)

    def value(self) -> bytes:
        """Give the signature of all parts so far."""
        return self._mac.digest()

    def check(self, mac: bytes) -> None:
        """Raise ``RefusedError`` unless this is the signature of all parts so far."""
        if not hmac.compare_digest(mac, self._mac.digest()):
            raise RefusedError("a message that is not signed with this run's secret")
