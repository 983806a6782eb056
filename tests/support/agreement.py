"""Compiled models held to the library: every method, shape and type of answer, class and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark import CompiledPipeline

__all__ = ["METHODS", "agree", "answers_agree"]

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform")


def agree(model: Any, *tables: NDArray[Any], without: tuple[str, ...] = (), near: float = 1e-8) -> CompiledPipeline:
    """Compile a fitted model, and compare every method it has on some tables.

    Parameters
    ----------
    without : tuple of str
        Methods that the library refuses for this model, or that are not compiled.
    near : float
        How near a value of float64 must be, relative to itself or to the greatest; of float32, 1e-5.
    """
    compiled = compile_pipeline(model)
    assert set(compiled.outputs) == {method for method in METHODS if hasattr(model, method)} - set(without)
    for table in tables:
        for method in compiled.outputs:
            with np.errstate(divide="ignore", under="ignore", over="ignore"):
                truth = getattr(model, method)(table)
            tolerance = 1e-5 if table.dtype == np.float32 else near
            answers_agree(getattr(compiled, method)(table), truth, method, tolerance)
    return compiled


def answers_agree(ours: Any, truth: Any, method: str, tolerance: float) -> None:
    """Compare an array, or a list of them: classes are equal, values near."""
    assert isinstance(ours, list) == isinstance(truth, list), method
    pairs = zip(ours, truth, strict=True) if isinstance(truth, list) else [(ours, truth)]
    for own, given in pairs:
        assert own.shape == given.shape, method
        assert own.dtype.kind == given.dtype.kind, method
        if given.dtype.kind != "f":
            np.testing.assert_array_equal(own, given, err_msg=method)
            continue
        finite = np.abs(given[np.isfinite(given)]).max(initial=1.0)
        np.testing.assert_allclose(own, given, rtol=tolerance, atol=tolerance * finite, err_msg=method)
