"""Ensembles of trees on real tables, by four sides: in batches, a record at a time, by batch size; and converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

from benchmarks.compiling._onnx import onnx_session
from benchmarks.compiling._runs import torch_alone
from benchmarks.compiling._sides import LIBRARY, SIDES, method_of
from benchmarks.compiling._times import Spent, first_answer, spent
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from benchmarks.compiling._data import Split

    Call = Callable[[NDArray[np.float32]], NDArray[Any]]

__all__ = ["BATCH", "KINDS", "Converted", "batched", "by_size", "convert", "fitted", "mismatches", "singly"]

BATCH = 10_000
"""Records at a time in Table 5.7."""

_DEPTH = 8
_TOLERANCE = 1e-5


def _forest(model: Any) -> Callable[[int, int], Any]:
    return lambda trees, threads: model(trees, max_depth=_DEPTH, n_jobs=threads, random_state=0)


def _lightgbm(model: Any) -> Callable[[int, int], Any]:
    shape = {"max_depth": _DEPTH, "num_leaves": 2**_DEPTH}
    return lambda trees, threads: model(n_estimators=trees, n_jobs=threads, random_state=0, verbose=-1, **shape)


def _xgboost(model: Any) -> Callable[[int, int], Any]:
    return lambda trees, threads: model(n_estimators=trees, max_depth=_DEPTH, n_jobs=threads, random_state=0)


KINDS: Mapping[str, tuple[Callable[[int, int], Any], Callable[[int, int], Any]]] = {
    "forest": (_forest(RandomForestClassifier), _forest(RandomForestRegressor)),
    "lightgbm": (_lightgbm(LGBMClassifier), _lightgbm(LGBMRegressor)),
    "xgboost": (_xgboost(XGBClassifier), _xgboost(XGBRegressor)),
}
"""Of trees and threads, a model for classes and one for values: depth 8, as in the thesis."""


class Converted(NamedTuple):
    """A model as each side calls it.

    Parameters
    ----------
    calls : dict of str to callable
        From rows to probabilities or values, by side.
    converted_s : dict of str to float
        By the clock, from the fitted model to the first answers; not of the library.
    """

    calls: dict[str, Call]
    converted_s: dict[str, float]


def fitted(kind: str, data: Split, trees: int, threads: int) -> Any:
    """Fit a model of a kind."""
    for_classes, for_values = KINDS[kind]
    return (for_classes if data.classes else for_values)(trees, threads).fit(data.train, data.labels)


def convert(model: Any, rows: NDArray[np.float32], threads: int) -> Converted:
    """Convert a fitted model for each side, and let it answer `rows`."""
    method = method_of(model)

    def runtime() -> Call:
        session = onnx_session(model, threads)
        output = session.get_outputs()[-1].name
        return lambda given: session.run([output], {"x": given})[0]

    def compiled(options: dict[str, Any]) -> Callable[[], Call]:
        return lambda: getattr(compile_pipeline(model, threads=threads, **options), method)

    makers = (runtime, compiled(torch_alone(model)), compiled({}))
    found = {side: first_answer(make, rows) for side, make in zip(SIDES[1:], makers, strict=True)}
    calls = {LIBRARY: getattr(model, method)} | {side: call for side, (call, _) in found.items()}
    return Converted(calls, {side: seconds for side, (_, seconds) in found.items()})


def batched(calls: Mapping[str, Call], rows: NDArray[np.float32]) -> dict[str, Spent]:
    """Time each side on all rows, 10,000 at a time."""
    return {side: spent(lambda call=call: _answers(call, rows, BATCH)) for side, call in calls.items()}


def singly(calls: Mapping[str, Call], rows: NDArray[np.float32]) -> dict[str, Spent]:
    """Time each side on one record after another and return the mean per record."""
    found = {side: spent(lambda call=call: _answers(call, rows, 1)) for side, call in calls.items()}
    return {side: Spent(own.cpu / len(rows), own.wall / len(rows)) for side, own in found.items()}


def by_size(calls: Mapping[str, Call], rows: NDArray[np.float32], sizes: tuple[int, ...]) -> list[dict[str, Spent]]:
    """Time one call of each side on batches of some sizes, with repeated rows, and return the mean per row."""
    found = []
    for size in sizes:
        given = np.resize(rows, (size, rows.shape[1]))
        taken = {side: spent(lambda call=call, given=given: call(given)) for side, call in calls.items()}
        found.append({side: Spent(own.cpu / size, own.wall / size) for side, own in taken.items()})
    return found


def mismatches(calls: Mapping[str, Call], rows: NDArray[np.float32]) -> dict[str, tuple[int, float]]:
    """Count the rows where a side is off by more than 1e-5, relative plus absolute, and return the largest error."""
    truth = calls[LIBRARY](rows).reshape(len(rows), -1)
    found = {}
    for side in SIDES[1:]:
        own = calls[side](rows).reshape(truth.shape)
        close = np.isclose(own, truth, rtol=_TOLERANCE, atol=_TOLERANCE).all(1)
        found[side] = (int((~close).sum()), float(np.abs(own - truth).max()))
    return found


def _answers(call: Call, rows: NDArray[np.float32], size: int) -> None:
    for start in range(0, len(rows), size):
        call(rows[start : start + size])
