"""Message signatures that authenticate the members of a run and reveal replayed messages."""

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
    """Signer and verifier of the messages of one connection.

    The key is derived from the secret of the run, a random number of each side, and the TLS session if there is one.
    Messages recorded on one connection, or decrypted between two sessions, are therefore useless on another. Each
    signature covers the sender and the position of the message on the connection, so that repeated, omitted and
    reordered messages are refused.

    Parameters
    ----------
    secret : bytes
        Secret of the run, at least 16 random bytes.
    endpoint_nonce, caller_nonce : bytes
        16 random bytes of each side.
    session : bytes
        Channel binding of the TLS session. Default ``b""``: the connection is not encrypted.

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
            Sender and part of the message. It is signed but not sent.
        number : int
            Position of the message among those of its sender on this connection. It is signed but not sent.
        content : bytes
            Bytes to sign. Default ``b""``.
        """
        return self.signature(purpose, number, (content,)).value()

    def check(self, mac: bytes, purpose: str, number: int, content: bytes = b"") -> None:
        """Verify a signature.

        Raises
        ------
        RefusedError
            The signature was made with another secret, purpose, number or content.
        """
        self.signature(purpose, number, (content,)).check(mac)

    def signature(self, purpose: str, number: int, parts: Iterable[bytes] = ()) -> Signature:
        """Create an incremental signature for a content that arrives in parts."""
        signature = Signature(hmac.new(self._key, f"{purpose}|{number}|".encode(), "sha256"))
        for part in parts:
            signature.update(part)
        return signature


class Signature:
    """Incremental signature of a content that arrives in parts."""

    __slots__ = ("_mac",)

    def __init__(self, mac: hmac.HMAC) -> None:
        self._mac = mac

    def update(self, part: bytes | memoryview) -> None:
        """Add the next part of the content."""
        self._mac.update(part)

    def value(self) -> bytes:
        """Return the signature of all parts so far."""
        return self._mac.digest()

    def check(self, mac: bytes) -> None:
        """Raise ``RefusedError`` unless this is the signature of all parts so far."""
        if not hmac.compare_digest(mac, self._mac.digest()):
            raise RefusedError("a message that is not signed with this run's secret")
