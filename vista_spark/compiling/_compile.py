"""Compilation of fitted models."""

from __future__ import annotations

from typing import Any

from udfs.driver import validate_arguments
from vista_spark.compiling._compiled_pipeline import CompiledPipeline
from vista_spark.compiling._program import program_of
from vista_spark.compiling._transfer import compile_transfer, is_transfer

__all__ = ["compile_pipeline"]


@validate_arguments
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
        Fitted model or pipeline of scikit-learn, LightGBM, XGBoost, CatBoost or Spark ML; a model that
        :func:`read_model` read; an ONNX model, its bytes, or a path that ends in ``.onnx``; or the ``best_model`` of a
        :class:`~vista_spark.TransferResult`, which becomes a :class:`CompiledTransfer` with the network in its graph.
    backend : {"auto", "eager", "onnxruntime"}
        Engine of the program. ``"eager"``: torch, operator by operator. ``"onnxruntime"``: ONNX Runtime, for executors
        without torch, which is slower. Default ``"auto"``, which is ``"eager"``.
    tree_strategy : {"auto", "gemm", "traversal", "perfect", "native"}
        Algorithm of trees (Hummingbird, thesis section 5.4.1). ``"native"``: machine code for all trees, which a node
        builds once. Default ``"auto"``: native code, and on a node without a C++ compiler the tensor program that suits
        the depth of the trees.
    threads : int, optional
        Threads for chunks of a long table in this process; torch's number by default. A Spark task has as many as
        its cores.
    example : array of shape (rows, columns), pandas DataFrame, or DataFrame of Spark, optional
        Rows that the model reads, one at least, for models that do not know the number, names or kinds of their
        columns. Spark ML's need a DataFrame of Spark, whose schema tells vectors from numbers.
    rewrites : bool
        Rewrite the program where it runs: push selections down, fold constants, merge scalers into linear layers and
        trees (thesis section 5.5.2). Default true. A transfer loses unused channels of the network instead.

    Returns
    -------
    CompiledPipeline
        Program with those methods of `model` that are compiled.

    Raises
    ------
    UnsupportedOperatorError
        A step of the model, or an option of a step, cannot be compiled, and the message names both; `tree_strategy` or
        `backend` is unknown; the trees do not fit into memory; or `backend` is ``"onnxruntime"`` and the model is a
        transfer or has an operator without an exact ONNX form.
    InvalidArgumentError
        The model is not fitted, `example` does not have the columns of the model, `threads` is not a positive integer,
        or a package of the backend is missing.

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
    options: Any = {"tree_strategy": tree_strategy, "backend": backend, "threads": threads}
    if is_transfer(model):
        return compile_transfer(model, example, rewrites=rewrites, **options)
    return CompiledPipeline(program_of(model, example), rewrites=rewrites, **options)
