"""Kernels that Inductor builds against eager programs: the same bits; and nodes where none can be built."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from udfs.compiling.torch import Engine, _ahead
from udfs.compiling.torch._kernels import LARGE, SMALL, _cut
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from pathlib import Path


def test_a_table_is_cut_into_chunks_that_cover_it_once() -> None:
    for rows in (1, 16, 17, 256, 257, 1024, 1025, 1279, 1281, 5000):
        spans = _cut(rows, small=True)
        starts = [start for start, _ in spans]
        assert starts[0] == 0
        assert all(start + size == after for (start, size), after in zip(spans, starts[1:], strict=False))
        assert 0 <= spans[-1][0] + spans[-1][1] - rows < spans[-1][1]
        assert {size for _, size in spans} <= {SMALL, LARGE}


def test_without_a_compiler_it_runs_eagerly_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(table, y)
    monkeypatch.setenv("CXX", "no-such-compiler")
    _ahead.has_compiler.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            answers = [Engine(compile_pipeline(model).program, backend="inductor").run(table) for _ in range(2)]
    finally:
        _ahead.has_compiler.cache_clear()
    assert [record.message for record in caplog.records if "no C++ compiler" in record.message] != []
    assert sum("no C++ compiler" in record.message for record in caplog.records) == 1
    np.testing.assert_array_equal(answers[1].outputs["predict_proba"], model.predict_proba(table))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: apt-get install g++")
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(40, max_depth=9, random_state=0),
        GradientBoostingClassifier(n_estimators=30, max_depth=6),
        HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=60),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_kernel_gives_the_bits_of_the_library_and_is_kept(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    table, y = load_breast_cancer(return_X_y=True)
    holes = isinstance(model, HistGradientBoostingClassifier)
    if holes:
        table[::7, ::3] = np.nan
    model.fit(table, y)
    program = compile_pipeline(model).program
    rows = np.concatenate([table, table, table[:31]])  # a large chunk, and a rest of small ones
    engine, eager = Engine(program, backend="inductor"), Engine(program)
    found, truth = engine.run(rows), eager.run(rows)
    assert list(tmp_path.glob("compiled-*/*.pt2"))
    np.testing.assert_array_equal(found.outputs["predict"], model.predict(rows))
    name = "predict_proba" if "decision_function" not in found.outputs else "decision_function"
    np.testing.assert_array_equal(found.outputs[name], truth.outputs[name])
    built = sorted(path.name for path in tmp_path.glob("compiled-*/*.pt2"))
    monkeypatch.setattr("udfs.compiling.torch._kernels.build", lambda *_: pytest.fail("built again"))
    again = Engine(program, backend="inductor").run(rows)
    np.testing.assert_array_equal(again.outputs[name], truth.outputs[name])
    assert sorted(path.name for path in tmp_path.glob("compiled-*/*.pt2")) == built
