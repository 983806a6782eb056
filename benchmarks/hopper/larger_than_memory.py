"""Training of a model that is larger than memory, against training in memory.

``python -m benchmarks.hopper.larger_than_memory`` trains the blocks of a transformer by AdamW with dropout, in two
processes: in memory without a limit, and with ``DiskOffload`` under a limit. The first one measures what training
takes: the peak of its anonymous memory above that of the interpreter with its imports. The limit of the second is the
interpreter's memory and a quarter of that, enforced by a control group where this user may make one, which counts the
page cache of the files as well. Without one, the peak of anonymous memory is compared with the limit afterwards. Both
processes train from one seed in one order, and the bytes of their checkpoints are compared. It ends within five
minutes on a machine without other work.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from benchmarks.harness.memory_limit import enforcement, run_limited
from benchmarks.harness.report import Report, load_average
from udfs.handlers import ModelTrainer, open_session
from udfs.offloading import DiskOffload
from udfs.rpc import digest_of
from udfs.shards import Tensors
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

_INPUTS, _CLASSES, _HEADS, _TIMES = 32, 10, 12, 4
_TIMEOUT_S = 1800.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=8, help="blocks of the transformer")
    parser.add_argument("--width", type=int, default=768, help="width of a block, a multiple of 12")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=8, help="rows of a step")
    parser.add_argument("--steps", type=int, default=3, help="steps of each process after the first")
    parser.add_argument("--repeats", type=int, default=2, help="processes of each kind, in turn")
    parser.add_argument("--folder", default=None, help="folder of the files, on a local disk")
    parser.add_argument("--train", choices=["memory", "disk"], help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    if options.train:
        print(json.dumps(_train(options)))
        return
    load = load_average()
    outcomes: dict[str, list[dict[str, Any]]] = {"memory": [], "disk": []}
    for _ in range(options.repeats):
        in_memory = _run("memory", options, None)
        limit = in_memory["interpreter"] + in_memory["need"] // _TIMES
        outcomes["memory"].append(in_memory)
        outcomes["disk"].append(_run("disk", options, limit) | {"limit": limit})
    _report(outcomes, load, as_json=options.json)


def _run(kind: str, options: argparse.Namespace, limit_bytes: int | None) -> dict[str, Any]:
    names = ("blocks", "width", "tokens", "batch", "steps")
    sizes = [f"--{name}={getattr(options, name)}" for name in names]
    folder = [] if options.folder is None else [f"--folder={options.folder}"]
    command = [sys.executable, "-m", "benchmarks.hopper.larger_than_memory", f"--train={kind}", *sizes, *folder]
    if limit_bytes is None or enforcement() == "watchdog":
        output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout
    else:
        outcome = run_limited(command, limit_bytes, timeout=_TIMEOUT_S, environment={})
        if outcome.returncode:
            raise SystemExit(f"training under {limit_bytes:,} bytes ended with {outcome.returncode}: {outcome.output}")
        output = outcome.output
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def _report(outcomes: dict[str, list[dict[str, Any]]], load: str, *, as_json: bool) -> None:
    memory, disk = outcomes["memory"], outcomes["disk"]
    report = Report(f"A model larger than memory; the limit is enforced by: {enforcement()}")
    rows = [
        (
            kind,
            f"{each['need'] / 1e6:,.0f}",
            f"{(each['limit'] - each['interpreter']) / 1e6:,.0f}" if "limit" in each else "none",
            f"{median(each['steps']):.2f}",
            f"{median(each['cpu']):.2f}",
            f"{each['checkpoint']:.2f}",
            each["digest"][:8],
        )
        for kind, all_outcomes in outcomes.items()
        for each in all_outcomes
    ]
    columns = ("training", "peak MB", "limit MB", "s a step", "CPU s a step", "s a checkpoint", "digest")
    report.table("Anonymous memory above the interpreter's, and seconds", columns, rows)
    for name, key in (("time", "steps"), ("cpu_time", "cpu")):
        quick, slow = (min(median(each[key]) for each in side) for side in (memory, disk))
        report.ratio(name, slow / quick, "a step with DiskOffload / in memory, the faster process of each", 3.0)
    report.ratio(
        "memory",
        min(m["need"] / (d["limit"] - d["interpreter"]) for m, d in zip(memory, disk, strict=True)),
        "memory that training in memory takes / limit",
        _TIMES,
    )
    report.ratio(
        "peak",
        max(each["need"] / (each["limit"] - each["interpreter"]) for each in disk),
        "anonymous memory with DiskOffload / limit",
    )
    equal = len({each["digest"] for each in (*memory, *disk)}) == 1
    report.ratio("equal", float(equal), "1 if all checkpoints have equal bytes", 1.0)
    report.note(f"Load average before {load}, after {load_average()}.")
    report.show(as_json=as_json)


def _train(options: argparse.Namespace) -> dict[str, Any]:
    """Train in this process; return times in seconds, memory in bytes, and the digest of the checkpoint."""
    watch = _Watch()
    watch.start()
    session = open_session(lambda _: _trainer(options), {}, 1)
    rng = np.random.default_rng(0)
    rows = options.batch * (1 + options.steps)
    inputs = rng.normal(size=(rows, options.tokens, _INPUTS)).astype(np.float32)
    data = Tensors((inputs,), (rng.integers(0, _CLASSES, rows),), rows)
    steps, cpu = [], []
    for start in range(0, rows, options.batch):
        wall, process = time.perf_counter(), time.process_time()
        session.train(data, np.arange(start, start + options.batch), ends_epoch=False)
        steps.append(time.perf_counter() - wall)
        cpu.append(time.process_time() - process)
    need = watch.peak - watch.first
    begun = time.perf_counter()
    state = session.checkpoint()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        Store.from_uri(folder).write(state, "checkpoint")
        seconds = time.perf_counter() - begun
    return {
        "interpreter": watch.first,
        "need": need,
        "steps": steps[1:],
        "cpu": cpu[1:],
        "checkpoint": seconds,
        "digest": digest_of(state),
    }


def _trainer(options: argparse.Namespace) -> ModelTrainer:
    if options.train == "memory":
        offload, net = None, _Network(options)
    else:
        offload = DiskOffload(options.folder)
        with offload.allocate():
            net = _Network(options)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.AdamW(net.parameters(), lr=1e-4),
        loss=nn.CrossEntropyLoss(),
        batch_size=options.batch,
        offload=offload,
    )


class _Network(nn.Module):
    """Transformer encoder over rows of tokens, with a mean over them before the last layer."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        width = options.width
        self.first = nn.Linear(_INPUTS, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, _HEADS, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(options.blocks)
        )
        self.last = nn.Linear(width, _CLASSES)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        for block in self.blocks:
            hidden = block(hidden)
        output: torch.Tensor = self.last(hidden.mean(1))
        return output


class _Watch(threading.Thread):
    """Anonymous memory of this process: at first, and at its peak so far."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.peak = self._anonymous()

    def run(self) -> None:
        """Read it every 5 ms."""
        while True:
            self.peak = max(self.peak, self._anonymous())
            time.sleep(0.005)

    @staticmethod
    def _anonymous() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
