"""Interfaces of endpoints: one each, the one that other machines reach."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from udfs.rpc import AddressError, Caller, Credentials, Endpoint, Request, WireProtocol, _address, address_towards
from udfs.rpc._address import host_and_port, interface_of

if TYPE_CHECKING:
    from collections.abc import Callable

CREDENTIALS = Credentials(b"of this run alone")


@dataclass(frozen=True)
class Here:
    pass


@dataclass(frozen=True)
class Ask(Request[Here]):
    pass


PROTOCOL = WireProtocol("addresses", 1, (Ask,))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a name stand for addresses, in the order of the system."""
    real = socket.getaddrinfo

    def resolve(**known: list[str]) -> None:
        def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
            return [entry for each in known.get(host, [host]) for entry in real(each, *arguments, **options)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return resolve


def own_address() -> str:
    """An address of this machine that is not its loopback's, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has its loopback alone")
        return str(probe.getsockname()[0])


def is_answered(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True


def test_no_other_interface_answers() -> None:
    with Endpoint("127.0.0.2", CREDENTIALS, PROTOCOL, lambda _: Here()) as endpoint:
        host, port = host_and_port(endpoint.location)
        assert host == "127.0.0.2"
        caller = Caller(endpoint.location, CREDENTIALS, PROTOCOL)
        assert caller.call(Ask(), timeout_s=5) == Here()
        caller.close()
        for other in ("127.0.0.1", "127.0.0.3", "::1", own_address()):
            assert not is_answered(other, port), other


def test_a_name_stands_for_the_interface_that_other_machines_reach(names: Callable[..., None]) -> None:
    """Debian gives the machine's own name to its loopback first."""
    own = own_address()
    names(node=["127.0.1.1", "198.51.100.1", own])
    with Endpoint("node", CREDENTIALS, PROTOCOL, lambda _: Here()) as endpoint:
        host, port = host_and_port(endpoint.location)
        # The address and not the name: another machine may know the name by the addresses that it cannot reach.
        assert host == own
        assert is_answered(own, port)
        assert not is_answered("127.0.1.1", port)
        assert not is_answered("127.0.0.1", port)
        assert address_towards(endpoint.location) == own


def test_a_loopback_is_taken_where_there_is_nothing_else(names: Callable[..., None]) -> None:
    names(node=["::1", "127.0.0.5", "198.51.100.1"])
    assert interface_of("node") == "127.0.0.5"


@pytest.mark.parametrize("host", ["198.51.100.1", "elsewhere", "no.such.name.invalid"])
def test_what_is_no_interface_of_this_machine_is_named(host: str, names: Callable[..., None]) -> None:
    names(elsewhere=["198.51.100.1", "198.51.100.2"])
    with pytest.raises(AddressError, match=host):
        Endpoint(host, CREDENTIALS, PROTOCOL)


def test_all_interfaces_only_where_that_is_given(names: Callable[..., None]) -> None:
    """The workers are told an address, for 0.0.0.0 is none that another machine reaches."""
    own = own_address()
    names(**{socket.gethostname(): [own]})
    with Endpoint("0.0.0.0", CREDENTIALS, PROTOCOL) as endpoint:  # given
        host, port = host_and_port(endpoint.location)
        assert host == own
        assert is_answered("127.0.0.1", port)
        assert is_answered(own, port)


def test_a_worker_listens_on_the_interface_that_leads_to_its_driver() -> None:
    assert address_towards("tcp://127.0.0.2:80") == "127.0.0.1"
    assert address_towards("tcp://198.51.100.1:80") == own_address()
    assert _address.host_and_port("tcp://[::1]:80") == ("::1", 80)
