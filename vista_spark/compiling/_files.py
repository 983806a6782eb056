"""Model files that libraries write themselves: text and JSON, data and no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.compiling import UnsupportedOperatorError

__all__ = ["read_model"]

# CatBoost's JSON names its features early on, XGBoost's its learner.
_START = 4096


def read_model(path: str | Path) -> Any:
    """Read a model file, for :func:`compile_pipeline`. Nothing in it is run or unpickled.

    Parameters
    ----------
    path : str or Path
        A model text of LightGBM (``Booster.save_model``), a JSON or UBJ file of XGBoost (``save_model``), or a JSON
        file of CatBoost (``save_model(path, format="json")``).

    Returns
    -------
    object
        What `compile_pipeline` takes. Its ``predict`` is that of the library's Booster (of CatBoost: the scores), and
        knows no names of classes.

    Raises
    ------
    UnsupportedOperatorError
        The file is none of these, is cut off, or has a part that is not compiled.

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
            raise UnsupportedOperatorError(f"{path}: not a model text of LightGBM: {error}") from error
    if data.startswith(b"{") and b'"features_info"' in data:
        from vista_spark.compiling.catboost import ModelDocument as OfCatBoost

        return OfCatBoost.parse(data)
    if data.startswith(b"{") and b"learner" in data[:_START]:
        from vista_spark.compiling.xgboost import ModelDocument as OfXGBoost

        return OfXGBoost.parse(data)
    raise UnsupportedOperatorError(
        f"{path} is no model text of LightGBM, JSON or UBJ of XGBoost, or JSON of CatBoost (format='json'), as "
        "save_model writes them; a dump of trees lacks what predictions need, and an ONNX model's name ends in .onnx"
    )
