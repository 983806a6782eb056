"""``compile_pipeline``: a fitted model becomes a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizer.compiling import INPUT, Builder, UnsupportedOperatorError
from vista_spark.compiling._columns import names_of, width_of
from vista_spark.compiling._compiled import CompiledPipeline
from vista_spark.compiling._registry import lower, lower_whole, opened
from vista_spark.compiling._transfer import compiled_transfer
from vista_spark.errors import InvalidArgumentError

__all__ = ["compile_pipeline"]

_TABLE = 2
"""Dimensions of a table."""


def compile_pipeline(
    model: Any,
    *,
    backend: str = "auto",
    tree_strategy: str = "auto",
    threads: int | None = None,
    example: Any = None,
    rewrites: bool = True,
) -> CompiledPipeline:
    """Compile a fitted classical model into a tensor program that gives the same predictions.

    Parameters
    ----------
    model : object
        A fitted model or pipeline of scikit-learn, LightGBM, XGBoost, CatBoost or Spark ML; what :func:`read_model`
        gives; or an ONNX model, its bytes, or a path that ends in ``.onnx``. Of ``TransferResult.best_model`` it makes
        a :class:`CompiledTransfer`, with the network for images in its graph.
    backend : {"auto", "eager", "onnxruntime"}
        What runs the program. ``"eager"``: torch, operator by operator. ``"onnxruntime"``: ONNX Runtime, for executors
        without torch, which is slower. Default ``"auto"``, which is ``"eager"``.
    tree_strategy : {"auto", "gemm", "traversal", "perfect", "native"}
        How trees run (Hummingbird, thesis section 5.4.1). ``"native"``: by machine code for all trees, which a node
        builds once. Default ``"auto"``: native code, and on a node without a C++ compiler the tensor program that suits
        the depth of the trees.
    threads : int, optional
        Threads that run a table in this process; torch's number by default. A Spark task has those of its cores.
    example : array of shape (rows, columns), or pandas DataFrame, optional
        Some rows, where a model does not say how many columns it takes, or what their names are. One row will do. Of
        Spark ML, a DataFrame that the model reads, which tells vectors from numbers.
    rewrites : bool
        Whether the program is rewritten where it runs: selections pushed down and injected, constants folded, scalers
        taken into linear layers and trees (thesis section 5.5.2). Default true. Of a transfer, channels of the network
        are left out instead.

    Returns
    -------
    CompiledPipeline
        With the methods of `model` that it was compiled for.

    Raises
    ------
    UnsupportedOperatorError
        A step of the model, or an option of a step, has no translation, and the message names both; or `tree_strategy`
        or `backend` is unknown, or its trees do not fit into memory; or the model is a transfer and `backend` is
        ``"onnxruntime"``; or an operator has no exact form for ``"onnxruntime"``.
    InvalidArgumentError
        The model is not fitted, `example` has other columns than the model, `threads` is no number above 0, or a
        package of the backend is missing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)).fit(X, y)
    >>> compiled = compile_pipeline(fitted)
    >>> bool((compiled.predict(X) == fitted.predict(X)).all())
    True
    """
    model = opened(model)
    options: Any = {"tree_strategy": tree_strategy, "backend": backend, "threads": threads, "rewrites": rewrites}
    transfer = compiled_transfer(model, example, **options)
    if transfer is not None:
        return transfer
    whole = lower_whole(model, example)
    if whole is not None:
        return CompiledPipeline(whole, **options)
    width, names = _columns(model, example)
    build = Builder(width, names)
    try:
        outputs = lower(model, build, INPUT)
    except AttributeError as error:
        # Every parser reads what a fit leaves behind: what ends in an underscore.
        if error.name is not None and error.name.endswith("_"):
            raise InvalidArgumentError(f"{type(error.obj).__name__} is not fitted: it has no {error.name}") from error
        raise
    if not outputs:
        raise UnsupportedOperatorError(f"{type(model).__name__} has no output that is compiled")
    return CompiledPipeline(build.program(outputs), **options)


def _columns(model: Any, example: Any) -> tuple[int, list[str] | None]:
    """How many columns a model takes, and their names if it, or the example, has some."""
    width, names = width_of(model), names_of(model)
    if example is not None:
        shape = np.shape(example)
        if len(shape) != _TABLE or width not in {None, shape[1]}:
            raise InvalidArgumentError(
                f"example has shape {shape}, and {type(model).__name__} takes (rows, {width or 'columns'})"
            )
        width = shape[1]
        given = getattr(example, "columns", None)
        names = given if names is None and given is not None and all(isinstance(one, str) for one in given) else names
    if width is None and getattr(model, "refit", True) is False:
        raise UnsupportedOperatorError(
            f"{type(model).__name__} with refit=False has no fitted model: search again with refit=True"
        )
    if width is None:
        raise InvalidArgumentError(
            f"{type(model).__name__} does not say how many columns it takes (n_features_in_): fit it first, on a "
            "table; or give example=, a row of one"
        )
    return int(width), None if names is None else [str(name) for name in names]
