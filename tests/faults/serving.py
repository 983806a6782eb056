"""A server that a test disturbs: ``python serving.py MASTER STORE RUN fit SETTINGS``, as a search's driver is run."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from optimizer.serving import BatchingProfile
from udfs.serving import RequestError, TensorSpec
from vista_spark.serving import Server, Session

# Between two requests, and the milliseconds that each has.
PAUSE_S = 0.05
SLO_MS = 4000.0
GRACE_MS = 100.0


def double(arrays: Any) -> Any:
    """Answer with the process that computes."""
    time.sleep(0.02)
    return {"y": 2 * arrays["x"], "process": np.full(len(arrays["x"]), os.getpid())}


def say(word: str, rest: str) -> None:
    sys.stdout.write(f"{word} {rest}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve from two backends for some seconds, and print what came of it."""
    master = sys.argv[1]
    settings = json.loads(sys.argv[5])
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = SparkSession.builder.master(master).appName("serving").getOrCreate()
    server = Server(spark, backends=2, epoch_s=2.0)
    session = Session(
        "double",
        model=double,
        inputs=[TensorSpec("x", "float32", (-1, 1))],
        profile=BatchingProfile({1: 25.0, 8: 30.0}),
        slo_ms=SLO_MS,
        rate=20.0,
    )
    server.deploy(session)
    asked: list[list[Any]] = []
    with server.start() as api:
        say("SERVING", " ".join(api.backends))
        until = time.monotonic() + settings["seconds"]
        while time.monotonic() < until:
            number = float(len(asked))
            future = api["double"].execute(np.array([number], np.float32))
            entry: list[Any] = [number, time.monotonic(), future]
            asked.append(entry)
            future.add_done_callback(lambda _, entry=entry: entry.append(time.monotonic()))
            time.sleep(PAUSE_S)
        outcomes = [outcome(entry[0], entry[2]) for entry in asked]
        backends = list(api.backends)
    slowest = max(1000 * (entry[3] - entry[1]) for entry in asked)
    say(
        "FOUND",
        json.dumps(
            {
                "asked": len(asked),
                "errors": [error for error, _ in outcomes if error],
                "last_errors": [error for error, _ in outcomes[-20:] if error],
                "processes": sorted({process for _, process in outcomes if process}),
                "slowest_ms": slowest,
                "limit_ms": SLO_MS + GRACE_MS,
                "backends": backends,
                "slots_free": spark.range(0, 6, 1, 3).count(),
            }
        ),
    )
    spark.stop()


def outcome(number: float, future: Any) -> tuple[str, int]:
    """Wait for a request's end: its error, or the process that answered, whose number has to be right."""
    try:
        answer = future.result(SLO_MS / 1000 + 30.0)
    except RequestError as error:
        return type(error).__name__, 0
    if answer["y"].tolist() != [2 * number]:
        return f"{answer['y']} for {number}", 0
    return "", int(answer["process"])


main()
