"""Programs as bytes: they come back as they were, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.compiling import INPUT, Arithmetic, Builder, Output, Program, ProgramError
from udfs.compiling import from_bytes, to_bytes


@pytest.fixture
def program() -> Program:
    build = Builder(2, ["a", "b"])
    return build.program({"transform": Output(build.add(Arithmetic("divide", np.array([2.0, 4.0])), INPUT))})


def test_a_program_comes_back(program: Program) -> None:
    again = from_bytes(to_bytes(program))
    assert again.digest == program.digest
    assert again.explain() == program.explain()


@pytest.mark.parametrize("place", [-1, -9, 40], ids=["array", "another", "header"])
def test_a_flipped_byte_is_found(program: Program, place: int) -> None:
    data = bytearray(to_bytes(program))
    data[place] ^= 1
    with pytest.raises(ProgramError):
        from_bytes(bytes(data))


@pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"\xff" * 40], ids=["nothing", "pickle", "noise"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProgramError, match="data must be a compiled pipeline"):
        from_bytes(data)
