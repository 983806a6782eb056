"""Users, programs and sessions, in the server's database."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast, get_args

from sqlalchemy import Column, Float, MetaData, String, Table, delete, insert, select, update

from optimizer.errors import InvalidArgumentError
from udfs.web._passwords import hash_password, is_password
from udfs.web._principals import Principal, Role

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["ACCOUNTS_METADATA", "SESSION_S", "Accounts", "User"]

SESSION_S = 7 * 24 * 3600
"""Seconds for which a session is valid."""

ACCOUNTS_METADATA = MetaData()
"""Tables of users and sessions, for migrations."""

_USERS = Table(
    "users",
    ACCOUNTS_METADATA,
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("password", String, nullable=False, default=""),
    Column("token", String, unique=True),
    Column("created", Float, nullable=False),
)
_SESSIONS = Table(
    "sessions",
    ACCOUNTS_METADATA,
    Column("digest", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
)
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
_SHORTEST_PASSWORD = 8
_LONGEST_PASSWORD = 1000
_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class User:
    """User or program of the server.

    Parameters
    ----------
    name : str
        Name.
    role : str
        Role, such as ``"editor"``.
    has_password : bool
        True for a user that signs in with a password, False for a program with a token.
    created : datetime.datetime
        Time of the creation, in UTC.
    """

    name: str
    role: str
    has_password: bool
    created: datetime


class Accounts:
    """Users, programs and sessions, in the server's database.

    The database contains hashes of passwords, of access tokens and of sessions, so that a copy of it is no key.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Engine of the database; missing tables are created.

    Examples
    --------
    >>> from sqlalchemy import create_engine
    >>> accounts = Accounts(create_engine("sqlite://"))
    >>> accounts.set_user("ada", "editor", "correct horse")
    >>> accounts.sign_in("ada", "correct horse")
    Principal(name='ada', role='editor')
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._one_time: dict[str, Principal] = {}
        self._trusted: dict[str, Principal] = {}
        self._lock = threading.Lock()
        ACCOUNTS_METADATA.create_all(engine)

    def set_user(self, name: str, role: Role, password: str) -> None:
        """Create a user, or replace the role and the password of one. Its sessions end.

        An account may have a password and an access token; both have its role.

        Raises
        ------
        InvalidArgumentError
            The name, the role or the password is not valid.
        """
        if role not in {"viewer", "editor"}:
            raise InvalidArgumentError(f"role must be 'viewer' or 'editor', got {role!r}.")
        if not _SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
            raise InvalidArgumentError(
                f"password must have {_SHORTEST_PASSWORD} to {_LONGEST_PASSWORD} characters, got {len(password)}."
            )
        self._store(name, role, {"password": hash_password(password)})

    def set_program(self, name: str, role: Role, token: str = "") -> str:
        """Create a program, or replace the role and the access token of an account. Its sessions end.

        Parameters
        ----------
        name : str
            Name of the program.
        role : {"runner", "editor", "viewer", "owner"}
            Role of the program.
        token : str, optional
            Access token. Default: a random one.

        Returns
        -------
        str
            The access token, which the database does not contain.

        Raises
        ------
        InvalidArgumentError
            The name, the role or the token is not valid.

        Examples
        --------
        >>> from sqlalchemy import create_engine
        >>> accounts = Accounts(create_engine("sqlite://"))
        >>> accounts.principal_of_token(accounts.set_program("cluster", "runner"))
        Principal(name='cluster', role='runner')
        """
        if role not in get_args(Role):
            raise InvalidArgumentError(f"role must be one of {', '.join(get_args(Role))}, got {role!r}.")
        token = _checked(token) if token else secrets.token_urlsafe(32)
        self._store(name, role, {"token": _digest(token)})
        return token

    def trust(self, token: str, principal: Principal) -> None:
        """Accept an access token while this process runs, without storing it.

        Raises
        ------
        InvalidArgumentError
            The token is short enough to be guessed.

        Examples
        --------
        >>> from sqlalchemy import create_engine
        >>> accounts = Accounts(create_engine("sqlite://"))
        >>> accounts.trust("a token of the token file", Principal("ada", "owner"))
        >>> accounts.principal_of_token("a token of the token file")
        Principal(name='ada', role='owner')
        """
        self._trusted[_digest(_checked(token))] = principal

    def remove(self, name: str) -> None:
        """Delete a user or program, and end its sessions."""
        with self._engine.begin() as connection:
            connection.execute(delete(_USERS).where(_USERS.c.name == name))
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.name == name))

    def users(self) -> list[User]:
        """List the users and programs by name."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(_USERS).order_by(_USERS.c.name)).all()
        return [
            User(row.name, row.role, bool(row.password), datetime.fromtimestamp(int(row.created), UTC)) for row in rows
        ]

    def has_password(self) -> bool:
        """Return True if a user has a password."""
        with self._engine.connect() as connection:
            return connection.execute(select(_USERS.c.name).where(_USERS.c.password != "")).first() is not None

    def sign_in(self, name: str, password: str) -> Principal | None:
        """Return the user with a name and a password, or ``None``."""
        with self._engine.connect() as connection:
            row = connection.execute(select(_USERS.c.role, _USERS.c.password).where(_USERS.c.name == name)).first()
        if not is_password(password[:_LONGEST_PASSWORD], row.password if row else ""):
            return None
        return Principal(name, cast("Role", row.role)) if row else None

    def principal_of_token(self, token: str) -> Principal | None:
        """Return the program with an access token, or ``None``."""
        digest = _digest(token)
        if digest in self._trusted:
            return self._trusted[digest]
        with self._engine.connect() as connection:
            row = connection.execute(select(_USERS.c.name, _USERS.c.role).where(_USERS.c.token == digest)).first()
        return Principal(row.name, cast("Role", row.role)) if row else None

    def create_one_time_token(self, principal: Principal) -> str:
        """Return a token that signs a principal in once, while this process runs.

        Examples
        --------
        >>> from sqlalchemy import create_engine
        >>> accounts = Accounts(create_engine("sqlite://"))
        >>> token = accounts.create_one_time_token(Principal("ada", "editor"))
        >>> accounts.principal_of_session(accounts.redeem(token))
        Principal(name='ada', role='editor')
        >>> accounts.redeem(token) is None
        True
        """
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._one_time[_digest(token)] = principal
        return token

    def redeem(self, token: str) -> str | None:
        """Open a session for a one-time token and invalidate the token; return ``None`` for an unknown one.

        The token stays valid if the session cannot be stored.
        """
        digest = _digest(token)
        with self._lock:
            if digest not in self._one_time:
                return None
            session = self.open_session(self._one_time[digest])
            del self._one_time[digest]
            return session

    def open_session(self, principal: Principal) -> str:
        """Store a session, delete expired ones, and return the value of its cookie."""
        session, now = secrets.token_urlsafe(32), time.time()
        with self._engine.begin() as connection:
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.expires <= now))
            connection.execute(
                insert(_SESSIONS).values(
                    digest=_digest(session),
                    name=principal.name,
                    role=principal.role,
                    created=now,
                    expires=now + SESSION_S,
                )
            )
        return session

    def principal_of_session(self, session: str) -> Principal | None:
        """Return the principal of a session, or ``None`` if it has ended."""
        with self._engine.connect() as connection:
            row = connection.execute(
                select(_SESSIONS.c.name, _SESSIONS.c.role).where(
                    _SESSIONS.c.digest == _digest(session), _SESSIONS.c.expires > time.time()
                )
            ).first()
        return Principal(row.name, cast("Role", row.role)) if row else None

    def end_session(self, session: str) -> None:
        """End a session."""
        with self._engine.begin() as connection:
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.digest == _digest(session)))

    def _store(self, name: str, role: str, credential: dict[str, str]) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(f"name must have 1 to 100 printable characters, got {name!r}.")
        values = {"role": role, **credential}
        with self._engine.begin() as connection:
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.name == name))
            changed = connection.execute(update(_USERS).where(_USERS.c.name == name).values(values))
            if not changed.rowcount:
                connection.execute(insert(_USERS).values(name=name, created=time.time(), **values))


def _checked(token: str) -> str:
    if len(token) < _SHORTEST_TOKEN:
        raise InvalidArgumentError(f"token must have at least {_SHORTEST_TOKEN} characters, got {len(token)}.")
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
