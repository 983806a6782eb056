"""A worker's machine as its process sees it: memory, accelerator, and the executor that it belongs to."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from udfs.node._errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MachineReport", "memory_limit", "task_device"]

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> tuple[int, bool]:
    """Measure the memory that the processes of this machine may take.

    Returns
    -------
    int
        Bytes: the machine's, or what a container allows of it.
    bool
        Whether it is a container's limit, which holds for its processes alone.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [int(text) for path in _limits() if (text := _read(path)).isdigit()]
    limit = min(limits, default=total)
    return (limit, True) if limit < total else (total, False)


def _limits() -> Iterator[Path]:
    """Yield the files that may contain a limit: of the whole container, and of the control group of this process."""
    yield from map(Path, _CGROUP_LIMITS)
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            yield Path(f"/sys/fs/cgroup{group}/memory.max")
        elif "memory" in controllers.split(","):
            yield Path(f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def task_device(device: str) -> str:
    """Return torch's name of the device for this task.

    Parameters
    ----------
    device : str
        Device that the user requested. ``"auto"`` and ``"cuda"`` become the GPU that Spark gave the task as a resource
        (``spark.task.resource.gpu.amount``); other values, and tasks without a GPU, are unchanged.

    Examples
    --------
    >>> task_device("cpu")
    'cpu'
    """
    context = TaskContext.get()
    granted = context.resources().get("gpu") if context is not None and device in {"auto", "cuda"} else None
    if granted is None or not granted.addresses:
        return device
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    address = granted.addresses[0]
    # Where the executor sees some of the node's GPUs only, they count from 0.
    return f"cuda:{visible.index(address) if address in visible else address}"


@dataclass(frozen=True, slots=True)
class MachineReport:
    """A task's report of where it ran. Call it with ``mapInArrow``."""

    seconds: float  # seconds for which the task waits, so that the other tasks run at the same time and not after it

    schema = "host string, executor long, memory long, contained boolean, gpu long"
    """Columns: host, process id of the executor's Python daemon, bytes, whether a container's, bytes of its GPU."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per task."""
        for _ in batches:
            pass
        time.sleep(self.seconds)
        memory, contained = memory_limit()
        yield pa.RecordBatch.from_pydict(
            {
                "host": [socket.gethostname()],
                "executor": pa.array([os.getppid()], pa.int64()),
                "memory": pa.array([memory], pa.int64()),
                "contained": [contained],
                "gpu": pa.array([_gpu_memory()], pa.int64()),
            }
        )


def _gpu_memory() -> int:
    context = TaskContext.get()
    if context is None or not context.resources().get("gpu"):
        return 0
    import torch  # seconds that only a task with a GPU pays

    device = torch.device(task_device("cuda"))
    if (device.index or 0) >= torch.cuda.device_count():
        seen = f"{torch.cuda.device_count()} GPUs" if torch.version.cuda else "none, for it is built without CUDA"
        raise DeviceError(
            f"Spark gave a task on {socket.gethostname()} the GPU {device.index}, but torch {torch.__version__} there "
            f"sees {seen}: install a build of torch for its driver, or unset spark.executor.resource.gpu.amount"
        )
    return int(torch.cuda.get_device_properties(device).total_memory)
