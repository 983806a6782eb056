"""A connection between two members of a run: its encryption, the proof that both are, and then signed messages."""

from __future__ import annotations

import secrets
import ssl
import struct
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from udfs.rpc._encryption import session_of, underneath
from udfs.rpc._errors import RefusedError
from udfs.rpc._held import new_digest
from udfs.rpc._seal import MAC_BYTES, NONCE_BYTES, Seal
from udfs.rpc._socket import cut, encrypt, read, read_into, write

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from udfs.rpc._seal import Signature

__all__ = ["Channel", "Kind", "prove_to_caller", "prove_to_endpoint", "refuse"]

# What an endpoint says first, in the clear. Raise the numbers with every change of this module.
_GREETING = b"cerebro-spark 5\n"
_ENCRYPTED_GREETING = b"cerebro-tls   5\n"
_WELCOME, _REFUSED = b"w", b"r"

_HEADER = struct.Struct(">BQ")

# Bytes that are signed and written at a time; what is shorter travels as one packet with its header.
_CHUNK = 4 << 20
_SHORT = 64 << 10


class Kind(IntEnum):
    """The kinds of messages: two requests, and three answers to each; ``HELD`` is done, with a digest.

    Of an answer that is held its digest is signed, which the sender has had since the content came to be: only the
    receiver reads all of it for a digest. To alter it unseen takes another content of the same digest.
    """

    CALL = 1
    FETCH = 2
    DONE = 3
    REFUSED = 4
    FAILED = 5
    HELD = 6


_REQUESTS = frozenset((Kind.CALL, Kind.FETCH))


def prove_to_caller(connection: socket.socket, secret: bytes, until: float) -> Channel:
    """Let a caller prove that it knows the secret, and prove it in turn; agree on keys first if there are to be any.

    Raises
    ------
    RefusedError
        It does not know the secret, or does not encrypt; tell it so with :func:`refuse`.
    OSError
        It does not say anything by the deadline, or goes.
    """
    own = secrets.token_bytes(NONCE_BYTES)
    if isinstance(connection, ssl.SSLSocket):
        _expect_encryption(connection, until)
        write(connection, own, until)
    else:
        write(connection, _GREETING + own, until)
    proof = read(connection, NONCE_BYTES + MAC_BYTES, until)
    seal = Seal(secret, own, proof[:NONCE_BYTES], session_of(connection))
    seal.check(proof[NONCE_BYTES:], "caller", 0)
    write(connection, _WELCOME + seal.sign("endpoint", 0), until)
    return Channel(connection, seal, asks=False)


def refuse(connection: socket.socket, until: float) -> None:
    """Tell a caller that its proof is none."""
    if isinstance(connection, ssl.SSLSocket) and connection.version() is None:
        return  # there are no keys to tell it with
    with suppress(RefusedError):  # its session has ended with what it said
        write(connection, _REFUSED + bytes(MAC_BYTES), until)


def prove_to_endpoint(
    connection: socket.socket, secret: bytes, until: float, encryption: ssl.SSLContext | None = None
) -> Channel:
    """Prove to an endpoint that this side knows the secret, and let it prove it in turn.

    Parameters
    ----------
    connection : socket.socket
        Is closed where this fails.
    secret : bytes
    until : float
    encryption : ssl.SSLContext, optional
        Of a run whose messages are encrypted.

    Raises
    ------
    RefusedError
        The endpoint does not know the secret, or refuses this side's proof, or speaks another protocol; it encrypts and
        this side does not, or the other way round.
    OSError
        It does not say anything by the deadline, or goes.
    """
    try:
        _check_greeting(read(connection, len(_GREETING), until), encrypted=encryption is not None)
        if encryption is not None:
            write(connection, _ENCRYPTED_GREETING, until)
            connection = encryption.wrap_socket(connection, do_handshake_on_connect=False)
            encrypt(connection, until)
        nonce = read(connection, NONCE_BYTES, until)
        own = secrets.token_bytes(NONCE_BYTES)
        seal = Seal(secret, nonce, own, session_of(connection))
        write(connection, own + seal.sign("caller", 0), until)
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
    """Tell a caller that it has to encrypt, and agree on keys with one that knows what that means.

    It repeats the greeting, so that a stranger's bytes are not taken for the beginning of a long message of TLS.
    """
    with underneath(connection) as plain:
        write(plain, _ENCRYPTED_GREETING, until)
        if read(plain, len(_ENCRYPTED_GREETING), until) != _ENCRYPTED_GREETING:
            raise RefusedError("a caller that does not encrypt its messages")
    encrypt(connection, until)


class Channel:
    """Signed messages on one connection, in turn: a request, its answer, the next request.

    A message's header, with its kind and its length, is signed on its own, and is checked before memory is taken for
    the message: a length that the other side did not sign is never believed.

    Parameters
    ----------
    connection : socket.socket
    seal : Seal
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
        """End the connection under the thread that uses it."""
        cut(self._connection)

    def send(self, kind: Kind, content: bytes, until: float, digest: str = "") -> None:
        """Send a message.

        Parameters
        ----------
        kind : Kind
        content : bytes
        until : float
        digest : str
            Of the content, where it is held. Default ``""``.

        Raises
        ------
        OSError
            The deadline has passed, or the connection has ended before.
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
        """Wait for the next message, and give its kind and its size.

        Raises
        ------
        RefusedError
            It is not the other side's next message.
        OSError
            The deadline has passed, or the connection has ended before.
        """
        head = read(self._connection, _HEADER.size + MAC_BYTES, until)
        header, mac = head[: _HEADER.size], head[_HEADER.size :]
        self._seal.check(mac, f"{self._in} header", self._received, header)
        kind, length = _HEADER.unpack(header)
        if (kind in _REQUESTS) == self._asks or kind not in iter(Kind):
            raise RefusedError(f"a message of kind {kind}, which this side does not get")
        return Kind(kind), length

    def receive_content(self, length: int, until: float) -> bytes:
        """Read the message whose header was received.

        Raises
        ------
        RefusedError
            It was altered on its way.
        OSError
            The deadline has passed, or the connection has ended before.
        """
        content = bytearray(length)  # takes no memory before it is written to
        signature = self._seal.signature(self._in, self._received)
        for part in _parts(memoryview(content)):
            read_into(self._connection, part, until)
            signature.update(part)
        signature.check(read(self._connection, MAC_BYTES, until))
        self._received += 1
        return bytes(content)

    def receive_held(self, length: int, until: float) -> tuple[bytes, str]:
        """Read the content whose header was received, and give its digest, which is the signed one.

        Raises
        ------
        RefusedError, OSError
            As for :meth:`receive_content`.
        """
        content, digest = bytearray(length), new_digest()
        for part in _parts(memoryview(content)):
            read_into(self._connection, part, until)
            digest.update(part)
        found = str(digest.hexdigest())
        mac = read(self._connection, MAC_BYTES, until)
        self._seal.check(mac, f"{self._in} digest", self._received, found.encode())
        self._received += 1
        return bytes(content), found


def _parts(content: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(content), _CHUNK):
        yield content[start : start + _CHUNK]
