"""Driver side of both public packages: sessions, task slots, Params, persistence, tracking, displays."""

from udfs.driver._accessors import accessors, optional_accessors, setter
from udfs.driver._argument_types import argument_types, check_types, is_stopped
from udfs.driver._arrow import as_vector, map_rows, quoted
from udfs.driver._columns import (
    check_absent,
    check_image,
    check_numbers,
    check_present,
    check_text,
    holds_image_lists,
    is_numeric,
)
from udfs.driver._connections import driver_host, encrypts
from udfs.driver._error_causes import Cause, cause
from udfs.driver._files import (
    check_file_columns,
    check_rows,
    detect_separator,
    file_columns,
    file_infos,
    is_here,
    is_table,
    open_dataset,
    open_files,
    table_format,
)
from udfs.driver._id_hints import id_columns, id_hint, spellings
from udfs.driver._interruptible_jobs import interruptible
from udfs.driver._java import JavaNotFoundError
from udfs.driver._keywords import FORMER_NAMES, UnknownKeywordError, hint_names, hint_options, validate_arguments
from udfs.driver._launch import launch
from udfs.driver._live_display import live_display
from udfs.driver._network_model import NetworkModel
from udfs.driver._params import UNBOUND, above, at_least, device_name, one_of, sizes
from udfs.driver._path_probe import check_paths
from udfs.driver._persistence import (
    NetworkReader,
    NetworkWriter,
    StageReadable,
    StageReader,
    read_network_folder,
    write_network_folder,
)
from udfs.driver._plugin import plugin_conf, plugin_jar
from udfs.driver._progress import Progress
from udfs.driver._pyfunc import Pyfunc, pyfunc_signature
from udfs.driver._results import check_place, check_spark_writes, is_uri, results_at
from udfs.driver._slot_leases import SlotLease, lease_slots, leased_slots
from udfs.driver._slots import is_local, task_slots
from udfs.driver._sql import register_function
from udfs.driver._tables import read_table
from udfs.driver._text_numbers import TextNumbers, arrow_text_numbers, text_numbers
from udfs.driver._tracking import TrackingError, check_tracking, track_into
from udfs.driver._worker_jobs import WorkerJobs
from udfs.handlers import register_reducers

__all__ = [
    "FORMER_NAMES",
    "UNBOUND",
    "Cause",
    "JavaNotFoundError",
    "NetworkModel",
    "NetworkReader",
    "NetworkWriter",
    "Progress",
    "Pyfunc",
    "SlotLease",
    "StageReadable",
    "StageReader",
    "TextNumbers",
    "TrackingError",
    "UnknownKeywordError",
    "WorkerJobs",
    "above",
    "accessors",
    "argument_types",
    "arrow_text_numbers",
    "as_vector",
    "at_least",
    "cause",
    "check_absent",
    "check_file_columns",
    "check_image",
    "check_numbers",
    "check_paths",
    "check_place",
    "check_present",
    "check_rows",
    "check_spark_writes",
    "check_text",
    "check_tracking",
    "check_types",
    "detect_separator",
    "device_name",
    "driver_host",
    "encrypts",
    "file_columns",
    "file_infos",
    "hint_names",
    "hint_options",
    "holds_image_lists",
    "id_columns",
    "id_hint",
    "interruptible",
    "is_here",
    "is_local",
    "is_numeric",
    "is_stopped",
    "is_table",
    "is_uri",
    "launch",
    "lease_slots",
    "leased_slots",
    "live_display",
    "map_rows",
    "one_of",
    "open_dataset",
    "open_files",
    "optional_accessors",
    "plugin_conf",
    "plugin_jar",
    "pyfunc_signature",
    "quoted",
    "read_network_folder",
    "read_table",
    "register_function",
    "results_at",
    "setter",
    "sizes",
    "spellings",
    "table_format",
    "task_slots",
    "text_numbers",
    "track_into",
    "validate_arguments",
    "write_network_folder",
]

# Spark pickles functions of a user wherever a job starts, so every driver needs this before its first one.
register_reducers()
