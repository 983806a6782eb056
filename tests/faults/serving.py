"""A server that a test disturbs: ``python serving.py MASTER STORE RUN fit SETTINGS``, as a search's driver is run.

``fault`` is ``"hangs"`` (a batch never ends), ``"slow"`` (one of two backends takes three times as long), ``"flood"``
(five times the load for ten seconds), ``"hang up"`` (clients that close their connections), ``"front end"`` (one of two
processes that answer HTTP is killed), or nothing. With ``application`` requests
are for an application, which asks the model twice.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from optimizer.serving import BatchingProfile
from udfs.serving import RequestError, TensorSpec
from udfs.serving.http import FrontEndProcesses
from vista_spark.serving import App, Server, Session

# Two backends bear 80 requests a second; each request has these milliseconds.
PROFILE = BatchingProfile({1: 50.0, 4: 100.0})
INPUTS = (TensorSpec("x", "float32", (-1, 1)),)
RATE = 25.0
APPLICATION_RATE = 12.0
SLO_MS = 4000.0
GRACE_MS = 100.0

# When what the model itself does begins, and how long a flood lasts.
FAULT_S = 8.0
FLOOD_S = 10.0
FLOOD = 5

# What a request has that hangs, and from where on the requests are of clients that hang up.
HANGS = -1.0
GONE = 1_000_000
GONE_CLIENTS = 60

CLIENTS = ThreadPoolExecutor(64)


class Fragile:
    """Answers with twice the number and its process, and does what the test is about."""

    def __init__(self, folder: Path, fault: str) -> None:
        self.folder, self.fault = folder, fault

    def __call__(self, arrays: Any) -> Any:
        x = arrays["x"]
        if (x == HANGS).any():
            if self.is_first("hanging"):
                time.sleep(3600)
            x = np.abs(x)
        time.sleep(float(PROFILE.latencies[len(x)]) / 1000)
        if self.fault == "slow" and (self.is_first("slow") or self.first("slow") == os.getpid()):
            for _ in range(2):
                time.sleep(float(PROFILE.latencies[len(x)]) / 1000)
        gone = int((x >= GONE).sum())
        if gone:
            with (self.folder / "computed").open("a") as file:
                file.write("x" * gone)
        return {"y": 2 * x, "process": np.full(len(x), os.getpid())}

    def is_first(self, what: str) -> bool:
        """Whether no process of any backend has asked this before."""
        try:
            with (self.folder / what).open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def first(self, what: str) -> int:
        return int((self.folder / what).read_text() or 0)


class Twice(App):
    """Asks the model, and asks it again for what it said."""

    inputs = INPUTS

    def setup(self) -> None:
        self.double = self.model("double")

    def process(self, request: Any) -> Any:
        return self.double.execute(self.double.execute(request).result()["y"]).result()


def say(word: str, rest: str) -> None:
    sys.stdout.write(f"{word} {rest}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve from two backends for some seconds, and print what came of it."""
    master, settings = sys.argv[1], json.loads(sys.argv[5])
    fault, seconds = settings.get("fault", ""), settings["seconds"]
    name, factor, rate = ("twice", 4, APPLICATION_RATE) if settings.get("application") else ("double", 2, RATE)
    folder = Path.cwd()
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    spark = SparkSession.builder.master(master).appName("serving").getOrCreate()
    server = Server(spark, backends=2, epoch_s=2.0)
    fragile = Fragile(folder, fault)
    server.deploy(Session("double", model=fragile, inputs=INPUTS, profile=PROFILE, slo_ms=SLO_MS, rate=RATE))
    if name == "twice":
        server.deploy(Twice(name, samples=[np.ones(1, np.float32)], slo_ms=SLO_MS, rate=rate))
    asked: list[list[Any]] = []
    over_http = fault in {"hang up", "front end"}
    count = 2 if fault == "front end" else 0
    with server.start(port=0 if over_http else None, front_ends=count) as api:
        say("SERVING", " ".join(api.backends))
        began = due = time.monotonic()
        done = loaded = False
        while (now := time.monotonic()) < began + seconds:
            at = now - began
            if at >= FAULT_S and not done:
                done = True
                if fault == "hangs":
                    ask(api, asked, name, HANGS)
                elif fault == "hang up":
                    hang_up(api)
                elif fault == "front end":
                    os.kill(api.front_end.processes[0], signal.SIGKILL)
            ask(api, asked, name, float(len(asked)))
            if not loaded and len({process for _, process in (ended(entry, factor) for entry in asked)} - {0}) == len(
                api.backends
            ):
                loaded = True
                say("LOADED", "every backend has answered")
            flooded = fault == "flood" and FAULT_S <= at < FAULT_S + FLOOD_S
            due += 1 / (rate * (FLOOD if flooded else 1))
            time.sleep(max(0.0, due - time.monotonic()))
        outcomes = [outcome(entry[0], entry[2], factor) for entry in asked]
        backends = list(api.backends)
        front_ends = len(getattr(api.front_end, "processes", ()))
        waiting = api._router.waiting
    computed = folder / "computed"
    say(
        "FOUND",
        json.dumps(
            {
                "asked": len(asked),
                "errors": [error for error, _ in outcomes if error],
                "last_errors": [error for error, _ in outcomes[-20:] if error],
                "processes": sorted({process for _, process in outcomes if process}),
                "slowest_ms": max(1000 * (entry[3] - entry[1]) for entry in asked),
                "limit_ms": SLO_MS + GRACE_MS,
                "backends": backends,
                "waiting": waiting,
                "gone_clients": GONE_CLIENTS,
                "computed_for_them": len(computed.read_text()) if computed.exists() else 0,
                "front_ends": front_ends,
                "slots_free": spark.range(0, 6, 1, 3).count(),
            }
        ),
    )
    spark.stop()


def ask(api: Any, asked: list[list[Any]], name: str, number: float) -> None:
    """Ask, and note the number, when it was asked, its future, and when that ended."""
    if isinstance(api.front_end, FrontEndProcesses):
        future = CLIENTS.submit(post, api.url, api.token, name, number)
    else:
        future = api[name].execute(np.array([number], np.float32))
    entry: list[Any] = [abs(number), time.monotonic(), future]
    asked.append(entry)
    future.add_done_callback(lambda _: entry.append(time.monotonic()))


def post(url: str, token: str, name: str, number: float) -> dict[str, np.ndarray]:
    """Ask over HTTP, by a connection of its own."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=SLO_MS / 1000 + 30.0)
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [number]}]})
    connection.request("POST", f"/v2/models/{name}/infer", body, {"Authorization": f"Bearer {token}"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    if "error" in answer:
        raise RequestError(answer["error"])
    return {one["name"]: np.array(one["data"]) for one in answer["outputs"]}


def ended(entry: list[Any], factor: int) -> tuple[str, int]:
    return outcome(entry[0], entry[2], factor) if entry[2].done() else ("", 0)


def hang_up(api: Any) -> None:
    """Send requests over HTTP, more than are computed at once, and close the connections without an answer."""
    front = api.front_end
    opened = []
    for place in range(GONE_CLIENTS):
        data = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [GONE + 2 * place]}
        body = json.dumps({"inputs": [data]})
        connection = socket.create_connection((front.host, front.port))
        head = f"POST /v2/models/double/infer HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {front.token}\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        opened.append(connection)
    for connection in opened:
        connection.close()


def outcome(number: float, future: Any, factor: int) -> tuple[str, int]:
    """Wait for a request's end: its error, or the process that answered, whose number has to be right."""
    try:
        answer = future.result(SLO_MS / 1000 + 30.0)
    except RequestError as error:
        return type(error).__name__, 0
    except (OSError, HTTPException):
        return "cut", 0
    if answer["y"].tolist() != [factor * number]:
        return f"{answer['y']} for {number}", 0
    return "", int(answer["process"].reshape(()))


main()
