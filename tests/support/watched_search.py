"""A search whose secret is looked for wherever others could read it: ``python -m watched_search FOLDER``."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
import torch
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.callbacks import Callback, UnitFinished
from cerebro_spark.hopper import _pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from udfs.rpc import Credentials

__all__ = ["needles"]

# Long enough that it is found by chance nowhere, and short enough for a compressed file, where the rest may be cut off.
_NEEDLE = 12

PAGES = ("environment/", "jobs/", "stages/", "SQL/", *(f"SQL/execution/?id={number}" for number in range(12)))
ANSWERS = (
    "environment",
    "jobs",
    "stages?details=true",
    "allexecutors",
    "sql?details=true&planDescription=true&length=100",
)


def needles(secret: bytes) -> list[bytes]:
    """Beginnings and middles of a secret, as it is, and as people and programs write bytes down."""
    forms = [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        secret.hex(" ").upper().encode(),  # as Spark shows a binary column
        repr(secret)[2:-1].encode(),
        ", ".join(str(byte) for byte in secret).encode(),
        ", ".join(str(byte - 256 * (byte > 127)) for byte in secret).encode(),  # as the JVM has them
    ]
    for shift in range(3):  # wherever it begins in a longer text of base64
        text = base64.b64encode(bytes(shift) + secret)[4:-4]
        forms += [text, text.replace(b"+", b"-").replace(b"/", b"_")]
    return [form[start : start + _NEEDLE] for form in forms for start in (0, len(form) // 2)]


class Places:
    """Where secrets are looked for."""

    def __init__(self, folder: Path, address: str, application: str) -> None:
        self._folder = folder
        self._site = f"{address}/api/v1/applications/{application}"
        self._pages = address
        self.looked = dict.fromkeys(("files", "processes", "pages"), 0)
        self.listening: set[str] = set()

    def all(self) -> Iterator[tuple[str, bytes]]:
        yield from self.files()
        yield from self.processes()
        for address in (*(f"{self._site}/{name}" for name in ANSWERS), *(f"{self._pages}/{name}" for name in PAGES)):
            with suppress(OSError), urllib.request.urlopen(address, timeout=30) as answer:
                self.looked["pages"] += 1
                yield address, answer.read()

    def files(self) -> Iterator[tuple[str, bytes]]:
        for root, _, names in os.walk(self._folder):
            for name in names:
                with suppress(OSError):
                    content = (Path(root) / name).read_bytes()
                    self.looked["files"] += 1
                    yield str(Path(root) / name), content

    def processes(self) -> Iterator[tuple[str, bytes]]:
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with suppress(OSError, psutil.Error):
                if "python" in process.name():
                    self.listening |= {
                        at.laddr.ip for at in process.net_connections("inet") if at.status == psutil.CONN_LISTEN
                    }
                for name in ("cmdline", "environ"):
                    content = Path(f"/proc/{process.pid}/{name}").read_bytes()
                    self.looked["processes"] += 1
                    yield f"/proc/{process.pid}/{name} of {process.name()}", content


@contextmanager
def watched(places: Callable[[], Iterator[tuple[str, bytes]]], found: set[str], secret: list[bytes]) -> Iterator[None]:
    """Look again and again, for a file may be there for a moment."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            parts = [needle for each in secret for needle in needles(each)]
            found.update(where for where, content in places() if any(part in content for part in parts))

    thread = threading.Thread(target=look)
    thread.start()
    yield
    over.set()
    thread.join()


class Watcher(Callback):
    """Looks everywhere once, in the middle of the run."""

    def __init__(self, places: Places, found: set[str], secret: list[bytes]) -> None:
        self._places, self._found, self._secret = places, found, secret
        self.units = 0

    def unit_finished(self, event: UnitFinished) -> None:
        self.units += event.kind == "train"
        if self.units == 3:
            look_once(self._places, self._found, self._secret)


def look_once(places: Places, found: set[str], secret: list[bytes]) -> None:
    parts = [needle for each in secret for needle in needles(each)]
    found.update(where for where, content in places.all() if any(part in content for part in parts))


def trainer_of(captured: np.ndarray) -> Callable[[dict[str, Any]], ModelTrainer]:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        if params["lr"] < 0:
            raise ValueError("a configuration whose traceback is kept")
        net = torch.nn.Linear(2, 2)
        net.weight.data += float(captured[0]) * 0
        return ModelTrainer(
            model=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=params["lr"]),
            loss=torch.nn.CrossEntropyLoss(),
            batch_size=16,
        )

    return trainer


def hand_over(canary: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make a function that Spark takes for a large one: what is in it goes through a file."""
    captured = canary + secrets.token_bytes(2 << 20)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(2)
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [len(captured)] * batch.num_rows})

    return rows


def main() -> None:
    folder = Path(sys.argv[1])
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    logging.basicConfig(filename=folder / "log.txt")
    for package in ("cerebro_spark", "udfs"):
        logging.getLogger(package).setLevel(logging.DEBUG)
    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.logStageExecutorMetrics": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder / 'tmp'} -Dderby.system.home={folder / 'derby'}",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    places = Places(folder, str(context.uiWebUrl), context.applicationId)

    control: set[str] = set()
    canary = secrets.token_bytes(32)
    with watched(places.files, control, [canary]):
        spark.range(0, 1, 1, 1).mapInArrow(hand_over(canary), "id long").collect()

    drawn: list[Credentials] = []
    secret: list[bytes] = []
    draw = _pool.new_credentials

    def noted(*, encrypted: bool) -> Credentials:
        drawn.append(draw(encrypted=encrypted))
        # The workers', and that of the run, which they derive.
        secret.extend((drawn[-1].secret, drawn[-1].derived("run 1").secret))
        body = "".join(drawn[-1].key.splitlines()[1:-1])
        # Behind what every key of the curve begins with; in base64 as it stands in the PEM, and as bytes.
        secret.extend((base64.b64decode(body)[36:68], body[52:84].encode()))
        return drawn[-1]

    _pool.new_credentials = noted  # type: ignore[assignment]
    found: set[str] = set()
    watcher = Watcher(places, found, secret)
    with watched(places.files, found, secret):
        GridSearch(
            backend=SparkBackend(spark, num_workers=2, threads=1, driver_host="127.0.0.2"),
            store=Store.from_uri(str(folder / "store")),
            trainer_fn=trainer_of(np.zeros(400_000)),
            search_space={"lr": [0.1, 0.01, -1.0]},
            num_epochs=2,
            feature_columns=["a", "b"],
            label_columns=["label"],
            callbacks=[watcher],
            progress=False,
        ).fit(spark.range(200).selectExpr("sin(id) a", "cos(id) b", "int(sin(id) > 0) label"))
    look_once(places, found, secret)
    spark.stop()
    parts = [needle for each in secret for needle in needles(each)]
    found.update(where for where, content in places.files() if any(part in content for part in parts))
    report = {
        "control": sorted(control),
        "found": sorted(found),
        "looked": places.looked,
        "listening": sorted(places.listening),
        "encrypted": [each.encrypted for each in drawn],
        "units": watcher.units,
        "logs": sum(path.stat().st_size for path in (folder / "events").rglob("*") if path.is_file()),
    }
    sys.stdout.write("\n" + json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
