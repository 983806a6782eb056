"""The soak: its faults follow from the seed, what it looks for it finds, and a minute of it ends well."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from sessions import CONNECT

pytest.importorskip("psutil")

from benchmarks.hopper._soak_faults import FILES, KINDS, Fault, Hands, faults
from benchmarks.hopper._soak_leaks import DESCRIPTORS, Footprint, growth, leaks

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    for place in ("store/runs/s/run.json", "store/runs/s/lease.json", "cache/shards/a.npy"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"0123456789")
    return Hands(tmp_path)


def test_the_schedule_follows_from_the_seed() -> None:
    drawn = list(islice(faults(7, 10), 200))
    assert drawn == list(islice(faults(7, 10), 200))
    assert drawn != list(islice(faults(8, 10), 200))
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert all(5 <= fault.after_s <= 15 for fault in drawn)


def test_one_bit_of_one_file_flips_and_its_copy_is_put_back(hands: Hands) -> None:
    place = list(FILES).index("settings") / len(FILES)
    fault = Fault(1.0, "flip", (place + 0.01, 0.0, 0.55, 0.3))
    assert hands.do(fault, 0, "s") == "settings store/runs/s/run.json"
    run = hands.folder / "store/runs/s/run.json"
    assert run.read_bytes() == b"012341" + b"6789", "the third bit of the sixth byte"
    # A second flip: the copy is still that of the intact file.
    hands.do(replace(fault, draws=(place + 0.01, 0.0, 0.0, 0.0)), 0, "s")
    assert run.read_bytes() == b"112341" + b"6789"
    assert hands.put_back("file:///x/store/runs/other/run.json is damaged") == []
    assert hands.put_back("file:///x/store/runs/s/run.json is damaged") == ["run.json"]
    assert run.read_bytes() == b"0123456789"


def test_a_flip_finds_another_kind_of_file_and_spares_what_is_mapped(hands: Hands) -> None:
    with (hands.folder / "cache/shards/a.npy").open("rb") as mapped:
        place = list(FILES).index("cache") / len(FILES)
        hands.do(Fault(1.0, "flip", (place + 0.01, 0.0, 0.0, 0.0)), 0, "s")
        assert mapped.read() == b"0123456789"
    assert (hands.folder / "cache/shards/a.npy").read_bytes() == b"1123456789"
    # There is no shard: the next kind that there is.
    assert hands.do(Fault(1.0, "flip", (0.0, 0.0, 0.0, 0.0)), 0, "s") == "settings store/runs/s/run.json"


def test_what_is_left_after_a_search_is_named() -> None:
    first = Footprint(0, {"MainThread": 1, "Thread-#": 2}, 10, 0, 3, ("/tmp/a",), MIB, MIB, MIB)
    assert leaks(first, first, 3) == []
    assert leaks(first, replace(first, threads={"MainThread": 1}, descriptors=10 + DESCRIPTORS), 3) == []
    for worse, word in (
        (replace(first, jobs=1), "1 Spark jobs"),
        (replace(first, heartbeats=1), "1 heartbeats"),
        (replace(first, workers=7), "7 Python workers for 3 slots"),
        (replace(first, threads={"MainThread": 1, "lease": 1}), "'lease': 1"),
        (replace(first, threads={"MainThread": 1, "Thread-#": 3}), "'Thread-#': 3"),
        (replace(first, descriptors=11 + DESCRIPTORS), "19 descriptors"),
        (replace(first, outside=("/tmp/a", "/tmp/b")), "/tmp/b"),
    ):
        (leak,) = leaks(first, worse, 3)
        assert word in leak


def test_growth_is_a_slope_after_the_warm_up() -> None:
    assert growth([MIB] * 6) is None
    assert growth([0, 5 * MIB, *range(9 * MIB, 20 * MIB, MIB)]) == pytest.approx(MIB)


@pytest.mark.slow
@pytest.mark.skipif(CONNECT or sys.platform != "linux", reason="starts its own drivers, and finds processes in /proc")
def test_a_minute_of_it() -> None:
    pytest.importorskip("torch")
    command = [
        sys.executable,
        "-m",
        "benchmarks.hopper.soak",
        "--minutes",
        "1",
        "--every",
        "5",
        "--epochs",
        "2",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580)
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ratios"] == {"models_equal": 1.0, "clean": 1.0}
    assert sum(found["facts"]["faults"].values()) >= 3
    assert found["facts"]["models"] >= 4
