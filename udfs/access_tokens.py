"""Access token that the runner, the client and the server of one user share."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from optimizer.errors import CerebroError

__all__ = ["LOOPBACK_HOSTS", "TokenFileError", "create_program_token", "program_token", "token_path"]

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine that no other machine reaches."""


class TokenFileError(CerebroError, RuntimeError):
    """Token file that cannot be read, or that other users of the machine can read."""


def token_path() -> Path:
    """Return the path of the token file: ``cerebro/token`` in ``XDG_CONFIG_HOME``, by default ``~/.config``.

    Examples
    --------
    >>> token_path().parts[-2:]
    ('cerebro', 'token')
    """
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of XDG ignores relative paths.
    home = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return home / "cerebro" / "token"


def program_token(server: str = "") -> str | None:
    """Return the token that a program sends to a server as ``Authorization: Bearer``.

    ``CEREBRO_TOKEN`` has priority. The token file is read only for a server on this machine, so that a mistyped address
    does not receive the token.

    Parameters
    ----------
    server : str, optional
        URL of the server. Default: a server on this machine.

    Returns
    -------
    str or None
        Token, or ``None`` without ``CEREBRO_TOKEN`` and without a token file.

    Raises
    ------
    TokenFileError
        Other users of the machine can read the token file.

    Examples
    --------
    >>> import os
    >>> os.environ["CEREBRO_TOKEN"] = "secret"
    >>> program_token("https://cerebro.example.org")
    'secret'
    >>> del os.environ["CEREBRO_TOKEN"]
    >>> program_token("https://cerebro.example.org") is None
    True
    """
    configured = os.environ.get("CEREBRO_TOKEN", "").strip()
    if configured:
        return configured
    if server and (urlsplit(server).hostname or "") not in LOOPBACK_HOSTS:
        return None
    return _read(token_path())


def create_program_token() -> str:
    """Return the token for programs, and create the token file if it is missing.

    Raises
    ------
    TokenFileError
        Other users of the machine can read the token file, or it cannot be written.

    Examples
    --------
    >>> import os
    >>> os.environ["CEREBRO_TOKEN"] = "secret"
    >>> create_program_token()
    'secret'
    >>> del os.environ["CEREBRO_TOKEN"]
    """
    token = program_token()
    if token:
        return token
    path = token_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A link makes a complete file appear at once: of two servers that start together, the second finds the first's.
        draft = path.with_name(f"token.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    except OSError as error:
        raise TokenFileError(
            f"{path} must be writable, got {error.strerror}. Set CEREBRO_TOKEN to a token instead."
        ) from error
    token = _read(path)
    if not token:
        raise TokenFileError(f"{path} must contain a token, got an empty file. Delete it.")
    return token


def _read(path: Path) -> str | None:
    """Read a token file that only its owner can read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            status = os.fstat(file.fileno())
            mode = status.st_mode & 0o777
            if os.name == "posix" and (mode & 0o077 or status.st_uid != os.getuid()):
                raise TokenFileError(
                    f"{path} must belong to you and have mode 600, got user {status.st_uid} and mode {mode:o}. "
                    f"Run chmod 600 {path}, or set CEREBRO_TOKEN."
                )
            return file.read().strip() or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TokenFileError(f"{path} must be readable, got {error.strerror}. Set CEREBRO_TOKEN instead.") from error
