"""Times of one model: its library, ONNX Runtime, and the compiled pipeline with and without native code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.compiling._models import drawn
from benchmarks.compiling._onnx import onnx_session
from benchmarks.compiling._times import Spent, spent
from optimizer.compiling import choose_strategies
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.compiling._models import Case

__all__ = ["Outcome", "run_case", "torch_alone"]


class Outcome(NamedTuple):
    """Times and agreement of one model.

    Parameters
    ----------
    name : str
        Name of the model.
    seconds : dict of str to Spent
        Seconds for all rows, by side: ``library``, ``runtime``, ``torch`` and ``auto``.
    single : dict of str to Spent
        Seconds for one row, by side.
    first_s : dict of str to float
        Wall-clock seconds of the first table, by compiled side: native code is built then, or loaded.
    differing : int
        Rows whose class differs from the library's.
    gap : float
        Greatest difference of a probability.
    """

    name: str
    seconds: dict[str, Spent]
    single: dict[str, Spent]
    first_s: dict[str, float]
    differing: int
    gap: float


def run_case(case: Case, rows: int, threads: int, repeats: int = 5) -> Outcome:
    """Fit a model, and time its probabilities for drawn rows, and for one row."""
    table, labels = drawn(2 * rows)
    model = case.model(threads).fit(table[:rows], labels[:rows])
    given = np.ascontiguousarray(table[rows:])
    session = onnx_session(model, threads)
    ways: dict[str, dict[str, Any]] = {"torch": torch_alone(model), "auto": {}}
    compiled = {way: compile_pipeline(model, threads=threads, **options) for way, options in ways.items()}
    first_s = {way: _clocked(one.predict_proba, given) for way, one in compiled.items()}
    calls: dict[str, Any] = {"library": model.predict_proba, "runtime": lambda x: session.run(None, {"x": x})}
    calls |= {way: one.predict_proba for way, one in compiled.items()}
    seconds = {name: _timed(call, given, repeats) for name, call in calls.items()}
    single = {name: _timed(call, given[:1], 10 * repeats) for name, call in calls.items()}
    found, truth = compiled["auto"].predict_proba(given), model.predict_proba(given)
    differing = int((compiled["auto"].predict(given) != model.predict(given)).sum())
    return Outcome(case.name, seconds, single, first_s, differing, float(np.abs(found - truth).max()))


def torch_alone(model: Any) -> dict[str, Any]:
    """Return options of ``compile_pipeline`` for tensor operators alone, by Hummingbird's heuristics."""
    strategies = choose_strategies(compile_pipeline(model).program, native=False)
    return {"backend": "eager", "tree_strategy": next(iter(strategies.values()))}


def _clocked(call: Any, rows: NDArray[np.float32]) -> float:
    began = time.perf_counter()
    call(rows)
    return time.perf_counter() - began


def _timed(call: Any, rows: NDArray[np.float32], repeats: int) -> Spent:
    return spent(lambda: call(rows), repeats)
