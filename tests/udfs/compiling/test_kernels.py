"""Kernels that Inductor builds against eager programs: the same bits; and nodes where none can be built."""

from __future__ import annotations

import dataclasses
import logging
import math
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimizer.compiling import Costs, UnsupportedOperatorError, make_plan, strategies_of
from udfs.compiling import PipelineScoring, Scorer, to_bytes
from udfs.compiling.torch import Engine, ProgramModule, _ahead, _calibrate, _compiler
from udfs.compiling.torch._kernels import LARGE, SMALL, _cut
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.compiling import Program


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
    _compiler.compiler.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            answers = [Engine(compile_pipeline(model).program, backend="inductor").run(table) for _ in range(2)]
    finally:
        _compiler.compiler.cache_clear()
    assert [record.message for record in caplog.records if "no C++ compiler" in record.message] != []
    assert sum("no C++ compiler" in record.message for record in caplog.records) == 1
    np.testing.assert_array_equal(answers[1].outputs["predict_proba"], model.predict_proba(table))


def _forest() -> tuple[RandomForestClassifier, Any]:
    table, y = load_breast_cancer(return_X_y=True)
    return RandomForestClassifier(5, max_depth=4, random_state=0).fit(table, y), table


def test_only_what_is_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = _forest()
    engine = Engine(compile_pipeline(model).program)
    assert set(engine.run(table, outputs=["apply"]).outputs) == {"apply"}
    monkeypatch.setattr("udfs.compiling.torch._leaves.LeavesModule.forward", lambda *_: pytest.fail("leaves numbered"))
    np.testing.assert_array_equal(engine.run(table, outputs=["predict"]).outputs["predict"], model.predict(table))


class _Built:
    """Stands for a compiler: kernels that are the eager program."""

    def __init__(self, program: Program, *, gains: bool) -> None:
        self.sizes: list[int] = []
        self.gains, self.module = gains, ProgramModule(program, strategies_of(program, "traversal"))

    def __call__(self, _program: Any, _ways: Any, rows: int, _dtype: Any, example: Any) -> _ahead.Kept:
        assert example.shape[1] == self.module.program.width
        self.sizes.append(rows)
        return _ahead.Kept(self.module, self.gains, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("gains", [True, False])
def test_auto_builds_once_that_would_have_paid_and_keeps_what_is_faster(
    monkeypatch: pytest.MonkeyPatch, *, gains: bool
) -> None:
    model, table = _forest()
    program = compile_pipeline(model).program.only(["predict", "predict_proba"])
    built = _Built(program, gains=gains)
    monkeypatch.setattr("udfs.compiling.torch._kernels.build", built)
    monkeypatch.setattr("udfs.compiling.torch._kernels.kept", lambda *_: None)
    monkeypatch.setattr("udfs.compiling.torch._engine.compiler", lambda: "c++")
    costs = dataclasses.replace(Costs(), native_call_s=math.inf, native_row_s=math.inf)
    saved = make_plan(program).eager_seconds(len(table)) - make_plan(program).kernel_seconds(len(table))
    plan = make_plan(program, backend="auto", costs=dataclasses.replace(costs, build_s=2.5 * saved))
    engine = Engine(program, plan=plan, threads=1)
    truth = model.predict_proba(table)
    seen = []
    for _ in range(5):
        np.testing.assert_array_equal(engine.run(table).outputs["predict_proba"], truth)
        seen.append(len(built.sizes))
    assert seen[0] == 0
    assert seen[-1] == 1
    assert seen == sorted(seen)
    assert built.sizes == [LARGE]


@pytest.mark.parametrize("rows", [1, 16, 17, 300, 1024, 1500, 2049])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_of_kernels_come_back_in_their_order(monkeypatch: pytest.MonkeyPatch, rows: int, threads: int) -> None:
    model, table = _forest()
    program = compile_pipeline(model).program.only(["predict_proba"])
    monkeypatch.setattr("udfs.compiling.torch._kernels.build", _Built(program, gains=True))
    monkeypatch.setattr("udfs.compiling.torch._kernels.kept", lambda *_: None)
    monkeypatch.setattr("udfs.compiling.torch._engine.compiler", lambda: "c++")
    given = np.resize(table, (rows, table.shape[1]))
    found = Engine(program, backend="inductor", threads=threads).run(given).outputs["predict_proba"]
    np.testing.assert_array_equal(found, model.predict_proba(given))


def test_a_kernel_that_gives_other_numbers_is_no_kernel() -> None:
    model, table = _forest()
    program = compile_pipeline(model).program.only(["predict_proba"])
    module = _ahead._Flat(program, strategies_of(program, "traversal"))
    sample = _ahead._of_rows(table, 32, torch.float64)

    def off(rows: torch.Tensor) -> Any:
        outputs, bad = ProgramModule(program, strategies_of(program, "traversal"))(rows)
        return {name: one + 1e-9 for name, one in outputs.items()}, bad

    with pytest.raises(UnsupportedOperatorError, match="predict_proba differs from the eager program's"):
        _ahead._check(off, module, sample)  # type: ignore[arg-type]


def test_a_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    calls = []
    costs = dataclasses.replace(Costs(), walk_s=1e-7)
    monkeypatch.setattr(_calibrate, "calibrate", lambda: calls.append(1) or costs)
    _calibrate.machine_costs.cache_clear()
    try:
        assert _calibrate.machine_costs() == costs
        _calibrate.machine_costs.cache_clear()
        assert _calibrate.machine_costs() == costs
    finally:
        _calibrate.machine_costs.cache_clear()
    assert calls == [1]


@pytest.mark.extended
def test_costs_of_this_machine_are_those_of_some_machine() -> None:
    costs = _calibrate.calibrate()
    assert 0 < costs.call_s < 1e-3
    assert 0 < costs.walk_s < 1e-6


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: apt-get install g++")
def test_a_kernel_gives_the_bits_of_the_library_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _built_and_kept(RandomForestClassifier(3, max_depth=7, random_state=0), tmp_path, monkeypatch)


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
def test_kernels_of_more_models_give_the_bits_of_the_library(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _built_and_kept(model, tmp_path, monkeypatch)


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: apt-get install g++")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_of_a_rewritten_program_gives_its_bits_and_refuses_its_rows(
    dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    table, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(3, max_depth=5, random_state=0)
    model = make_pipeline(StandardScaler(), SelectKBest(k=4), forest).fit(table, y)
    rows = table.astype(dtype)
    rows[5, 0] = rows[7, 20] = np.nan
    program = compile_pipeline(model).program
    found, truth = (Scorer(program, backend=backend) for backend in ("inductor", "eager"))
    assert any("check moved" in one for one in found.plan(rows.dtype.name).rewrites)
    for method in ("predict", "predict_proba"):
        ours, theirs = found.run(rows, outputs=(method,)), truth.run(rows, outputs=(method,))
        assert np.flatnonzero(ours.bad).tolist() == np.flatnonzero(theirs.bad).tolist() == [5, 7]
        np.testing.assert_array_equal(ours.outputs[method][~ours.bad], theirs.outputs[method][~ours.bad])
    assert len(list(tmp_path.glob("compiled-*/*.pt2"))) == 1


def _built_and_kept(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path))
    table, y = load_breast_cancer(return_X_y=True)
    holes = isinstance(model, HistGradientBoostingClassifier)
    if holes:
        table[::7, ::3] = np.nan
    model.fit(table, y)
    program = compile_pipeline(model).program
    rows = np.concatenate([table, table, table[:11]])  # a large chunk, and a rest of small ones
    engine, eager = Engine(program, backend="inductor"), Engine(program)
    names = [name for name in program.outputs if name != "apply"]
    found, truth = engine.run(rows, outputs=names), eager.run(rows)
    assert list(tmp_path.glob("compiled-*/*.pt2"))
    np.testing.assert_array_equal(found.outputs["predict"], model.predict(rows))
    name = "predict_proba" if "decision_function" not in found.outputs else "decision_function"
    np.testing.assert_array_equal(found.outputs[name], truth.outputs[name])
    built = sorted(path.name for path in tmp_path.glob("compiled-*/*.pt2"))
    monkeypatch.setattr("udfs.compiling.torch._kernels.build", lambda *_: pytest.fail("built again"))
    again = Engine(program, backend="inductor").run(rows, outputs=names)
    np.testing.assert_array_equal(again.outputs[name], truth.outputs[name])
    assert sorted(path.name for path in tmp_path.glob("compiled-*/*.pt2")) == built


def test_a_worker_runs_as_the_driver_chose() -> None:
    model, table = _forest()
    costs = dataclasses.replace(Costs(), walk_s=1, perfect_s=1, split_s=1, native_split_s=1, strike_s=1e-12)
    scoring = PipelineScoring(
        program=to_bytes(compile_pipeline(model).program),
        tree_strategy="auto",
        reads=("table",),
        lists=True,
        columns=(("predict_proba", "probability"),),
        backend="auto",
        costs=tuple(costs.document().items()),
    )
    score = pickle.loads(pickle.dumps(scoring)).open(1)  # noqa: S301 - our own
    plan = score.args[0].plan("float64")
    assert (plan.backend, dict(plan.strategies)) == ("auto", {"trees": "bitvector"})
    batch = pa.record_batch([pa.array(table.tolist(), pa.list_(pa.float64()))], names=["table"])
    np.testing.assert_array_equal(np.array(score(batch).columns[0].to_pylist()), model.predict_proba(table))
