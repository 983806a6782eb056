"""Settings of the web server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from optimizer.errors import InvalidArgumentError
from udfs.access_tokens import LOOPBACK_HOSTS

__all__ = ["WebSettings"]

_PORTS = 65_535
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.IGNORECASE)
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~@-]+)*")
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared with
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class WebSettings:
    """Settings of the web server.

    Parameters
    ----------
    host : str, optional
        Address to listen at. Default: this machine alone.
    port : int, optional
        Port to listen at. Default 8765.
    allowed_hosts : tuple of str, optional
        Further values of the Host header that the server answers, each with its port unless that is the default one
        of the protocol: ``"cerebro.example.org:8443"``. The address that it listens at is always among them.
    root_path : str, optional
        Path prefix under which a proxy serves the application, such as ``"/user/ada/proxy/8765"``. Default: none.
    certificate : str, optional
        Path of the TLS certificate (PEM). Default: no TLS.
    key : str, optional
        Path of the private key of the certificate (PEM).
    behind_proxy : bool, optional
        True if every client reaches the server through a proxy that encrypts. The headers ``X-Forwarded-For`` and
        ``X-Forwarded-Proto`` are then trusted. Default False.
    body_limit : int, optional
        Size of the largest request body, in bytes. Default 1 MiB.
    report_limit : int, optional
        The same for requests of runners, whose reports of a thousand configurations are larger. Default 64 MiB.
    upload_limit : int, optional
        The same for the paths in ``uploads``. Default 16 MiB.
    uploads : tuple of str, optional
        Paths that take files. Default: that of the REST API.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.

    Examples
    --------
    >>> sorted(WebSettings(port=8765).hosts)
    ['127.0.0.1:8765', '[::1]:8765', 'localhost:8765']
    >>> WebSettings(root_path="/cerebro").url
    'http://127.0.0.1:8765/cerebro/'
    """

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    root_path: str = ""
    certificate: str = ""
    key: str = ""
    behind_proxy: bool = False
    body_limit: int = 1 << 20
    report_limit: int = 64 << 20
    upload_limit: int = 16 << 20
    uploads: tuple[str, ...] = ("/api/v1/blobs",)

    def __post_init__(self) -> None:
        if type(self.port) is not int or not 1 <= self.port <= _PORTS:
            raise InvalidArgumentError(f"port must be an int from 1 to {_PORTS}, got {self.port!r}.")
        for name in ("body_limit", "report_limit", "upload_limit"):
            if type(limit := getattr(self, name)) is not int or limit < 1:
                raise InvalidArgumentError(f"{name} must be a positive int, got {limit!r}.")
        if not _ROOT_PATH.fullmatch(self.root_path):
            raise InvalidArgumentError(
                f"root_path must be empty or a path such as '/cerebro' without a final slash, got {self.root_path!r}."
            )
        if bool(self.certificate) != bool(self.key):
            raise InvalidArgumentError(
                f"certificate and key must be set together, got {self.certificate!r} and {self.key!r}."
            )
        for name in self.allowed_hosts:
            if not _HOST.fullmatch(name):
                raise InvalidArgumentError(
                    f"allowed_hosts must contain host names such as 'cerebro.example.org:8443', got {name!r}."
                )

    @property
    def is_loopback(self) -> bool:
        """True if no other machine reaches the address."""
        return self.host in LOOPBACK_HOSTS

    @property
    def scheme(self) -> str:
        """Scheme that browsers use."""
        return "https" if self.certificate or (self.behind_proxy and self.allowed_hosts) else "http"

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that the server answers, in lower case."""
        scheme = "https" if self.certificate else "http"
        names = (
            LOOPBACK_HOSTS if self.is_loopback or self.host in _ANY_ADDRESS else LOOPBACK_HOSTS | {self.host.lower()}
        )
        listening = {f"{_bracketed(name)}:{self.port}" for name in names}
        if self.port == _DEFAULT_PORTS[scheme]:
            listening |= {_bracketed(name) for name in names}
        return frozenset(listening | {name.lower() for name in self.allowed_hosts})

    @property
    def origins(self) -> frozenset[str]:
        """Values of the Origin header that may change state."""
        schemes = ("http", "https") if self.behind_proxy else ("https",) if self.certificate else ("http",)
        return frozenset(f"{scheme}://{host}" for scheme in schemes for host in self.hosts)

    @property
    def url(self) -> str:
        """Address that a browser opens."""
        host = "127.0.0.1" if self.host in _ANY_ADDRESS else self.host
        name = self.allowed_hosts[0] if self.allowed_hosts else f"{_bracketed(host)}:{self.port}"
        return f"{self.scheme}://{name}{self.root_path}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
