"""Execution of serving: backends that run batches, the router that sends them requests, and their messages."""

from ._admission import Admission
from ._backend import Backend, BackendSpec
from ._deadline_timer import DeadlineTimer
from ._deliveries import Deliveries
from ._errors import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from ._heads import Head, read_head
from ._input_readers import FeedReader, InputReader, TensorReader
from ._link import Link
from ._live_router import LiveRouter, Offered
from ._messages import ATTACHING, SERVING, Attach, Attached, Placed, Results
from ._open_models import OpenGroup, OpenModels, Row
from ._pending_requests import GRACE_S, Joined
from ._recipes import FunctionRecipe, GroupRecipe, NetworkRecipe, Trunk
from ._router import Router, ServedModel, TensorSpec
from ._scoring import Background, FunctionScoring, HeadScoring, column_type
from ._worker import BackendWorker

__all__ = [
    "ATTACHING",
    "GRACE_S",
    "SERVING",
    "Admission",
    "Attach",
    "Attached",
    "Backend",
    "BackendSpec",
    "BackendWorker",
    "Background",
    "BadRequestError",
    "DeadlineTimer",
    "Deliveries",
    "FeedReader",
    "FunctionRecipe",
    "FunctionScoring",
    "GroupRecipe",
    "Head",
    "HeadScoring",
    "InputReader",
    "Joined",
    "Link",
    "LiveRouter",
    "ModelFailedError",
    "NetworkRecipe",
    "NoSuchModelError",
    "Offered",
    "OpenGroup",
    "OpenModels",
    "OverloadedError",
    "Placed",
    "RequestError",
    "Results",
    "Router",
    "Row",
    "ServedModel",
    "ServerStoppedError",
    "TensorReader",
    "TensorSpec",
    "TooLateError",
    "Trunk",
    "column_type",
    "read_head",
]
