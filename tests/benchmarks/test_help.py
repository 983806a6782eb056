"""Every benchmark starts: a module that no longer imports fails here, not on the day its figures are needed."""

from __future__ import annotations

import runpy
import sys

import pytest
from places import ROOT

pytest.importorskip("torch")

PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in (ROOT / "benchmarks").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text()
    and (path.stem == "__main__" or not path.stem.startswith("_"))
    and path.parent.name != "harness"
)


def test_all_systems_have_programs() -> None:
    systems = {program.split(".")[1] for program in PROGRAMS}
    assert systems == {
        "adaptation",
        "cascades",
        "compiling",
        "debugging",
        "grouping",
        "hopper",
        "hybrids",
        "occlusion",
        "procedures",
        "serving",
        "specialization",
        "stacking",
        "steering",
        "transfer",
        "variants",
        "video",
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_help(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if program == "benchmarks.serving.ray_serve":
        pytest.importorskip("ray")
    for name in (program, f"{program}.__main__"):  # another test of this process may have imported it
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    assert stopped.value.code == 0
    assert "--json" in capsys.readouterr().out
