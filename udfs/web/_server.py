"""Server process of the web application."""

from __future__ import annotations

import contextlib
import errno
import getpass
import socket
import ssl
from typing import TYPE_CHECKING

import uvicorn

from optimizer.errors import InvalidArgumentError
from udfs.access_tokens import create_program_token
from udfs.web._errors import ExposedServerError, PortInUseError
from udfs.web._principals import Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from udfs.web._accounts import Accounts
    from udfs.web._settings import WebSettings

__all__ = ["WebServer", "check_exposure", "serve"]

_DRAIN_S = 5


def check_exposure(settings: WebSettings, accounts: Accounts) -> None:
    """Refuse an address that other machines reach, unless passwords and TLS protect it or a proxy is declared.

    Raises
    ------
    ExposedServerError
        The address needs protection.

    Examples
    --------
    >>> from sqlalchemy import create_engine
    >>> from udfs.web import Accounts, WebSettings
    >>> check_exposure(WebSettings(), Accounts(create_engine("sqlite://")))
    """
    if settings.is_loopback or settings.behind_proxy:
        return
    if not (settings.certificate and accounts.has_password()):
        raise ExposedServerError(
            f"host must be 127.0.0.1 for a server without users and TLS, got {settings.host!r}. Create a user with a "
            "password and set certificate and key, or set behind_proxy=True behind a proxy that encrypts."
        )


class WebServer(uvicorn.Server):
    """Server that ends streams of events before it waits for open requests.

    Parameters
    ----------
    app : fastapi.FastAPI
        Application of :func:`create_app`.
    settings : WebSettings
        Settings.

    Examples
    --------
    >>> from sqlalchemy import create_engine
    >>> from udfs.web import Accounts, WebSettings, create_app
    >>> settings = WebSettings()
    >>> server = WebServer(create_app(settings, Accounts(create_engine("sqlite://"))), settings)
    >>> server.should_exit  # True stops a server that runs
    False
    """

    def __init__(self, app: FastAPI, settings: WebSettings) -> None:
        self._changes = app.state.changes
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                ws="none",
                lifespan="on",
                # The log of requests would contain the one-time token.
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=settings.behind_proxy,
                forwarded_allow_ips="*" if settings.behind_proxy else None,
                ssl_certfile=settings.certificate or None,
                ssl_keyfile=settings.key or None,
                timeout_graceful_shutdown=_DRAIN_S,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, wait for other requests, and stop."""
        self._changes.close()
        await super().shutdown(sockets)


def serve(app: FastAPI, settings: WebSettings, announce: Callable[[str], object] = print) -> None:
    """Run the web application until the process is interrupted.

    Prints an address that signs the user of this process in, once. Creates the token file for programs if needed.

    Parameters
    ----------
    app : fastapi.FastAPI
        Application of :func:`create_app`.
    settings : WebSettings
        Settings.
    announce : callable, optional
        Called with the address once the port is taken. Default: ``print``.

    Raises
    ------
    ExposedServerError
        Other machines would reach the server without passwords and TLS.
    InvalidArgumentError
        The address is not one of this machine, or the certificate cannot be read.
    PortInUseError
        Another process listens at the port.
    TokenFileError
        The token file cannot be written, or other users of the machine can read it.

    Examples
    --------
    >>> from sqlalchemy import create_engine
    >>> from udfs.web import Accounts, WebSettings, create_app
    >>> settings = WebSettings(host="0.0.0.0")
    >>> serve(create_app(settings, Accounts(create_engine("sqlite://"))), settings)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    udfs.web._errors.ExposedServerError: host must be 127.0.0.1 for a server without users and TLS, got '0.0.0.0'. ...
    """
    accounts: Accounts = app.state.accounts
    check_exposure(settings, accounts)
    _check_certificate(settings)
    user = getpass.getuser()
    accounts.trust(create_program_token(), Principal(user, "owner"))
    with _listening(settings) as listener:
        token = accounts.create_one_time_token(Principal(user, "editor"))
        announce(f"{settings.url}?token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            WebServer(app, settings).run(sockets=[listener])


def _check_certificate(settings: WebSettings) -> None:
    if not settings.certificate:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # also of ssl
        raise InvalidArgumentError(
            f"certificate and key must be a pair of PEM files, got {settings.certificate!r} and {settings.key!r}: "
            f"{error.strerror or error}."
        ) from error


def _listening(settings: WebSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"port must be free, got {settings.port}, which another process uses. Set another port."
            ) from error
        raise InvalidArgumentError(
            f"host and port must be an address of this machine, got {settings.host!r} and {settings.port}: "
            f"{error.strerror or error}."
        ) from error
