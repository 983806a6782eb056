"""Searches one after another, with a worker or the driver killed, stopped or cut, or a bit flipped, every ten seconds.

``python -m benchmarks.hopper.soak --minutes 120`` (``make soak``) runs a search undisturbed, then the same search
again and again while faults are done to it that a seed draws. Every final checkpoint has to be equal, bit for bit,
and nothing may be left behind. Where the product stops with an error that names a remedy, the soak follows it. It
ends with 1 where anything differs, leaks, hangs or fails otherwise. Linux alone; it touches no processes but its own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.harness.report import Report, load_average
from benchmarks.hopper._soak_driver import WORKERS
from benchmarks.hopper._soak_faults import KINDS, Hands, faults
from benchmarks.hopper._soak_leaks import DESCRIPTORS, MEMORY_BYTES, Footprint, growth, leaks
from udfs.node import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

_MIB = 1 << 20
_STALLED_S = 300.0
_ENDED_S = 90.0
# Remedies may fail by the next fault: so many without a unit more than before are an endless circle.
_REMEDIES = 50
_CALM = "calm"

_PREPARE_AGAIN = re.compile(r"prepare (it|the same rows) again")
_COPY_BACK = re.compile("put a copy of it back")
_RESUME = re.compile("Selection.resume")


class SearchError(Exception):
    """Error for a search that did not finish despite all remedies."""


@dataclass
class DriverProcess:
    """A driver process and the connection to it."""

    folder: Path
    epochs: int
    number: int
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "logs" / f"driver-{self.number}.log"
        self.link, there = Pipe()
        command = [sys.executable, "-m", "benchmarks.hopper._soak_driver", str(there.fileno())]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment |= {
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "TMPDIR": str(self.folder / "tmp"),
            "HOME": str(self.folder / "home"),
            "OMP_NUM_THREADS": "1",
            CACHE_VARIABLE: str(self.folder / "cache"),
        }
        with self.log.open("wb") as log:
            # A session of its own: what it starts is found by it, also after its death.
            self.process = subprocess.Popen(
                [*command, str(self.folder), str(self.epochs)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        there.close()

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session."""
        return self.process.pid

    def descendants(self) -> list[psutil.Process]:
        """List the processes of its session that run, or are stopped."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> None:
        """Kill its remaining processes."""
        for process in self.descendants():
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()
        self.link.close()

    def tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])


class Soak:
    """The soak: searches, faults injected into them, and the results.

    Parameters
    ----------
    folder : Path
    epochs : int
        Of each search.
    seed : int
    every_s : float
        Mean time between two faults.
    minutes : float
        How long faults are done.
    kills : int
        Where it is not 0, they are done until so many workers were killed instead.
    """

    def __init__(self, folder: Path, *, epochs: int, seed: int, every_s: float, minutes: float, kills: int) -> None:
        self.folder = folder
        self.done = Counter[str]()
        self.flipped = Counter[str]()
        self.remedies = Counter[str]()
        self.failures: list[str] = []
        self.searches = self.equal = self.models = self.losses = self.redone = 0
        # By driver, after each of its searches.
        self.lives: list[list[Footprint]] = []
        self._epochs = epochs
        self._minutes, self._kills = minutes, kills
        self._faults = faults(seed, every_s)
        self._fault, self._due = next(self._faults), float("inf")
        self._hands = Hands(folder)
        self._driver: DriverProcess | None = None
        self._ending: list[tuple[float, DriverProcess]] = []
        self._drivers = 0
        self._began = time.monotonic()
        self._killed_by_us = False
        for name in ("logs", "scratch", "tmp", "home", "work", "cache", "store"):
            (folder / name).mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hands.continue_stopped(all_of_them=True)
        for driver in [*(driver for _, driver in self._ending), *([self._driver] if self._driver else [])]:
            driver.end()

    @property
    def seconds(self) -> float:
        """Time since the first disturbed search began."""
        return time.monotonic() - self._began

    def run(self) -> None:
        """Search until the time is over, or enough workers were killed."""
        expected = self._search(_CALM, disturbed=False)
        self._say(f"undisturbed: {expected['digests']}")
        self._began = time.monotonic()
        self._due = self._began + self._fault.after_s
        while not self._enough:
            run = f"s{self.searches:05d}"
            self.searches += 1
            try:
                found = self._search(run, disturbed=True)
            except SearchError as error:
                self._fail(run, str(error))
                self._abandon()
                continue
            self._compare(run, found, expected)
            shutil.rmtree(self.folder / "store" / "runs" / run)
        self._hands.continue_stopped(all_of_them=True)
        self._await_ending(all_of_them=True)

    @property
    def _enough(self) -> bool:
        if self._kills:
            return self.done["kill"] + self.done["flip and kill"] >= self._kills
        return self.seconds > 60 * self._minutes

    def _compare(self, run: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
        self.losses += found["losses"]
        self.redone += found["redone"]
        for trial_id, digest in expected["digests"].items():
            self.models += 1
            if (
                found["digests"].get(trial_id) == digest
                and found["histories"][trial_id] == expected["histories"][trial_id]
            ):
                self.equal += 1
            else:
                status = f"{found['statuses'][trial_id]} {found['tracebacks'].get(trial_id, '')}"
                self._fail(run, f"{trial_id} differs, {status}: {found['histories'][trial_id]}")
        first, last = found["first"], found["footprint"]
        for leak in leaks(first, last, WORKERS):
            self._fail(run, leak)
        self._say(
            f"{run}: {self.equal} of {self.models} models equal, {found['losses']} workers lost, "
            f"{last.descriptors} descriptors, {last.driver_bytes / _MIB:.0f} MiB"
        )

    def _search(self, run: str, *, disturbed: bool) -> dict[str, Any]:
        """Run a search to its end, with the necessary remedies."""
        order = "fit"
        furthest, in_vain = 0, 0
        while in_vain < _REMEDIES:
            reply = self._ask(order, run, disturbed=disturbed)
            reached = self._progress(run)
            in_vain = in_vain + 1 if reached <= furthest else 0
            furthest = max(furthest, reached)
            if reply is None:
                self.remedies["resumed after the driver's death"] += 1
                order = self._go_on(run)
            elif "crash" in reply:
                raise SearchError(reply["crash"])
            elif "error" in reply:
                order = self._remedy(reply["error"], run)
            elif order == "prepare":
                order = self._go_on(run)
            else:
                self._footprints.append(reply["footprint"])
                return reply
        raise SearchError(f"{_REMEDIES} remedies did not help it past {furthest} units")

    def _go_on(self, run: str) -> str:
        return "resume" if (self.folder / "store" / "runs" / run / "run.json").exists() else "fit"

    def _remedy(self, error: str, run: str) -> str:
        """Apply the remedy of an error message and return the next order."""
        self._say(f"{run}: {error}")
        if _PREPARE_AGAIN.search(error):
            self.remedies["prepared again"] += 1
            return "prepare"
        if _COPY_BACK.search(error):
            if not self._hands.put_back(error):
                raise SearchError(f"a file is damaged whose bits were not flipped: {error}")
            self.remedies["a copy put back"] += 1
            return self._go_on(run)
        if _RESUME.search(error):
            self.remedies["resumed after an error"] += 1
            return "resume"
        raise SearchError(f"an error without a remedy: {error}")

    def _ask(self, order: str, run: str, *, disturbed: bool) -> dict[str, Any] | None:
        """Send an order to the driver and inject faults meanwhile; return ``None`` if a fault killed it."""
        driver = self._driver = self._driver or self._start()
        self._killed_by_us = False
        progress, since = -1, time.monotonic()
        try:
            driver.link.send((order, run))
            while not driver.link.poll(0.1):
                self._hands.continue_stopped()
                self._await_ending()
                if disturbed:
                    self._do_fault(driver, run)
                if (now := self._progress(run)) != progress:
                    progress, since = now, time.monotonic()
                if time.monotonic() - since > _STALLED_S:
                    driver.process.send_signal(signal.SIGUSR1)
                    time.sleep(2)
                    raise SearchError(f"no progress in {_STALLED_S:.0f} s of {order}:\n{driver.tail()}")
            reply: dict[str, Any] = driver.link.recv()
        except (EOFError, ConnectionError, BrokenPipeError):
            status = driver.process.wait()
            if not self._killed_by_us:
                raise SearchError(f"the driver ended by itself, with {status}:\n{driver.tail()}") from None
            self._retire()
            return None
        return reply

    def _progress(self, run: str) -> int:
        folder = self.folder / "store" / "runs" / run / "checkpoints"
        return sum(int(path.name.partition("-")[0]) for path in folder.glob("*/[0-9]*.json"))

    def _do_fault(self, driver: DriverProcess, run: str) -> None:
        if time.monotonic() < self._due or self._enough:
            return
        hit = self._hands.do(self._fault, driver.pid, run)
        if not hit:
            return  # nothing to hit yet
        self._say(f"{self._fault.kind}: {hit}")
        self.done[self._fault.kind] += 1
        if "flip" in self._fault.kind:
            self.flipped[hit.partition(" ")[0]] += 1
        self._killed_by_us |= self._fault.kind == "driver"
        self._fault = next(self._faults)
        self._due = time.monotonic() + self._fault.after_s

    def _start(self) -> DriverProcess:
        self._drivers += 1
        self._footprints: list[Footprint] = []
        self.lives.append(self._footprints)
        return DriverProcess(self.folder, self._epochs, self._drivers)

    def _retire(self) -> None:
        """Register a killed driver, to check later that its processes have ended."""
        if self._driver is not None:
            self._ending.append((time.monotonic() + _ENDED_S, self._driver))
            self._driver = None

    def _abandon(self) -> None:
        """Start over after a failure."""
        if self._driver is not None:
            self._driver.end()
            self._driver = None

    def _await_ending(self, *, all_of_them: bool = False) -> None:
        for deadline, driver in list(self._ending):
            while True:
                left = driver.descendants()
                if not left:
                    driver.end()
                elif time.monotonic() > deadline:
                    commands = [" ".join(process.cmdline())[:100] for process in left]
                    self._fail(f"driver {driver.pid}", f"{len(left)} processes outlived it: {commands}")
                    driver.end()
                elif all_of_them:
                    time.sleep(0.5)
                    continue
                else:
                    break
                self._ending.remove((deadline, driver))
                break

    def _fail(self, where: str, text: str) -> None:
        self.failures.append(f"{where}: {text}")
        self._say(f"FAILED {where}: {text}")

    def _say(self, text: str) -> None:
        print(f"{self.seconds:7.1f} {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the soak and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long; the last search is done to its end")
    parser.add_argument("--kills", type=int, default=0, help="stop after so many killed workers, not by time")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two faults, in the mean")
    parser.add_argument("--seed", type=int, default=1, help="of the faults")
    parser.add_argument("--epochs", type=int, default=4, help="of each search: 4 configurations, 4 shards, 3 workers")
    parser.add_argument("--logs", type=Path, help="a new folder for the store and the drivers' logs, to keep them")
    parser.add_argument("--schedule", type=int, metavar="N", help="print the first N faults and do nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    if options.schedule:
        for fault in islice(faults(options.seed, options.every), options.schedule):
            print(f"{fault.after_s:6.2f} {fault.kind:6} {' '.join(f'{draw:.4f}' for draw in fault.draws)}")
        return
    if sys.platform != "linux":
        parser.error("processes are found in /proc, and connections cut through it: Linux alone")
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = (options.logs or Path(temporary) / "soak").absolute()
        settings = {"epochs": options.epochs, "seed": options.seed, "every_s": options.every}
        with Soak(folder, **settings, minutes=options.minutes, kills=options.kills) as soak:
            soak.run()
            _report(soak, options)
    if soak.failures:
        raise SystemExit(1)


def _report(soak: Soak, options: argparse.Namespace) -> None:
    done = sum(soak.done.values())
    report = Report(
        f"{soak.searches} searches in {soak.seconds / 60:.1f} min, {done} faults, seed {options.seed}; "
        f"load {load_average()}"
    )
    report.table(
        "Faults",
        ("kind", "number", "what flipped, in all"),
        [
            (kind, f"{soak.done[kind]}", ", ".join(f"{n} {name}" for name, n in sorted(soak.flipped.items())))
            if kind == "flip and kill"
            else (kind, f"{soak.done[kind]}", "")
            for kind in KINDS
        ],
    )
    report.table(
        "Course",
        ("what", "number", ""),
        [
            ("workers lost", f"{soak.losses}", "in the drivers that saw a search's end"),
            ("units redone", f"{soak.redone}", "the same"),
            *((name, f"{number}", "") for name, number in sorted(soak.remedies.items())),
            ("failures", f"{len(soak.failures)}", ""),
        ],
    )
    facts = _leaks(soak)
    report.table("Leaks, the worst", ("what", "found", "allowed", ""), facts)
    for failure in soak.failures:
        report.note(f"FAILED {failure}")
    report.ratio("models_equal", soak.equal / max(1, soak.models), f"of {soak.models} final models", 1)
    report.ratio("clean", float(not soak.failures), "1: nothing leaked, hung or failed", 1)
    report.fact("seed", options.seed)
    report.fact("minutes", round(soak.seconds / 60, 2))
    report.fact("searches", soak.searches)
    report.fact("models", soak.models)
    report.fact("models_equal", soak.equal)
    report.fact("faults", {kind: soak.done[kind] for kind in KINDS})
    report.fact("flipped", dict(soak.flipped))
    report.fact("remedies", dict(soak.remedies))
    report.fact("workers_lost", soak.losses)
    report.fact("leaks", {name: found for name, found, _, _ in facts})
    report.fact("failures", soak.failures)
    report.show(as_json=options.json)


def _leaks(soak: Soak) -> list[tuple[str, str, str, str]]:
    """Return the worst of each figure."""
    lives = [life for life in soak.lives if life]
    ends = [(life[0], footprint) for life in lives for footprint in life]
    longest = max(lives, key=len, default=[])
    rows = [
        ("Spark jobs", f"{max((last.jobs for _, last in ends), default=0)}", "0", "once a search is over"),
        ("heartbeats", f"{max((last.heartbeats for _, last in ends), default=0)}", "0", "the same"),
        (
            "threads more than at first",
            f"{max((sum(last.threads.values()) - sum(first.threads.values()) for first, last in ends), default=0)}",
            "0",
            "",
        ),
        (
            "descriptors more than at first",
            f"{max((last.descriptors - first.descriptors for first, last in ends), default=0)}",
            f"{DESCRIPTORS}",
            "",
        ),
        (
            "files outside of the store",
            f"{max((len(set(last.outside) - set(first.outside)) for first, last in ends), default=0)}",
            "0",
            "",
        ),
    ]
    for name, field_name in (("driver", "driver_bytes"), ("JVM", "jvm_bytes"), ("worker", "worker_bytes")):
        slope = growth([getattr(footprint, field_name) for footprint in longest])
        found = "too few searches" if slope is None else f"{slope / _MIB:.2f} MiB a search"
        judged = name == "driver"
        allowed = f"{MEMORY_BYTES / _MIB:.0f} MiB a search" if judged else ""
        rows.append((f"memory of the {name}", found, allowed, f"{len(longest)} searches, the longest life of a driver"))
        if judged and slope is not None and slope > MEMORY_BYTES:
            soak.failures.append(f"the {name}'s memory grows by {slope / _MIB:.1f} MiB a search")
    return rows


if __name__ == "__main__":
    main()
