"""Readers of model files: text and JSON, data and no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.compiling import UnsupportedOperatorError
from udfs.driver import validate_arguments
from vista_spark.compiling._refusals import damaged

__all__ = ["read_model"]

# CatBoost's JSON names its features early on, XGBoost's its learner.
_START = 4096


@validate_arguments
def read_model(path: str | Path) -> Any:
    """Read a model file for :func:`compile_pipeline`, without running or unpickling it.

    Parameters
    ----------
    path : str or Path
        Model text of LightGBM (``Booster.save_model``), JSON or UBJ file of XGBoost (``save_model``), or JSON file of
        CatBoost (``save_model(path, format="json")``). A UBJ file needs the package xgboost.

    Returns
    -------
    object
        Model to compile. It predicts what the library's Booster predicts, and what CatBoost calls raw values; it has no
        names of classes.

    Raises
    ------
    UnsupportedOperatorError
        The file is none of these, is truncated, or has a part that cannot be compiled.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from lightgbm import LGBMRegressor
    >>> from vista_spark.compiling import compile_pipeline, read_model
    >>> model = LGBMRegressor(n_estimators=3, verbose=-1).fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = model.booster_.save_model(f"{folder}/model.txt")
    ...     compiled = compile_pipeline(read_model(f"{folder}/model.txt"))
    >>> compiled.outputs
    ('predict', 'apply')
    """
    data = Path(path).read_bytes()
    if data.startswith(b"tree\n"):
        from vista_spark.compiling.lightgbm import ModelText  # a library's parsers, on demand

        try:
            return ModelText.parse(data.decode())
        except UnicodeDecodeError as error:
            raise damaged("model text of LightGBM", error) from error
    if data.startswith(b"{") and b'"features_info"' in data:
        from vista_spark.compiling.catboost import ModelDocument as OfCatBoost

        return OfCatBoost.parse(data)
    if data.startswith(b"{") and b"learner" in data[:_START]:
        from vista_spark.compiling.xgboost import ModelDocument as OfXGBoost

        return OfXGBoost.parse(data)
    raise UnsupportedOperatorError(
        "path must be a model text of LightGBM, a JSON or UBJ file of XGBoost, or a JSON file of CatBoost "
        f"(format='json'), got {path}. Dumps of trees lack values that predictions need. Pass the path of an ONNX "
        "model, which ends in .onnx, to compile_pipeline."
    )
