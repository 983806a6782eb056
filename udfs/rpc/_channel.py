"""Authenticated connection between two members of a run: handshake, optional encryption, and signed messages."""

from __future__ import annotations

import secrets
import ssl
import struct
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from udfs.rpc._encryption import session_of, underneath
from udfs.rpc._errors import RefusedError
from udfs.rpc._hosted_content import new_digest
from udfs.rpc._seal import MAC_BYTES, NONCE_BYTES, Seal
from udfs.rpc._socket import cut, encrypt, read, read_into, write

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from udfs.rpc._seal import Signature

__all__ = ["Channel", "Kind", "prove_to_caller", "prove_to_endpoint", "refuse"]

# First bytes that an endpoint sends, unencrypted. Increase the numbers with every change of the format in this module.
_GREETING = b"cerebro-spark 5\n"
_ENCRYPTED_GREETING = b"cerebro-tls   5\n"
_WELCOME, _REFUSED = b"w", b"r"

_HEADER = struct.Struct(">BQ")

# Bytes that are signed and written at a time, and the size up to which a message is sent in one packet with its header.
_CHUNK = 4 << 20
_SHORT = 64 << 10


class Kind(IntEnum):
    """Kinds of messages: two requests and four answers. ``HELD`` is ``DONE`` for a content with a stored digest.

    For ``HELD`` the sender signs the digest that was computed when the content was created, so that only the receiver
    reads the whole content. An undetected change would require another content with the same digest.
    """

    CALL = 1
    FETCH = 2
    DONE = 3
    REFUSED = 4
    FAILED = 5
    HELD = 6


_REQUESTS = frozenset((Kind.CALL, Kind.FETCH))


def prove_to_caller(connection: socket.socket, secret: bytes, until: float) -> Channel:
    """Authenticate a caller and this endpoint to each other, after the TLS handshake if the run encrypts.

    Raises
    ------
    RefusedError
        The caller does not know the secret, or does not encrypt. Inform it with :func:`refuse`.
    OSError
        The caller did not answer by the deadline, or closed the connection.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    if isinstance(connection, ssl.SSLSocket):
        _expect_encryption(connection, until)
        write(connection, nonce, until)
    else:
        write(connection, _GREETING + nonce, until)
    proof = read(connection, NONCE_BYTES + MAC_BYTES, until)
    seal = Seal(secret, nonce, proof[:NONCE_BYTES], session_of(connection))
    seal.check(proof[NONCE_BYTES:], "caller", 0)
    write(connection, _WELCOME + seal.sign("endpoint", 0), until)
    return Channel(connection, seal, asks=False)


def refuse(connection: socket.socket, until: float) -> None:
    """Inform a caller that its proof was rejected."""
    if isinstance(connection, ssl.SSLSocket) and connection.version() is None:
        return  # without session keys the caller cannot read an answer
    with suppress(RefusedError):  # the TLS session ended with the caller's message
        write(connection, _REFUSED + bytes(MAC_BYTES), until)


def prove_to_endpoint(
    connection: socket.socket, secret: bytes, until: float, encryption: ssl.SSLContext | None = None
) -> Channel:
    """Authenticate this caller and an endpoint to each other.

    Parameters
    ----------
    connection : socket.socket
        New connection to the endpoint; closed on failure.
    until : float
        Deadline on the monotonic clock, in seconds.
    encryption : ssl.SSLContext, optional
        TLS settings of a run that encrypts its messages.

    Raises
    ------
    RefusedError
        The endpoint does not know the secret, rejects the proof of this side, or uses another protocol; or only one of
        the two sides encrypts.
    OSError
        The endpoint did not answer by the deadline, or closed the connection.
    """
    try:
        _check_greeting(read(connection, len(_GREETING), until), encrypted=encryption is not None)
        if encryption is not None:
            write(connection, _ENCRYPTED_GREETING, until)
            connection = encryption.wrap_socket(connection, do_handshake_on_connect=False)
            encrypt(connection, until)
        endpoint_nonce = read(connection, NONCE_BYTES, until)
        caller_nonce = secrets.token_bytes(NONCE_BYTES)
        seal = Seal(secret, endpoint_nonce, caller_nonce, session_of(connection))
        write(connection, caller_nonce + seal.sign("caller", 0), until)
        verdict = read(connection, 1 + MAC_BYTES, until)
        if verdict[:1] != _WELCOME:
            raise RefusedError("a message that is not signed with this run's secret")  # noqa: TRY301 - closes as well
        seal.check(verdict[1:], "endpoint", 0)
    except BaseException:
        connection.close()
        raise
    return Channel(connection, seal, asks=True)


def _check_greeting(greeting: bytes, *, encrypted: bool) -> None:
    if greeting == (_ENCRYPTED_GREETING if encrypted else _GREETING):
        return
    if greeting == _ENCRYPTED_GREETING:
        raise RefusedError("the other side encrypts its messages, and this side does not")
    if greeting == _GREETING:
        raise RefusedError("the other side does not encrypt its messages, and this side does")
    raise RefusedError("the other side is no endpoint of this version of cerebro-spark")


def _expect_encryption(connection: ssl.SSLSocket, until: float) -> None:
    """Announce encryption to a caller and perform the TLS handshake.

    The caller repeats the greeting first, so that TLS does not interpret arbitrary bytes as the start of a long record.
    """
    with underneath(connection) as plain:
        write(plain, _ENCRYPTED_GREETING, until)
        if read(plain, len(_ENCRYPTED_GREETING), until) != _ENCRYPTED_GREETING:
            raise RefusedError("a caller that does not encrypt its messages")
    encrypt(connection, until)


class Channel:
    """Signed messages on one connection, in alternation: a request, its answer, the next request.

    The header of a message contains its kind and length and has its own signature. The receiver checks it before it
    allocates memory for the message, so that it never trusts an unsigned length.

    Parameters
    ----------
    asks : bool
        Whether this side sends the requests.
    """

    def __init__(self, connection: socket.socket, seal: Seal, *, asks: bool) -> None:
        self._connection = connection
        self._seal = seal
        self._asks = asks
        self._out, self._in = ("request", "answer") if asks else ("answer", "request")
        self._sent = 0
        self._received = 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def cut(self) -> None:
        """Shut the connection down while another thread uses it."""
        cut(self._connection)

    def send(self, kind: Kind, content: bytes, until: float, digest: str = "") -> None:
        """Send a message.

        Parameters
        ----------
        digest : str
            Digest of the content of a ``HELD`` message. Default ``""``.

        Raises
        ------
        OSError
            The deadline has passed, or the connection was closed.
        """
        header = _HEADER.pack(kind, len(content))
        head = header + self._seal.sign(f"{self._out} header", self._sent, header)
        if kind is Kind.HELD:
            signed: Signature | None = None
            mac = self._seal.sign(f"{self._out} digest", self._sent, digest.encode())
        else:
            signed, mac = self._seal.signature(self._out, self._sent), b""
        self._sent += 1
        if signed is not None and len(content) <= _SHORT:
            signed.update(content)
            write(self._connection, head + content + signed.value(), until)
            return
        write(self._connection, head, until)
        for part in _parts(memoryview(content)):
            if signed is not None:
                signed.update(part)
            write(self._connection, part, until)
        write(self._connection, mac if signed is None else signed.value(), until)

    def receive_header(self, until: float) -> tuple[Kind, int]:
        """Wait for the next message and return its kind and its size in bytes.

        Raises
        ------
        RefusedError
            The header is not that of the next message of the other side.
        OSError
            The deadline has passed, or the connection was closed.
        """
        head = read(self._connection, _HEADER.size + MAC_BYTES, until)
        header, mac = head[: _HEADER.size], head[_HEADER.size :]
        self._seal.check(mac, f"{self._in} header", self._received, header)
        kind, length = _HEADER.unpack(header)
        if (kind in _REQUESTS) == self._asks or kind not in iter(Kind):
            raise RefusedError(f"a message of kind {kind}, which this side does not get")
        return Kind(kind), length

    def receive_content(self, length: int, until: float) -> bytes:
        """Read the content of the message whose header was received.

        Raises
        ------
        RefusedError
            The content was altered in transit.
        OSError
            The deadline has passed, or the connection was closed.
        """
        content = bytearray(length)  # the system allocates the pages when they are written
        signature = self._seal.signature(self._in, self._received)
        for part in _parts(memoryview(content)):
            read_into(self._connection, part, until)
            signature.update(part)
        signature.check(read(self._connection, MAC_BYTES, until))
        self._received += 1
        return bytes(content)

    def receive_held(
        self, length: int, until: float, allocate: Callable[[int], memoryview] | None = None
    ) -> tuple[bytes, str]:
        """Read the content of a ``HELD`` message into memory of ``allocate``; return it with its verified digest.

        Raises
        ------
        RefusedError, OSError
            See :meth:`receive_content`.
        """
        content, digest = memoryview(bytearray(length)) if allocate is None else allocate(length), new_digest()
        for part in _parts(content):
            read_into(self._connection, part, until)
            digest.update(part)
        hex_digest = str(digest.hexdigest())
        mac = read(self._connection, MAC_BYTES, until)
        self._seal.check(mac, f"{self._in} digest", self._received, hex_digest.encode())
        self._received += 1
        return bytes(content) if allocate is None else cast("bytes", content), hex_digest


def _parts(content: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(content), _CHUNK):
        yield content[start : start + _CHUNK]
