"""Signatures that tell a run's own messages from everybody else's, and from copies of its own."""

from __future__ import annotations

import hmac
import secrets
import struct
import threading
from collections import defaultdict

from udfs.rpc._errors import RefusedError
from udfs.rpc._window import ReplayWindow

__all__ = ["Seal"]

_MAC = 32
_HEADER = struct.Struct("<16sQ")


class Seal:
    """Signs and checks the messages of one run. Every method may be called from any thread.

    Each sender numbers its requests, and a receiver accepts no number of a sender twice: a copy of a message is of no
    use. An answer is signed for one request alone, so that a copy of it answers no other. Messages are signed, not
    encrypted: the network has to be as trusted as for Spark's own shuffles.

    Parameters
    ----------
    secret : bytes
        The run's, at least 16 random bytes.

    Examples
    --------
    >>> one, other = Seal(b"the run's secret"), Seal(b"the run's secret")
    >>> request = one.close("call", b"how many?")
    >>> other.open("call", request)
    b'how many?'
    >>> one.open_answer(request, other.close_answer(request, b"three"))
    b'three'
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._sender = secrets.token_bytes(16)
        self._number = 0
        self._windows: defaultdict[bytes, ReplayWindow] = defaultdict(ReplayWindow)
        self._lock = threading.Lock()

    def close(self, purpose: str, payload: bytes) -> bytes:
        """Sign a request.

        Parameters
        ----------
        purpose : str
            Is signed as well, and does not travel: what is signed for one purpose is refused for another.
        payload : bytes
        """
        with self._lock:
            self._number += 1
            header = _HEADER.pack(self._sender, self._number)
        return self._sign(purpose, header + payload) + header + payload

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """Check a request, and take its payload out.

        Raises
        ------
        RefusedError
            Too short, not signed with the secret for this purpose, accepted before, or older than the replay window.
        """
        signed = self._checked(purpose, sealed)
        if len(signed) < _HEADER.size:
            raise RefusedError(f"a malformed message of {len(sealed)} bytes")
        sender, number = _HEADER.unpack_from(signed)
        with self._lock:
            if not self._windows[sender].accept(number):
                raise RefusedError("a message that was sent before, or is older than the replay window")
        return signed[_HEADER.size :]

    def close_answer(self, request: bytes, payload: bytes) -> bytes:
        """Sign the answer to a sealed request, and to no other."""
        return self._sign(_answer_to(request), payload) + payload

    def open_answer(self, request: bytes, sealed: bytes) -> bytes:
        """Check that an answer is to this sealed request, and take its payload out.

        Raises
        ------
        RefusedError
            Too short, not signed with the secret, or for another request.
        """
        return self._checked(_answer_to(request), sealed)

    def _checked(self, purpose: str, sealed: bytes) -> bytes:
        if len(sealed) < _MAC:
            raise RefusedError(f"a malformed message of {len(sealed)} bytes")
        signed = sealed[_MAC:]
        if not hmac.compare_digest(sealed[:_MAC], self._sign(purpose, signed)):
            raise RefusedError("a message that is not signed with this run's secret")
        return signed

    def _sign(self, purpose: str, signed: bytes) -> bytes:
        return hmac.digest(self._secret, purpose.encode() + b"|" + signed, "sha256")


def _answer_to(request: bytes) -> str:
    # The signature of a request covers its sender and number, so that no two are the same.
    return f"answer|{request[:_MAC].hex()}"
