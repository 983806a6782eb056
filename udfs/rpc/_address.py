"""Network addresses of endpoints and of this machine."""

from __future__ import annotations

import ipaddress
import socket

from udfs.rpc._errors import AddressError

__all__ = ["address_towards", "host_and_port", "interface_of", "is_every_interface", "location_of"]


def location_of(host: str, port: int) -> str:
    """Format the location of an endpoint as ``tcp://host:port``.

    Examples
    --------
    >>> location_of("10.0.0.1", 80), location_of("::1", 80)
    ('tcp://10.0.0.1:80', 'tcp://[::1]:80')
    """
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def host_and_port(location: str) -> tuple[str, int]:
    """Parse the location of an endpoint into its host and port.

    Examples
    --------
    >>> host_and_port("tcp://[::1]:80")
    ('::1', 80)
    """
    host, _, port = location.rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def interface_of(host: str) -> str:
    """Resolve a host name or address to the address of a network interface of this machine.

    If a name has several addresses, addresses that other machines can reach take precedence over loopback addresses,
    which many systems also assign to the machine's own name. IPv4 takes precedence over IPv6, as in Spark.

    Raises
    ------
    AddressError
        The name is unknown, or none of its addresses belongs to this machine.

    Examples
    --------
    >>> interface_of("127.0.0.1")
    '127.0.0.1'
    """
    try:
        entries = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"{host!r} is no name or address that this machine knows: {error}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in sorted(addresses, key=_remoteness):
        if _is_own(address):
            return address
    raise AddressError(
        f"{host!r} stands for {', '.join(addresses)}, and no interface of this machine has this address: give the name "
        "or address of one that it has"
    )


def _remoteness(address: str) -> tuple[bool, int]:
    parsed = ipaddress.ip_address(address)
    return parsed.is_loopback or parsed.is_link_local, parsed.version


def is_every_interface(address: str) -> bool:
    """Return whether an address stands for all interfaces of a machine.

    Examples
    --------
    >>> is_every_interface("0.0.0.0"), is_every_interface("10.0.0.1")
    (True, False)
    """
    return ipaddress.ip_address(address).is_unspecified


def _is_own(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, 0), family=family).close()
    except OSError:
        return False
    return True


def address_towards(location: str) -> str:
    """Return the address of this machine on the interface that routes to a location.

    Examples
    --------
    >>> address_towards("tcp://127.0.0.1:80")
    '127.0.0.1'
    """
    host, port = host_and_port(location)
    family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:  # connecting a datagram socket sends no packet
        probe.connect(target)
        return str(probe.getsockname()[0])
