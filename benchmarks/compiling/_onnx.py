"""ONNX of fitted models, and ONNX Runtime with the threads of the other sides."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["onnx_session", "open_onnx", "to_onnx"]


def onnx_session(model: Any, threads: int) -> Any:
    """Open a fitted model, or a pipeline of scikit-learn's, in ONNX Runtime; its input is ``x``."""
    return open_onnx(to_onnx(model), threads)


def to_onnx(model: Any) -> bytes:
    """Convert a fitted model by the converter of its library; the probabilities of classes are one array."""
    shape, family = [None, int(model.n_features_in_)], type(model).__module__.partition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        convert = {"xgboost": _xgboost, "lightgbm": _lightgbm}.get(family, _sklearn)
        found: bytes = convert(model, shape).SerializeToString()
    return found


def open_onnx(model: bytes | str, threads: int) -> Any:
    """Open the bytes of an ONNX model, or its file, in ONNX Runtime."""
    import onnxruntime  # the others run without it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Spinning threads would be counted as work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _xgboost(model: Any, shape: list[int | None]) -> Any:
    from onnxmltools.convert import convert_xgboost  # a process that opens a file converts nothing
    from onnxmltools.convert.common.data_types import FloatTensorType

    return convert_xgboost(model, initial_types=[("x", FloatTensorType(shape))])


def _lightgbm(model: Any, shape: list[int | None]) -> Any:
    from onnxmltools.convert import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    return convert_lightgbm(model, initial_types=[("x", FloatTensorType(shape))], zipmap=False)


def _sklearn(model: Any, shape: list[int | None]) -> Any:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    return convert_sklearn(model, initial_types=[("x", FloatTensorType(shape))], options=options)
