"""Engine of torch: outputs on demand, nodes without a compiler, and workers that follow the driver's options."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from udfs.compiling import PipelineScoring, to_bytes
from udfs.compiling.torch import Engine, ProgramModule
from vista_spark import compile_pipeline


def _forest() -> tuple[RandomForestClassifier, Any]:
    table, y = load_breast_cancer(return_X_y=True)
    return RandomForestClassifier(5, max_depth=4, random_state=0).fit(table, y), table


@pytest.mark.parametrize("strategy", ["auto", "native"])
def test_a_node_without_native_code_runs_a_tensor_program(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    model, table = _forest()
    monkeypatch.setattr("udfs.compiling.torch._engine.has_native_code", lambda: False)
    engine = Engine(compile_pipeline(model).program, strategy)
    assert engine.plan.strategies == {"trees": "perfect"}
    for rows in (table, table[:1]):
        np.testing.assert_array_equal(engine.run(rows).outputs["predict_proba"], model.predict_proba(rows))


def test_a_missing_compiler_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_pipeline(_forest()[0])
    assert "no C++ compiler" not in compiled.explain()
    monkeypatch.setattr("udfs.compiling.torch._engine.has_native_code", lambda: False)
    explained = compile_pipeline(_forest()[0]).explain()
    assert "trees runs by perfect" in explained
    assert "no C++ compiler here" in explained


def test_only_requested_outputs_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = _forest()
    engine = Engine(compile_pipeline(model).program)
    assert set(engine.run(table, outputs=["apply"]).outputs) == {"apply"}
    monkeypatch.setattr("udfs.compiling.torch._leaves.LeavesModule.forward", lambda *_: pytest.fail("leaves numbered"))
    np.testing.assert_array_equal(engine.run(table, outputs=["predict"]).outputs["predict"], model.predict(table))


@pytest.mark.parametrize("worth", [0.0, 1e9])
def test_operators_run_on_one_thread_and_chunks_side_by_side(monkeypatch: pytest.MonkeyPatch, worth: float) -> None:
    """Threads of one operator wait for each other where other processes take the cores."""
    monkeypatch.setattr("udfs.compiling.torch._engine._WORTH_S", worth)
    table, y = load_breast_cancer(return_X_y=True)
    table = np.concatenate([table] * 10)
    table[[7, 2500, 5600], [3, 4, 5]] = np.nan
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table[10:500], y[10:500])
    seen: set[tuple[int, bool]] = set()
    compute = ProgramModule.compute

    def noted(*given: Any) -> Any:
        seen.add((torch.get_num_threads(), threading.current_thread() is threading.main_thread()))
        return compute(*given)

    monkeypatch.setattr(ProgramModule, "compute", noted)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        answer = Engine(compile_pipeline(model).program).run(table)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == ({(1, True), (1, False)} if worth == 0 else {(1, True)})
    assert np.flatnonzero(answer.bad).tolist() == [7, 2500, 5600]
    good = ~answer.bad
    np.testing.assert_allclose(answer.outputs["predict_proba"][good], model.predict_proba(table[good]), rtol=1e-9)


def test_a_worker_uses_the_options_of_the_driver() -> None:
    model, table = _forest()
    scoring = PipelineScoring(
        program=to_bytes(compile_pipeline(model).program),
        tree_strategy="traversal",
        reads=("table",),
        lists=True,
        columns=(("predict_proba", "probability"),),
        backend="auto",
    )
    score = pickle.loads(pickle.dumps(scoring)).open(1)  # written in this test
    plan = score.args[0].plan("float64")
    assert (plan.backend, dict(plan.strategies)) == ("auto", {"trees": "traversal"})
    batch = pa.record_batch([pa.array(table.tolist(), pa.list_(pa.float64()))], names=["table"])
    np.testing.assert_array_equal(np.array(score(batch).columns[0].to_pylist()), model.predict_proba(table))


def test_a_forked_process_starts_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.compiling.torch._native_trees._WORTH", 1)
    model, table = _forest()
    table = np.concatenate([table] * 4)
    engine = Engine(compile_pipeline(model).program, threads=2)
    expected = engine.run(table).outputs["predict_proba"]
    child = os.fork()
    if not child:
        same = np.array_equal(engine.run(table).outputs["predict_proba"], expected)
        os._exit(0 if same else 1)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)
