"""Requests of users that a pool of workers answers: handlers, and what a handler may use. Standard library only."""

from udfs.requests._errors import RequestCancelled
from udfs.requests._handler import HANDLERS, RequestContext, RequestHandler, installed_handlers
from udfs.requests._plain import plain_json

__all__ = ["HANDLERS", "RequestCancelled", "RequestContext", "RequestHandler", "installed_handlers", "plain_json"]
