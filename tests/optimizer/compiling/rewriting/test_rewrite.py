"""Rewrites of a program: what they report, and the original that they leave."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.compiling import INPUT, Arithmetic, Builder, Output, ProgramError, Select, rewrite


def test_a_rewrite_reports_changes_and_leaves_the_original() -> None:
    build = Builder(3, ["a", "b", "c"])
    scaled = build.add(Arithmetic("divide", np.array([2.0, 4.0, 8.0])), INPUT)
    program = build.program({"transform": Output(build.add(Select(np.array([2])), scaled))})
    before = program.digest
    done = rewrite(program, "float64")
    assert program.digest == before
    assert program.numeric == {0, 1, 2}
    assert done.program.numeric == {2}
    assert "input is read without a, b" in done.explain()
    assert rewrite(done.program, "float64").applied == ()


def test_a_table_of_whole_numbers_is_refused() -> None:
    build = Builder(1)
    program = build.program({"transform": Output(build.add(Arithmetic("add", np.ones(1)), INPUT))})
    with pytest.raises(ProgramError, match="int64"):
        rewrite(program, "int64")
