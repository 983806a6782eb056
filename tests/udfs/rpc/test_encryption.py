"""Encrypted calls: messages cannot be read in transit, and only members can be at either end."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from udfs.rpc import (
    Caller,
    CallError,
    Credentials,
    Endpoint,
    RefusedError,
    Request,
    Seal,
    WireProtocol,
    new_credentials,
)
from udfs.rpc._address import host_and_port
from udfs.rpc._channel import _ENCRYPTED_GREETING
from udfs.rpc._encryption import context_of_caller, context_of_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUN = new_credentials(encrypted=True)
PLAIN = Credentials(RUN.secret)
MARK = b"weights of a confidential model "
LARGE = MARK * 100_000


@dataclass(frozen=True)
class Answer:
    text: str


@dataclass(frozen=True)
class Question(Request[Answer]):
    text: str


PROTOCOL = WireProtocol("encrypted", 1, (Question,))


def endpoint_of(credentials: Credentials) -> Endpoint:
    def answer(request: Request[Any]) -> Answer:
        assert isinstance(request, Question)
        return Answer(request.text.upper())

    return Endpoint("127.0.0.1", credentials, PROTOCOL, answer, {"state": LARGE}.get)


@contextmanager
def between(location: str, pass_on: Callable[[socket.socket, socket.socket], None]) -> Iterator[str]:
    """Stand between a caller and an endpoint; gives the location at which the caller finds this instead."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            inside, _ = listener.accept()
            with inside, socket.create_connection(host_and_port(location)) as outside, suppress(OSError):
                pass_on(inside, outside)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(20)
        assert not thread.is_alive()


def copy(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes] = bytes) -> None:
    with suppress(OSError):
        while content := source.recv(1 << 16):
            target.sendall(change(content))
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def both_ways(inside: socket.socket, outside: socket.socket, change: Callable[[bytes], bytes] = bytes) -> None:
    requests = threading.Thread(target=copy, args=(inside, outside, change))
    requests.start()
    copy(outside, inside, change)
    requests.join()


@pytest.mark.parametrize("credentials", [PLAIN, RUN], ids=["plain", "encrypted"])
def test_what_travels_cannot_be_read(credentials: Credentials) -> None:
    seen: list[bytes] = []

    def note(content: bytes) -> bytes:
        seen.append(content)
        return content

    with ExitStack() as stack:
        endpoint = stack.enter_context(endpoint_of(credentials))
        location = stack.enter_context(
            between(endpoint.location, lambda *ends: both_ways(*ends, note))  # type: ignore[call-arg]
        )
        caller = Caller(location, credentials, PROTOCOL)
        assert caller.call(Question("a name of a patient"), timeout_s=10) == Answer("A NAME OF A PATIENT")
        assert caller.fetch("state", timeout_s=10) == LARGE
        caller.close()
    wire = b"".join(seen)
    assert len(wire) > len(LARGE)
    for text in (b"a name of a patient", b"A NAME OF A PATIENT", b"Question", MARK):
        assert (text in wire) == (credentials is PLAIN)


@pytest.mark.parametrize(
    ("here", "there", "why"),
    [
        (PLAIN, RUN, "the other side encrypts its messages, and this side does not"),
        (RUN, PLAIN, "the other side does not encrypt its messages, and this side does"),
        (RUN, replace(new_credentials(encrypted=True), secret=RUN.secret), "another certificate than this run's"),
        (replace(RUN, secret=b"a guess"), RUN, "not signed with this run's secret"),
    ],
    ids=["plain caller", "plain endpoint", "other certificate", "other secret"],
)
def test_who_does_not_have_all_of_the_runs_credentials_is_refused_at_once(
    here: Credentials, there: Credentials, why: str
) -> None:
    with endpoint_of(there) as endpoint:
        caller = Caller(endpoint.location, here, PROTOCOL)
        with pytest.raises(RefusedError, match=why):  # not after the time that the other side waits
            caller.call(Question("a"), timeout_s=5)
        member = Caller(endpoint.location, there, PROTOCOL)
        assert member.call(Question("b"), timeout_s=20) == Answer("B")
        member.close()


def test_a_certificate_that_the_runs_key_signed_is_not_the_runs() -> None:
    """The run's certificate is no authority: it stands for itself alone."""
    key = serialization.load_pem_private_key(RUN.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    other = new_credentials(encrypted=True)
    given = x509.load_pem_x509_certificate(other.certificate.encode())
    signed = x509.CertificateBuilder(
        given.subject,
        given.issuer,
        given.public_key(),
        given.serial_number,
        given.not_valid_before_utc,
        given.not_valid_after_utc,
    ).sign(key, hashes.SHA256())
    chain = signed.public_bytes(serialization.Encoding.PEM).decode() + RUN.certificate
    with endpoint_of(replace(other, secret=RUN.secret, certificate=chain)) as endpoint:
        caller = Caller(endpoint.location, RUN, PROTOCOL)
        with pytest.raises(RefusedError, match="another certificate than this run's"):
            caller.call(Question("a"), timeout_s=5)


def test_a_proof_is_for_one_encrypted_session() -> None:
    """An attacker with the certificate's key but without the secret decrypts and re-encrypts between two members."""

    def pass_on(inside: socket.socket, outside: socket.socket) -> None:
        for end, first in ((outside, inside), (inside, outside)):
            greeting = end.recv(16)
            assert greeting == _ENCRYPTED_GREETING
            first.sendall(greeting)
        with (
            context_of_endpoint(RUN).wrap_socket(inside, server_side=True) as decrypted,
            context_of_caller(RUN).wrap_socket(outside) as encrypted,
        ):
            decrypted.sendall(encrypted.recv(16))  # the endpoint's number
            encrypted.sendall(decrypted.recv(48))  # the caller's, and its proof
            decrypted.sendall(encrypted.recv(33))

    with endpoint_of(RUN) as endpoint:
        with between(endpoint.location, pass_on) as location:
            caller = Caller(location, RUN, PROTOCOL)
            with pytest.raises(RefusedError, match="not signed with this run's secret"):
                caller.call(Question("a"), timeout_s=10)
        assert endpoint.refused == 1
    one, other = (Seal(RUN.secret, bytes(16), bytes(16), session) for session in (b"one", b"other"))
    assert one.sign("caller", 0) != other.sign("caller", 0)


@pytest.mark.parametrize("place", [20, 700, 2_000_000])
def test_what_is_altered_on_its_way_is_refused(place: int) -> None:
    """In the handshake, in the proof or soon after it, in the bytes that are fetched."""
    seen = 0

    def alter(content: bytes) -> bytes:
        nonlocal seen
        altered = bytearray(content)
        if seen <= place < seen + len(content):
            altered[place - seen] ^= 4
        seen += len(content)
        return bytes(altered)

    def pass_on(inside: socket.socket, outside: socket.socket) -> None:
        requests = threading.Thread(target=copy, args=(inside, outside))
        requests.start()
        copy(outside, inside, alter)
        requests.join()

    with endpoint_of(RUN) as endpoint, between(endpoint.location, pass_on) as location:
        caller = Caller(location, RUN, PROTOCOL)
        with pytest.raises(RefusedError, match=r"not encrypted as this run's messages are|another certificate"):
            caller.fetch("state", timeout_s=10)
        caller.close()


def test_a_request_that_is_altered_on_its_way_is_counted() -> None:
    asked = threading.Event()

    def alter(content: bytes) -> bytes:
        return content[:-1] + bytes([content[-1] ^ 1]) if asked.is_set() else content

    def pass_on(inside: socket.socket, outside: socket.socket) -> None:
        answers = threading.Thread(target=copy, args=(outside, inside))
        answers.start()
        copy(inside, outside, alter)
        answers.join()

    with endpoint_of(RUN) as endpoint, between(endpoint.location, pass_on) as location:
        caller = Caller(location, RUN, PROTOCOL)
        caller.call(Question("a"), timeout_s=10)
        asked.set()
        with pytest.raises((RefusedError, CallError)):
            caller.call(Question("b"), timeout_s=10)
        caller.close()
    assert endpoint.refused == 1


@pytest.mark.parametrize("said", [b"", _ENCRYPTED_GREETING], ids=["nothing", "greeting"])
def test_a_connection_that_is_dropped_before_its_session_is_tried_again(said: bytes) -> None:
    """As an endpoint does with many strangers at a time."""
    with endpoint_of(RUN) as endpoint, socket.create_server(("127.0.0.1", 0)) as listener:
        dropped: list[int] = []

        def serve() -> None:
            for number in range(3):
                inside, _ = listener.accept()
                with inside, suppress(OSError):
                    if number == 2:
                        with socket.create_connection(host_and_port(endpoint.location)) as outside:
                            both_ways(inside, outside)
                    else:
                        inside.sendall(said)
                        dropped.append(number)

        thread = threading.Thread(target=serve)
        thread.start()
        caller = Caller(f"tcp://127.0.0.1:{listener.getsockname()[1]}", RUN, PROTOCOL)
        assert caller.call(Question("a"), timeout_s=20) == Answer("A")
        caller.close()
        thread.join(20)
        assert dropped == [0, 1]


@pytest.mark.parametrize("server", [True, False], ids=["endpoint", "caller"])
def test_a_connection_that_is_reset_before_it_is_encrypted_is_closed(server: bool) -> None:
    context = context_of_endpoint(RUN) if server else context_of_caller(RUN)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        number = plain.fileno()
        with pytest.raises(ConnectionResetError):
            context.wrap_socket(plain, server_side=server, do_handshake_on_connect=False)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_credentials_travel_and_do_not_show() -> None:
    assert pickle.loads(pickle.dumps(RUN)) == RUN
    for text in (repr(RUN), str([RUN]), f"{RUN}"):
        assert text.strip("[]") == "Credentials()"
    assert RUN.certificate != new_credentials(encrypted=True).certificate
    assert RUN.secret != new_credentials(encrypted=False).secret
    assert not new_credentials(encrypted=False).encrypted
