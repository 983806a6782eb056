"""Opens every file of a corpus under a hook that sees what Python runs, writes or starts; prints what came of it."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.hopper import Journal
from optimizer.errors import CerebroError
from udfs.handlers import framework
from udfs.hopper import Checkpoints
from udfs.inference import PortableNetwork
from udfs.packing import unpack
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup, load_shard
from udfs.store import Store
from udfs.weights import read_state_dict
from udfs.weights.keras import fit_weights

if TYPE_CHECKING:
    from collections.abc import Callable

STARTS = (
    *("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"),
    *("os.startfile", "socket.connect", "socket.bind", "urllib.Request", "webbrowser.open", "ctypes.dlopen"),
)
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate")
# Who runs text of its own making: annotations, classes; and torch, that of a program that has been checked.
LIBRARY = ("typing.py", "dataclasses.py", "collections/__init__.py")
TORCH = ("sympy_parser.py", "torch/fx/graph_module.py", "torch/fx/_lazy_graph_module.py")


class Hook:
    """Notes events of the interpreter that no opened file may cause."""

    def __init__(self, folder: Path) -> None:
        self.events: list[str] = []
        self.runners: tuple[str, ...] = LIBRARY
        self._inside = (str(folder.resolve()), str(Path(tempfile.gettempdir()).resolve() / "opened-"))
        self._secrets = {str(folder / name) for name in ("secret", "secret.h5", "ran")}

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event in STARTS:
            self._refuse(event, args)
        elif event == "exec":
            name = str(getattr(args[0], "co_filename", "?"))
            runner = sys._getframe(1).f_code.co_filename
            if name.startswith("<") and not name.startswith("<frozen ") and not runner.endswith(self.runners):
                self._refuse(event, f"{name} by {runner}")
        elif event == "import" and args[0] in ("antigravity", "evil"):
            self._refuse(event, args[0])
        elif event == "open" and isinstance(args[0], (str, bytes, Path)):
            path = str(args[0].decode() if isinstance(args[0], bytes) else args[0])
            writes = isinstance(args[2], int) and args[2] & 0x43  # O_WRONLY, O_RDWR, O_CREAT
            if path in self._secrets or (writes and not str(Path(path).absolute()).startswith(self._inside)):
                self._refuse(event, args)
        elif event in CHANGES and not str(Path(str(args[0])).absolute()).startswith(self._inside):
            self._refuse(event, args)

    def _refuse(self, event: str, what: object) -> None:
        self.events.append(f"{event} {what}")
        raise RuntimeError(f"refused by the hook: {event} {what}")


def doors(folder: Path) -> dict[str, Callable[[bytes], Any]]:
    """Name the functions of the project that open a file from an untrusted source."""
    framework("keras")  # imports it quietly
    keras = importlib.import_module("keras")

    store = Store.from_uri(str(folder / "store"))

    def written(data: bytes) -> str:
        path = folder / "opened.bin"
        path.write_bytes(data)
        return str(path)

    def dense() -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")])

    def torch_network(data: bytes) -> Any:
        network = PortableNetwork("torch", data)
        return network.open()([np.zeros((2, 1, 3, 3), np.float32)])

    def document(data: bytes, read: Callable[[], Any], *parts: str) -> Any:
        store.write(data, *parts)
        return read()

    def shard(data: bytes) -> Any:
        groups = (TensorGroup("x", (TensorColumn("x", "float32"),)),), ()
        rows = (Shard("train", 0, "train/shard-00000.parquet", 2, 8),)
        prepared = PreparedData(store, "rows", *groups, rows, 0, 0.0, "f00")
        return document(data, lambda: load_shard(prepared, "train", 0), *prepared.path(rows[0]))

    journal = Journal(store, "run")
    return {
        "weights": lambda data: read_state_dict(written(data)),
        "state": lambda data: unpack(data, lambda array, _kind: array),
        "torch": torch_network,
        "keras": lambda data: PortableNetwork("keras", data).open(),
        "keras weights": lambda data: fit_weights(dense(), written(data), "dense"),
        "run.json": lambda data: document(data, journal.spec, "runs", "run", "run.json"),
        "trial.json": lambda data: document(
            data, lambda: journal.trial("c000", {}, 1), "runs", "run", "trials", "c000.json"
        ),
        "events.json": lambda data: document(data, journal.events, "runs", "run", "events", "part-000000.json"),
        "record.json": lambda data: document(
            data,
            lambda: Checkpoints(store, "records").last("c000"),
            *("runs", "records", "checkpoints", "c000", "000001-0.json"),
        ),
        "_prepared.json": lambda data: document(
            data, lambda: PreparedData.load(store, "data"), "prepared", "data", "_prepared.json"
        ),
        "shard": shard,
    }


def main() -> None:
    """Open the files that ``folder/corpus.json`` names, and print a JSON line for each."""
    folder = Path(sys.argv[1])
    tempfile.tempdir = str(folder)
    ways = doors(folder)
    for door, name in json.loads((folder / "good.json").read_text()).items():
        ways[door]((folder / name).read_bytes())  # whatever is imported late is imported now
    hook = Hook(folder)
    sys.addaudithook(hook)
    for entry in json.loads((folder / "corpus.json").read_text()):
        hook.events.clear()
        hook.runners = LIBRARY + TORCH * entry["harmless"]
        try:
            ways[entry["door"]]((folder / entry["file"]).read_bytes())
            outcome, message = "opened", ""
        except CerebroError as error:
            outcome, message = "refused", f"{type(error).__name__}: {error}"
        except BaseException as error:  # reported
            outcome, message = "failed", f"{type(error).__name__}: {error}"
        sys.stdout.write(
            json.dumps({**entry, "outcome": outcome, "message": message, "events": list(hook.events)}) + "\n"
        )


if __name__ == "__main__":
    main()
