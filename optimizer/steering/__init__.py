"""Commands that steer a running search: their validation, effects and conflicts. Needs the standard library only."""

from optimizer.steering._best_so_far import best_so_far
from optimizer.steering._commands import (
    COMMANDS,
    Add,
    Clone,
    Command,
    End,
    Extend,
    Pause,
    Prioritise,
    Resume,
    Stop,
    command_document,
    command_name,
    command_trial,
    read_command,
)
from optimizer.steering._effect import Effect, effect, effects_of
from optimizer.steering._events import STREAMS, check_event, document_digest
from optimizer.steering._filter import Filter, read_filter
from optimizer.steering._importance import importances
from optimizer.steering._narrowing import Narrowed, narrowed_space
from optimizer.steering._origins import Origin, origins
from optimizer.steering._plain_json import is_plain_json
from optimizer.steering._progress import Change, Configuration, Progress
from optimizer.steering._validation import conflict, refusal

__all__ = [
    "COMMANDS",
    "STREAMS",
    "Add",
    "Change",
    "Clone",
    "Command",
    "Configuration",
    "Effect",
    "End",
    "Extend",
    "Filter",
    "Narrowed",
    "Origin",
    "Pause",
    "Prioritise",
    "Progress",
    "Resume",
    "Stop",
    "best_so_far",
    "check_event",
    "command_document",
    "command_name",
    "command_trial",
    "conflict",
    "document_digest",
    "effect",
    "effects_of",
    "importances",
    "is_plain_json",
    "narrowed_space",
    "origins",
    "read_command",
    "read_filter",
    "refusal",
]
