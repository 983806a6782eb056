"""Execution of serving: backends that run batches, the router that sends them requests, and their messages."""

from udfs.serving._admission import Admission, Offered
from udfs.serving._attribute_scoring import AttributeScoring
from udfs.serving._backend import Backend, BackendSpec
from udfs.serving._deadline_timer import DeadlineTimer
from udfs.serving._deliveries import Deliveries
from udfs.serving._errors import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from udfs.serving._heads import Head, read_head
from udfs.serving._input_readers import FeedReader, TensorReader
from udfs.serving._link import Link
from udfs.serving._live_router import LiveRouter
from udfs.serving._messages import ATTACHING, Attach, Attached, Placed, PlacedVariant, Results
from udfs.serving._open_models import OpenGroup, OpenModels, Row
from udfs.serving._outputs import OutputError, output_specs
from udfs.serving._pending_requests import GRACE_S, Joined
from udfs.serving._recipes import FunctionRecipe, GroupRecipe, NetworkRecipe, Trunk
from udfs.serving._router import Router, ServedModel, TensorSpec
from udfs.serving._scoring import Background, FunctionScoring, HeadScoring
from udfs.serving._worker import BackendWorker

__all__ = [
    "ATTACHING",
    "GRACE_S",
    "Admission",
    "Attach",
    "Attached",
    "AttributeScoring",
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
    "Joined",
    "Link",
    "LiveRouter",
    "ModelFailedError",
    "NetworkRecipe",
    "NoSuchModelError",
    "Offered",
    "OpenGroup",
    "OpenModels",
    "OutputError",
    "OverloadedError",
    "Placed",
    "PlacedVariant",
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
    "output_specs",
    "read_head",
]
