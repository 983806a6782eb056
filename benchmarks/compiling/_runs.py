"""One model by its library, by ONNX Runtime and by each way of a compiled pipeline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.compiling._models import drawn
from benchmarks.compiling._onnx import onnx_session
from benchmarks.compiling._times import Spent, spent
from optimizer.compiling import strategies_of
from udfs.compiling.torch import machine_costs
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.compiling._models import Case

__all__ = ["Outcome", "run_case", "torch_alone"]


class Outcome(NamedTuple):
    """What a model took.

    Parameters
    ----------
    name : str
    seconds : dict of str to Spent
        At all rows, by ``library``, ``runtime`` and way: ``torch``, ``native``, ``kernel`` and ``auto``.
    single : dict of str to Spent
        The same of one row.
    first_s : dict of str to float
        By the clock, the first table of each way: what is built then, or loaded.
    predicted : dict of str to float
        Predicted seconds of CPU, of ``auto`` and ``kernel``.
    differing : int
        Rows whose class is not the library's.
    gap : float
        The greatest difference of a probability.
    """

    name: str
    seconds: dict[str, Spent]
    single: dict[str, Spent]
    first_s: dict[str, float]
    predicted: dict[str, float]
    differing: int
    gap: float


def run_case(case: Case, rows: int, threads: int, *, kernels: bool, repeats: int = 5) -> Outcome:
    """Fit a model, and time its probabilities of drawn rows, and of one."""
    table, labels = drawn(2 * rows)
    model = case.model(threads).fit(table[:rows], labels[:rows])
    given = np.ascontiguousarray(table[rows:])
    session = onnx_session(model, threads)
    ways = {
        "torch": torch_alone(model),
        "native": {"backend": "eager", "tree_strategy": "native"},
        **({"kernel": {"backend": "inductor"}} if kernels else {}),
        "auto": {},
    }
    compiled = {way: compile_pipeline(model, threads=threads, **options) for way, options in ways.items()}
    first_s = {way: _clocked(one.predict_proba, given) for way, one in compiled.items()}
    calls: dict[str, Any] = {"library": model.predict_proba, "runtime": lambda x: session.run(None, {"x": x})}
    calls |= {way: one.predict_proba for way, one in compiled.items()}
    seconds = {name: _timed(call, given, repeats) for name, call in calls.items()}
    single = {name: _timed(call, given[:1], 10 * repeats) for name, call in calls.items()}
    machine_costs.cache_clear()  # as a next process would predict: with what kernels have taken
    plan = compile_pipeline(model).plan
    predicted = {"auto": plan.eager_seconds(rows), **({"kernel": plan.kernel_seconds(rows)} if kernels else {})}
    found, truth = compiled["auto"].predict_proba(given), model.predict_proba(given)
    differing = int((compiled["auto"].predict(given) != model.predict(given)).sum())
    return Outcome(case.name, seconds, single, first_s, predicted, differing, float(np.abs(found - truth).max()))


def torch_alone(model: Any) -> dict[str, Any]:
    """Options of ``compile_pipeline`` for tensor operators alone, by the strategy of Hummingbird's heuristics."""
    heuristic = next(iter(strategies_of(compile_pipeline(model).program).values()))
    return {"backend": "eager", "tree_strategy": heuristic}


def _clocked(call: Any, rows: NDArray[np.float32]) -> float:
    began = time.perf_counter()
    call(rows)
    return time.perf_counter() - began


def _timed(call: Any, rows: NDArray[np.float32], repeats: int) -> Spent:
    return spent(lambda: call(rows), repeats)
