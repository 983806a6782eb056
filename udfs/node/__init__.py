"""A worker's node: its memory and accelerator, its allocator, shared folder and supervised threads."""

from udfs.node._allocator import freed_memory_kept, keep_freed_memory, return_freed_memory
from udfs.node._background import background
from udfs.node._cache import CACHE_VARIABLE, NodeCacheError, node_folder, written_once
from udfs.node._collector import FrozenHeap
from udfs.node._device import DEVICES, check_device
from udfs.node._errors import DeviceError
from udfs.node._hardware import hardware
from udfs.node._machine import MachineReport, memory_limit, task_device
from udfs.node._new_process import NewProcessError, ask_new_process
from udfs.node._process_memory import process_memory
from udfs.node._supervised_thread import SupervisedThread
from udfs.node._threads import limit_threads
from udfs.node._worker_status import WorkerPhase, WorkerStatus, status_folder, worker_status

__all__ = [
    "CACHE_VARIABLE",
    "DEVICES",
    "DeviceError",
    "FrozenHeap",
    "MachineReport",
    "NewProcessError",
    "NodeCacheError",
    "SupervisedThread",
    "WorkerPhase",
    "WorkerStatus",
    "ask_new_process",
    "background",
    "check_device",
    "freed_memory_kept",
    "hardware",
    "keep_freed_memory",
    "limit_threads",
    "memory_limit",
    "node_folder",
    "process_memory",
    "return_freed_memory",
    "status_folder",
    "task_device",
    "worker_status",
    "written_once",
]
