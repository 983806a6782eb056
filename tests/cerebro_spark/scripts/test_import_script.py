"""Import of uploaded scripts: what is described, and attacks; those on limits succeed without them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cerebro_spark.builtin import load_source
from cerebro_spark.scripts import HANDLER, ScriptFunction, ScriptLimits, import_script
from cerebro_spark.scripts._description import form_space
from optimizer.errors import InvalidArgumentError
from optimizer.space import Space, integer, log_integer, log_uniform

# A machine with both cores busy takes seconds to start a process.
PATIENT = ScriptLimits(seconds=60)

SCRIPT = """
from optimizer.space import log_uniform

search_space = {"lr": log_uniform(1e-4, 1e-1), "hidden": [16, 32], "layers": 2}
feature_columns = ["age"]
num_epochs = 3
metric = print  # a function travels with the script alone
helper = 7

def trainer_fn(params):
    return params["lr"]
"""


def refused(text: str, limits: ScriptLimits = PATIENT) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        import_script(text, limits)
    return str(caught.value)


def test_a_script_is_described_as_plain_data() -> None:
    described = import_script(SCRIPT, PATIENT)
    assert described["trainer"] is True
    assert described["converts"] is False
    assert described["search_space"] == {
        "lr": {"kind": "loguniform", "low": 1e-4, "high": 0.1},
        "hidden": {"kind": "choice", "values": [16, 32]},
        "layers": {"kind": "fixed", "value": 2},
    }
    assert described["settings"] == {"feature_columns": ["age"], "num_epochs": 3}
    assert Space.of(described["space"]).grid(2)[0] == {"lr": 1e-4, "hidden": 16, "layers": 2}


def test_a_logarithmic_integer_is_not_in_the_form() -> None:
    assert form_space(Space({"units": integer(32, 256)}).document())["units"]["kind"] == "int"
    assert form_space(Space({"units": log_integer(32, 256)}).document()) == {}


def test_a_space_of_branches_is_not_in_the_form_but_complete() -> None:
    text = "from optimizer.space import choice\nsearch_space = {'net': choice({'a': {'x': [1]}, 'b': {'y': [2, 3]}})}"
    described = import_script(text, PATIENT)
    assert described["search_space"] == {}
    assert len(Space.of(described["space"]).grid()) == 3
    assert described["trainer"] is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ndef f(:\n    pass\n", "line 2: SyntaxError: invalid syntax"),
        ("x = 1\nimport no_such_module\n", "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    import json\n    json.loads('{')\nf()\n", "line 3: JSONDecodeError: "),
        ("raise SystemExit(0)\n", "line 1: SystemExit: 0"),
        ("x = '\0'\n", "SyntaxError: source code string cannot contain null bytes"),
        ("search_space = {'lr': []}\n", "SpaceError: "),
        ("import os\nos._exit(3)\n", "the script must leave its process running while it is imported, got the exit"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "signal SIGSEGV"),
        ("raise ValueError('<script>alert(1)</script>')\n", "line 1: ValueError: <script>alert(1)</script>"),
    ],
)
def test_errors_have_the_line_of_the_script(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_hang_ends_after_the_limit() -> None:
    text = "import time\nx = 1\ntime.sleep(2)\n"
    assert import_script(text, PATIENT)["trainer"] is False
    assert "the script must be imported within 1 seconds, got no end" in refused(text, replace(PATIENT, seconds=1))


@pytest.mark.slow
def test_a_hang_is_reported_with_its_line() -> None:
    text = "x = 1\ndef wait():\n    while True: pass\nwait()\n"
    assert refused(text, replace(PATIENT, seconds=10)).startswith("line 3: the script must be imported within 10")


def test_a_gigabyte_of_output_is_cut() -> None:
    text = "import os\nfor _ in range({}):\n    os.write(1, b'x' * (1 << 20))\n"
    assert import_script(text.format(3), replace(PATIENT, output_bytes=1 << 30))["trainer"] is False
    assert "the script must print at most 1,048,576 bytes" in refused(text.format(1024))


def test_memory_is_limited() -> None:
    text = "block = bytes(3 << 30)\n"  # zeros, which take no memory before they are written
    assert import_script(text, replace(PATIENT, memory_bytes=8 << 30))["trainer"] is False
    assert refused(text) == "line 1: MemoryError: the script must be imported within the memory limit"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("protected", [True, False])
def test_processes_of_a_script_end_with_it(protected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    text = (
        "import os, time\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(3600)\n"
        f"open({str(note)!r}, 'w').write(str(child))\n"
    )
    if not protected:
        monkeypatch.setattr("os.killpg", lambda *_: None)
    import_script(text, PATIENT)
    pid = int(note.read_text())
    deadline = time.monotonic() + (10 if protected else 0)
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_running(pid) == protected:
        pytest.fail("the process lives" if protected else "the process has ended by itself")
    if not protected:
        os.kill(pid, signal.SIGKILL)


def test_a_process_that_leaves_the_group_does_not_hold_the_check(tmp_path: Path) -> None:
    """It keeps the descriptors open, so that a reader who waits for their end would wait for an hour."""
    note = tmp_path / "pid"
    text = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(3600)\n"
        "os._exit(5)\n"
    )
    assert "exit status 5" in refused(text)
    deadline = time.monotonic() + 10
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(int(note.read_text()), signal.SIGKILL)


def test_a_script_has_no_file_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original system imported a file under its own name: one named json.py replaced a module."""
    (tmp_path / "json.py").write_text("raise SystemError('hidden')")
    monkeypatch.chdir(tmp_path)
    unprotected = subprocess.run([sys.executable, "-c", "import json"], capture_output=True, text=True, check=False)
    assert "SystemError: hidden" in unprotected.stderr
    text = "import json, os\nsearch_space = {'name': [__name__], 'files': [len(os.listdir('.'))]}\n"
    space = import_script(text, PATIENT)["search_space"]
    assert space["name"]["values"][0].startswith("cerebro_script_")
    assert space["files"]["values"] == [1]  # an empty folder but for the script


def test_the_process_has_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_TOKEN", "secret")
    text = "import os\nsearch_space = {'token': [os.environ.get('CEREBRO_TOKEN', 'none')]}\n"
    assert import_script(text, PATIENT)["search_space"]["token"]["values"] == ["none"]


def test_a_forged_result_is_data_or_refused() -> None:
    text = (
        "import os\n"
        "for fd in os.listdir('/dev/fd'):\n"
        "    try:\n"
        "        int(fd) > 2 and os.write(int(fd), b'[7]\\n')\n"
        "    except OSError: pass\n"
    )
    assert "the script must" in refused(text)


@dataclass
class Context:
    """The part of a request's context that the handler uses."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    allows_scripts: bool = True

    def blob(self, sha256: str) -> bytes:
        return self.blobs[sha256]


def answer(content: bytes, **settings: Any) -> dict[str, Any]:
    context: Any = Context({"abc": content}, **settings)
    return HANDLER.handle({"script": "abc"}, context)


def test_the_handler_returns_the_text_that_was_imported() -> None:
    assert HANDLER.kind == "script"
    assert answer(b"\xef\xbb\xbfnum_epochs = 2\r\n")["text"] == "num_epochs = 2\r\n"


def test_a_pool_without_permission_runs_nothing(tmp_path: Path) -> None:
    note = tmp_path / "ran"
    content = f"open({str(note)!r}, 'w')\n".encode()
    with pytest.raises(InvalidArgumentError, match="--allow-scripts"):
        answer(content, allows_scripts=False)
    assert not note.exists()
    answer(content)
    assert note.exists()


def test_what_is_no_script_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"line 2: script must be UTF-8 text, got the byte 0xff"):
        answer(b"x = 1\ny = '\xff'\n")
    with pytest.raises(InvalidArgumentError, match=r"script must have at most 1,048,576 bytes, got 1,048,577"):
        answer(b"#" * ((1 << 20) + 1))
    context: Any = Context()
    with pytest.raises(InvalidArgumentError, match=r"script must be the SHA-256 of an upload, got None"):
        HANDLER.handle({}, context)


def test_a_launch_reads_settings_of_the_form_before_those_of_the_script() -> None:
    context: Any = Context({"abc": SCRIPT.encode()})
    document = {"label_columns": ["income"], "feature_columns": [], "settings": {"num_epochs": 9, "seed": None}}
    source = load_source({"script": "abc"}, document, context)
    assert source.settings == {"feature_columns": ["age"], "label_columns": ["income"], "num_epochs": 9}
    assert source.trainer_fn({"lr": 0.5}) == 0.5
    assert source.search_space == Space({"lr": log_uniform(1e-4, 1e-1), "hidden": [16, 32], "layers": 2})
    with pytest.raises(InvalidArgumentError, match="label_columns must name the columns"):
        load_source({"script": "abc"}, {}, context)
    context.blobs["abc"] = b"num_epochs = 1"
    with pytest.raises(InvalidArgumentError, match=r"script must define trainer_fn\(params\)"):
        load_source({"script": "abc"}, document, context)


def test_a_function_of_a_script_keeps_its_state_in_one_process() -> None:
    text = "calls = []\ndef count():\n    calls.append(1)\n    return len(calls)\n"
    assert [ScriptFunction(text, "count")() for _ in range(2)] == [1, 2]
