"""The models that are timed: fitted here on drawn rows, with what ONNX Runtime needs of them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["CASES", "Case", "drawn", "onnx_session"]

_FEATURES, _INFORMATIVE = 30, 20


class Case(NamedTuple):
    """A model and what its speed-up is to reach at 10,000 rows.

    Parameters
    ----------
    name : str
    model : callable
        From the number of threads to a model that is not fitted.
    library, runtime : float
        Speed-ups to reach: over the library, over ONNX Runtime.
    """

    name: str
    model: Callable[[int], Any]
    library: float
    runtime: float


CASES = (
    Case("forest-100x8", lambda threads: RandomForestClassifier(100, max_depth=8, n_jobs=threads), 2.0, 1.6),
    Case("lightgbm-500x31", lambda threads: LGBMClassifier(n_estimators=500, n_jobs=threads, verbose=-1), 3.0, 1.4),
    Case("xgboost-500x8", lambda threads: XGBClassifier(n_estimators=500, max_depth=8, n_jobs=threads), 0.7, 1.6),
    Case("forest-300x20", lambda threads: RandomForestClassifier(300, max_depth=20, n_jobs=threads), 0.8, 1.4),
)
"""The table "To reach" of the design."""


def drawn(rows: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Draw rows of two classes, as float32: what all sides take without a rounding of their own."""
    table, labels = make_classification(rows, _FEATURES, n_informative=_INFORMATIVE, random_state=seed)
    return table.astype(np.float32), labels


def onnx_session(model: Any, threads: int, columns: int = _FEATURES) -> Any:
    """Open a fitted model, or a pipeline of scikit-learn's, in ONNX Runtime; its input is ``x``."""
    import onnxruntime  # noqa: PLC0415 - the others run without it
    from onnxmltools.convert import convert_lightgbm, convert_xgboost  # noqa: PLC0415
    from onnxmltools.convert.common.data_types import FloatTensorType  # noqa: PLC0415
    from skl2onnx import convert_sklearn  # noqa: PLC0415
    from skl2onnx.common.data_types import FloatTensorType as Table  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(model, XGBClassifier):
            onnx = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, columns]))])
        elif isinstance(model, LGBMClassifier):
            onnx = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, columns]))], zipmap=False)
        else:
            options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
            onnx = convert_sklearn(model, initial_types=[("x", Table([None, columns]))], options=options)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Spinning threads would be counted as work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(onnx.SerializeToString(), options, providers=["CPUExecutionProvider"])
