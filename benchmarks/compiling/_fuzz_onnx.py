"""Fitted models as ONNX: what skl2onnx, onnxmltools and CatBoost write, and what onnxruntime answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["OnnxView", "to_onnx"]


def to_onnx(model: Any, width: int) -> Any:
    """Convert a fitted model that takes a table of numbers; whatever its converter raises, it raises."""
    from onnxmltools import convert_lightgbm, convert_xgboost  # noqa: PLC0415 - only where it is drawn
    from onnxmltools.convert.common.data_types import FloatTensorType  # noqa: PLC0415

    name = type(model).__name__
    types = [("input", FloatTensorType([None, width]))]
    if name.startswith("LGBM"):
        return convert_lightgbm(model, initial_types=types, zipmap=False)
    if name.startswith("XGB"):
        return convert_xgboost(model, initial_types=types)
    if name.startswith("CatBoost"):
        import onnx  # noqa: PLC0415

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            model.save_model(str(path), format="onnx")
            return onnx.load(str(path))
    from skl2onnx import convert_sklearn  # noqa: PLC0415
    from skl2onnx.common.data_types import FloatTensorType as Floats  # noqa: PLC0415

    classifies = getattr(model, "_estimator_type", None) == "classifier" or hasattr(model, "classes_")
    options = {id(model): {"zipmap": False}} if classifies else None
    return convert_sklearn(model, initial_types=[("input", Floats([None, width]))], options=options)


class OnnxView:
    """A graph under onnxruntime, its results by the names that a compiled pipeline has for them."""

    def __init__(self, proto: Any, methods: Sequence[str]) -> None:
        import onnxruntime  # noqa: PLC0415 - only where it is drawn

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        self._session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        self._input = self._session.get_inputs()[0].name
        self._methods = list(methods)

    def __getattr__(self, name: str) -> Callable[[Any], NDArray[Any]]:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(name)
        place = self._methods.index(name)

        def run(rows: Any) -> NDArray[Any]:
            table = np.asarray(rows, np.float32)
            answer = self._session.run(None, {self._input: np.ascontiguousarray(table)})[place]
            return _table(answer)

        return run


def _table(answer: Any) -> NDArray[Any]:
    """Rows of numbers, of a list of maps too."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer])
    return np.asarray(answer)
