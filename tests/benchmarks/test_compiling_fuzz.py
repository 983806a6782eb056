"""A small sample of the fuzz of compiled pipelines, so that the fuzz itself cannot rot; ``make fuzz`` has the whole."""

from __future__ import annotations

import importlib
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

for module in ("torch", "lightgbm", "xgboost", "catboost", "skl2onnx", "onnxmltools", "onnxruntime"):
    pytest.importorskip(module)

if TYPE_CHECKING:
    from types import ModuleType

SEED, CASES = 1, 60


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    return importlib.import_module("benchmarks.compiling.fuzz")


@pytest.mark.extended
def test_a_fixed_sample_is_clean(fuzz: ModuleType) -> None:
    verdicts = [fuzz.run_case(SEED, case) for case in range(CASES)]
    assert [(one.case, one.model, one.text) for one in verdicts if one.kind == "wrong"] == []
    kinds = [one.kind for one in verdicts]
    assert kinds.count("equal") >= 0.9 * CASES
    facts = fuzz.report(SEED, verdicts, 1.0).facts
    assert facts["drawn"] == CASES
    assert facts["answers"]["rows"] > 100 * CASES


@pytest.mark.usefixtures("fuzz")
def test_another_class_is_found() -> None:
    """No rounding of the library's leads from one side of 3 to the other side of 5."""
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    rows = np.arange(12.0).reshape(6, 2)

    def differences(method: str, ours: Any, *, rounds: bool) -> list[str]:
        found = _fuzz_agreement.differences(
            method, rows, lambda x: x[:, 0] > 5, ours, narrow=False, rounds=rounds, otherwise=lambda: ours
        )
        return [one.kind for one in found]

    assert differences("predict", lambda x: x[:, 0] > 5, rounds=False) == []
    assert differences("predict", lambda x: x[:, 0] > 3, rounds=False) == ["value"]
    assert differences("predict", lambda x: x[:, 0] > 3, rounds=True) == ["value"]


@pytest.mark.usefixtures("fuzz")
def test_a_row_that_ours_alone_refuses_is_wrong() -> None:
    """But for what the table of classes says; where the library refuses it too, nothing is."""
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    rows = np.arange(12.0).reshape(6, 2)

    def refusing(why: str, *bad: float) -> Any:
        def method(x: Any) -> Any:
            if np.isin(x[:, 0], bad).any():
                raise ValueError(why)
            return x[:, 0]

        return method

    def kinds(library: Any, ours: Any) -> list[str]:
        found = _fuzz_agreement.differences(
            "predict", rows, library, ours, narrow=False, rounds=False, otherwise=lambda: ours
        )
        return [one.kind for one in found]

    both, partition = refusing("it has NaN", 4.0), refusing("numpy's partition puts first", 4.0)
    assert kinds(both, refusing("row 0 has NaN", 4.0)) == []
    assert kinds(both, refusing("row 0 has NaN", 4.0, 8.0)) == ["refused by ours alone"]
    assert kinds(refusing("none"), partition) == ["refused as documented"]
    assert kinds(both, refusing("none")) == ["not refused"]
    assert "refused by ours alone" not in _fuzz_agreement.HARMLESS


@pytest.mark.usefixtures("fuzz")
def test_no_answer_is_the_librarys_own_at_the_end_of_the_range() -> None:
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    def kinds(greatest: float, *, rounds: bool) -> list[str]:
        rows = np.full((2, 2), greatest)
        found = _fuzz_agreement.differences(
            "predict",
            rows,
            lambda x: x[:, 0] > 5,
            lambda x: x[:, 0] < 5,
            narrow=False,
            rounds=rounds,
            otherwise=lambda: lambda x: x[:, 0] < 5,
        )
        return [one.kind for one in found]

    assert kinds(1.7e308, rounds=True) == ["overflow"] * 2
    assert kinds(1e300, rounds=True) == ["value"] * 2
    assert kinds(1.7e308, rounds=False) == ["value"] * 2


@pytest.mark.usefixtures("fuzz")
def test_rounding_may_decide_whether_a_row_is_refused() -> None:
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    rows = np.array([[1.0], [5.0], [9.0]])

    def refusing(least: float) -> Any:
        def method(given: Any) -> Any:
            if (given >= least).any():
                raise ValueError("infinity")
            return given[:, 0]

        return method

    def by_chance(given: Any) -> Any:
        if (given == 5).any() and (len(given) > 1 or next(turns) % 3):
            raise ValueError("infinity")
        return refusing(9)(given)

    def kinds(library: Any, ours: Any, otherwise: Any = None, *, rounds: bool = True) -> list[str]:
        found = _fuzz_agreement.differences(
            "transform", rows, library, ours, narrow=False, rounds=rounds, otherwise=lambda: otherwise or ours
        )
        return [one.kind for one in found]

    turns = itertools.count()
    assert kinds(refusing(5), refusing(9)) == ["toss-up"]  # the library takes what is an ulp less
    assert kinds(refusing(4), refusing(9)) == ["not refused"]
    assert kinds(refusing(4), refusing(9), by_chance) == ["toss-up"]
    assert kinds(refusing(9), refusing(4)) == ["refused by ours alone"]
    assert kinds(refusing(9), refusing(4), by_chance) == ["toss-up"]
    assert kinds(refusing(5), refusing(9), rounds=False) == ["not refused"]


@pytest.mark.usefixtures("fuzz")
@pytest.mark.parametrize("frame", [False, True])
def test_a_table_of_float32_ends_where_float32_does(frame: bool) -> None:
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    def kinds(dtype: type[np.floating[Any]]) -> list[str]:
        table = np.full((2, 2), 3e38, dtype)
        table[1] = 1
        rows = pd.DataFrame(table) if frame else table

        def library(given: Any) -> Any:
            if (np.asarray(given) > 1e38).any():
                raise ValueError("too large")
            return np.asarray(given)[:, 0]

        found = _fuzz_agreement.differences(
            "transform",
            rows,
            library,
            lambda given: np.asarray(given)[:, 0],
            narrow=_fuzz_agreement.is_float32(rows),
            rounds=True,
            otherwise=lambda: lambda given: np.asarray(given)[:, 0],
        )
        return [one.kind for one in found]

    assert kinds(np.float32) == ["overflow"]
    assert kinds(np.float64) == ["not refused"]


@pytest.mark.usefixtures("fuzz")
def test_a_library_that_fails_on_float32_alone_is_held_to_its_float64() -> None:
    from benchmarks.compiling import _fuzz_agreement  # noqa: PLC0415 - on the path of the fixture alone

    rows = np.array([[1.0, 2.0], [7.0, 8.0]], np.float32)

    def library(table: Any) -> Any:
        if table.dtype == np.float32 and (table > 5).any():
            raise ValueError("Out of bounds")
        return table[:, 0] * 2

    def kinds(ours: Any) -> list[str]:
        found = _fuzz_agreement.differences(
            "transform", rows, library, ours, narrow=True, rounds=True, otherwise=lambda: ours
        )
        return [one.kind for one in found]

    assert kinds(lambda x: x[:, 0] * 2) == ["library fails on the table"]
    assert kinds(lambda x: np.where(x[:, 0] > 5, 0, x[:, 0] * 2)) == ["not refused"]
