"""One model by its library, by ONNX Runtime and by each engine of a compiled pipeline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from _compiling_models import drawn, onnx_session
from _compiling_times import Spent, spent

from udfs.compiling.torch import machine_costs
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from _compiling_models import Case
    from numpy.typing import NDArray

__all__ = ["Outcome", "run_case"]

_BACKENDS = ("eager", "inductor", "auto")
_SEED = 1


class Outcome(NamedTuple):
    """What a model took.

    Parameters
    ----------
    name : str
    seconds : dict of str to Spent
        At all rows, by ``library``, ``runtime`` and backend.
    single : dict of str to Spent
        The same of one row; empty where it was not measured.
    build_s : float
        The first run of the kernel: building, or loading what the node has kept.
    predicted : dict of str to float
        Predicted seconds of CPU, by backend.
    differing : int
        Rows whose class is not the library's.
    gap : float
        The greatest difference of a probability.
    """

    name: str
    seconds: dict[str, Spent]
    single: dict[str, Spent]
    build_s: float
    predicted: dict[str, float]
    differing: int
    gap: float


def run_case(case: Case, rows: int, threads: int, *, single: bool, repeats: int = 5) -> Outcome:
    """Fit a model, and time its probabilities of drawn rows."""
    table, labels = drawn(2 * rows)
    model = case.model(threads).fit(table[:rows], labels[:rows])
    given = np.ascontiguousarray(table[rows:])
    session = onnx_session(model, threads)
    compiled = {backend: compile_pipeline(model, backend=backend, threads=threads) for backend in _BACKENDS}
    began = time.perf_counter()
    found = compiled["inductor"].predict_proba(given)
    build_s = time.perf_counter() - began
    calls: dict[str, Any] = {"library": model.predict_proba, "runtime": lambda x: session.run(None, {"x": x})}
    calls |= {backend: one.predict_proba for backend, one in compiled.items()}
    seconds = {name: _timed(call, given, 3 if name == "eager" else repeats) for name, call in calls.items()}
    of_one: dict[str, Spent] = {}
    if single:
        compiled["inductor"].predict_proba(given[:1])  # builds
        compiled["auto"] = compile_pipeline(model, threads=threads)  # finds what was built
        calls["auto"] = compiled["auto"].predict_proba
        of_one = {name: _timed(call, given[:1], repeats) for name, call in calls.items()}
    machine_costs.cache_clear()  # as a next process would predict: with what kernels have taken
    plan = compile_pipeline(model).plan
    truth = model.predict_proba(given)
    return Outcome(
        case.name,
        seconds,
        of_one,
        build_s,
        {"eager": plan.eager_seconds(rows), "inductor": plan.kernel_seconds(rows)},
        int((compiled["inductor"].predict(given) != model.predict(given)).sum()),
        float(np.abs(found - truth).max()),
    )


def _timed(call: Any, rows: NDArray[np.float32], repeats: int) -> Spent:
    return spent(lambda: call(rows), repeats)
