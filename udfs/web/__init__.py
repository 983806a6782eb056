"""Web shell: sign-in, security, events and pages, without Spark and without frameworks."""

from udfs.access_tokens import TokenFileError, create_program_token, program_token, token_path
from udfs.web._accounts import ACCOUNTS_METADATA, Accounts
from udfs.web._app import create_app
from udfs.web._errors import ApiError, ExposedServerError, PortInUseError
from udfs.web._events import Changes, EventSource, EventStream, StreamEvent, Subscription
from udfs.web._pages import PAGES, Page, installed_pages
from udfs.web._principals import Principal, Role, editor, principal_of, runner, viewer
from udfs.web._rendering import render
from udfs.web._server import WebServer, check_exposure, serve
from udfs.web._settings import WebSettings

__all__ = [
    "ACCOUNTS_METADATA",
    "PAGES",
    "Accounts",
    "ApiError",
    "Changes",
    "EventSource",
    "EventStream",
    "ExposedServerError",
    "Page",
    "PortInUseError",
    "Principal",
    "Role",
    "StreamEvent",
    "Subscription",
    "TokenFileError",
    "WebServer",
    "WebSettings",
    "check_exposure",
    "create_app",
    "create_program_token",
    "editor",
    "installed_pages",
    "principal_of",
    "program_token",
    "render",
    "runner",
    "serve",
    "token_path",
    "viewer",
]
