"""What a compiled model must have in common with the model: methods, shapes, classes, values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark import CompiledPipeline

__all__ = ["METHODS", "agree"]

METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "transform",
    "apply",
)


def agree(model: Any, table: NDArray[Any], *, without: tuple[str, ...] = ()) -> CompiledPipeline:
    """Compile, and hold every method of the model to the library.

    Parameters
    ----------
    without : tuple of str
        Methods that need not be compiled.
    """
    compiled = compile_pipeline(model)
    there = {method for method in METHODS if hasattr(model, method)}
    assert there - set(without) <= set(compiled.outputs) <= there
    for method in compiled.outputs:
        with np.errstate(divide="ignore"):
            truth = getattr(model, method)(table)
        ours = getattr(compiled, method)(table)
        assert isinstance(ours, list) == isinstance(truth, list), method
        pairs = zip(ours, truth, strict=True) if isinstance(truth, list) else [(ours, truth)]
        for own, given in pairs:
            same(own, np.asarray(given), method)
    return compiled


def same(ours: NDArray[Any], truth: NDArray[Any], method: str) -> None:
    assert ours.shape == truth.shape, method
    if truth.dtype.kind != "f":
        np.testing.assert_array_equal(ours, truth, err_msg=method)
        return
    tolerance = 1e-5 if truth.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=1e-3 * tolerance, err_msg=method)
