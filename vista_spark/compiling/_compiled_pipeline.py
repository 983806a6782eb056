"""Compiled pipeline: a tensor program with the methods of the model that it was compiled from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from optimizer.compiling import Rewritten, make_plan, saved_backend, saved_strategy, sparse_nodes
from udfs.compiling import Scorer, from_bytes, to_bytes
from vista_spark.compiling._narrow_types import computes_narrowly, with_types
from vista_spark.compiling._tables import TableReader
from vista_spark.compiling._written_files import write_file
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

    from optimizer.compiling import Plan, Program

__all__ = ["CompiledPipeline"]

_NO_COMPILER = (
    "no C++ compiler here, so trees run as tensor programs, which may take longer than the library for thousands of "
    "rows: install g++ or clang++, or set CXX"
)


class CompiledPipeline:
    """Tensor program that predicts what a model predicts.

    It has those methods of the model that are compiled; :attr:`outputs` names them. Pickling stores the program alone,
    so workers of Spark need no training library. :class:`TensorPipeline` applies it to a DataFrame.

    Parameters
    ----------
    program : Program
        Operators and outputs. Files hold the program as it was compiled; rewrites happen where it runs.
    tree_strategy, backend, threads, rewrites
        Options of :func:`compile_pipeline`.

    Raises
    ------
    optimizer.compiling.UnsupportedOperatorError
        The strategy or backend is unknown, the trees do not fit into memory, or the backend is ``"onnxruntime"`` and an
        operator has no exact ONNX form.
    InvalidArgumentError
        `threads` is not a positive integer, or a package of the backend is missing.
    """

    def __init__(
        self,
        program: Program,
        *,
        tree_strategy: str = "auto",
        backend: str = "auto",
        threads: int | None = None,
        rewrites: bool = True,
    ) -> None:
        self.program = program
        self.tree_strategy, self.backend, self.threads = tree_strategy, backend, threads
        self.rewrites = rewrites
        # Validate now, not in a task.
        make_plan(program, tree_strategy=tree_strategy, backend=backend)
        sparse_nodes(program)
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise InvalidArgumentError(f"threads must be a positive integer or None, got {threads!r}.")
        if backend == "onnxruntime":
            self._check_runtime()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Methods of the model that the program gives."""
        return tuple(self.program.outputs)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that the program reads; ``None`` for a model that was not fitted on a DataFrame."""
        return self.program.columns

    def columns_in(self, names: Iterable[str]) -> list[str] | None:
        """Return the columns of a table that the program reads, in its order; ``None`` for a model without names.

        LightGBM writes spaces in names as underscores: its ``mean_radius`` is the table's ``mean radius``, unless the
        table has a ``mean_radius`` too.

        Parameters
        ----------
        names : iterable of str
            Names of the columns of the table.
        """
        return self._reader.columns_in(names)

    @property
    def plan(self) -> Plan:
        """Plan of the rewritten program for a table of float64: strategies of trees, engine, rows at a time."""
        return self._scorer.plan("float64")

    def rewritten(self, dtype: str = "float64") -> Rewritten:
        """Return the program as it runs on tables of one type, ``"float32"`` or ``"float64"``, and its rewrites."""
        return self._scorer.rewritten(dtype)

    def explain(self) -> str:
        """Describe operators, rewrites, strategies of trees and engine of this machine for a table of float64."""
        try:
            engine: Any = self._scorer.engine("float64")
        except ModuleNotFoundError:  # the packages of the engine are on the executors alone
            return self.plan.explain()
        replaced = engine.plan.strategies != self.plan.strategies
        return "\n".join([engine.plan.explain(), *[_NO_COMPILER] * replaced])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict classes or values of rows, as the model does.

        Parameters
        ----------
        X : array of shape (rows, columns), pandas DataFrame or Arrow table
            Rows to predict. Columns of a DataFrame or an Arrow table are read by name.

        Returns
        -------
        array of shape (rows,), or (rows, outputs)
            Predictions. Models of several outputs have a column for each.

        Raises
        ------
        ValueError
            A row holds a value that the model refuses, such as NaN or an infinity.
        ColumnError
            A column is missing, or the number of columns is wrong.
        AttributeError
            The method is not compiled. The message names the methods that are.
        """
        answer: NDArray[Any] = self._run("predict", X)
        return answer

    def predict_proba(self, X: ArrayLike) -> Any:
        """Predict probabilities of the classes, in the shape (rows, classes), or a list of such arrays per output.

        Parameters and errors are those of :meth:`predict`.
        """
        return self._run("predict_proba", X)

    def predict_log_proba(self, X: ArrayLike) -> Any:
        """Predict logarithms of probabilities, in the shapes of :meth:`predict_proba`."""
        return self._run("predict_log_proba", X)

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Compute the scores of the classes. Parameters and errors are those of :meth:`predict`."""
        answer: NDArray[Any] = self._run("decision_function", X)
        return answer

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Compute a score or log-likelihood per row. Parameters and errors are those of :meth:`predict`."""
        answer: NDArray[Any] = self._run("score_samples", X)
        return answer

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Return the leaf of each row in each tree, numbered as by the library; errors as of :meth:`predict`."""
        answer: NDArray[Any] = self._run("apply", X)
        return answer

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Transform rows. Parameters and errors are those of :meth:`predict`."""
        answer: NDArray[Any] = self._run("transform", X)
        return answer

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the program to a safetensors file: arrays and a JSON document, no code.

        Parameters
        ----------
        path : str or Path
            File to write.
        overwrite : bool
            Whether an existing file is replaced. Default false.

        Raises
        ------
        vista_spark.errors.ExistingFileError
            The file exists, and `overwrite` is false.
        """
        write_file(path, to_bytes(self.program), overwrite=overwrite)

    def to_onnx(self, path: str | Path, *, dtype: str = "float64", overwrite: bool = False) -> None:
        """Write the program as an ONNX model, for a runtime without torch and without the training library.

        The model has standard operators of ``ai.onnx`` (opset 18), and of ``ai.onnx.ml`` for columns of texts. Classes
        equal those of this pipeline, and values are within its tolerance. An ONNX model cannot refuse a row: if this
        pipeline refuses rows, the model has an output ``bad_rows`` that marks them, and their results are undefined.

        Parameters
        ----------
        path : str or Path
            File to write.
        dtype : {"float32", "float64"}
            Type of the input ``input``, a table of shape (rows, columns). Default ``"float64"``. With columns of texts
            there is one input of shape (rows, 1) per column, under its name.
        overwrite : bool
            Whether an existing file is replaced. Default false.

        Raises
        ------
        optimizer.compiling.UnsupportedOperatorError
            An operator, or an option of it, has no exact ONNX form. The message names it.
        InvalidArgumentError
            `dtype` is another type, or the package onnx is missing.
        vista_spark.errors.ExistingFileError
            The file exists, and `overwrite` is false.

        Examples
        --------
        >>> import onnxruntime, tempfile
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from vista_spark import compile_pipeline
        >>> X, y = load_iris(return_X_y=True)
        >>> compiled = compile_pipeline(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     compiled.to_onnx(f"{folder}/model.onnx")
        ...     runtime = onnxruntime.InferenceSession(f"{folder}/model.onnx")
        >>> (classes,) = runtime.run(["predict"], {"input": X})
        >>> bool((classes == compiled.predict(X)).all())
        True
        """
        if dtype not in {"float32", "float64"}:
            raise InvalidArgumentError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
        try:
            from udfs.compiling.onnx import model_of
        except ModuleNotFoundError as error:
            if error.name != "onnx":
                raise
            raise InvalidArgumentError("to_onnx needs the package onnx. Run pip install onnx.") from error
        write_file(path, model_of(self.program, dtype).SerializeToString(), overwrite=overwrite)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        tree_strategy: str = "auto",
        backend: str = "auto",
        threads: int | None = None,
        rewrites: bool = True,
    ) -> CompiledPipeline:
        """Read a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            File to read.
        tree_strategy, backend, threads, rewrites
            Options of :func:`compile_pipeline`. Files do not store them.

        Raises
        ------
        optimizer.compiling.ProgramError
            The file is no compiled pipeline, or has been altered.
        """
        program = from_bytes(Path(path).read_bytes())
        return cls(program, tree_strategy=tree_strategy, backend=backend, threads=threads, rewrites=rewrites)

    def __reduce__(self) -> tuple[Callable[..., CompiledPipeline], tuple[bytes, str, str, int | None, bool]]:
        return _restored, (to_bytes(self.program), self.tree_strategy, self.backend, self.threads, self.rewrites)

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(
            self.program,
            self.tree_strategy,
            backend=self.backend,
            threads=self.threads,
            rewrites=self.rewrites,
        )

    def _scorer_of(self, table: Any) -> Scorer:
        """Return the scorer of a table: another one where the library computes with 16 bits."""
        if not self._reader.may_be_narrow(table):
            return self._scorer
        dtypes = self._reader.dtypes(table)
        if not computes_narrowly(self.program, dtypes):
            return self._scorer
        return Scorer(
            with_types(self.program, dtypes), self.tree_strategy, threads=self.threads, rewrites=False, backend="eager"
        )

    def _check_runtime(self) -> None:
        try:
            engine: Any = self._scorer.engine("float64")
        except ModuleNotFoundError as error:
            if error.name not in {"onnx", "onnxruntime"}:
                raise
            raise InvalidArgumentError(
                f"backend='onnxruntime' needs the package {error.name}. Run pip install onnx onnxruntime."
            ) from error
        engine.check()

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        numbers, host_tables = self._reader.read(table)
        scorer = self._scorer_of(table)
        answer = scorer.run(numbers, host_tables, outputs=(method,))
        if answer.reasons:
            first, more = int(np.argmax(answer.bad)), int(answer.bad.sum()) - 1
            row = slice(first, first + 1)
            (reason,) = scorer.explain_rows(numbers[row], [codes[row] for codes in host_tables], (method,))
            rows = f"row {first} and {more:,} more have" if more else f"row {first} has"
            raise InvalidArgumentError(f"{rows} {reason.text or ' or '.join(answer.reasons)}")
        return answer.outputs[method]

    def _refuse(self, method: str) -> NoReturn:
        raise AttributeError(f"the model that was compiled has no {method}; it has {', '.join(self.outputs)}.")

    @cached_property
    def _reader(self) -> TableReader:
        return TableReader(self.program, self._scorer.read)


def _restored(
    data: bytes, tree_strategy: str, backend: str = "auto", threads: int | None = None, rewrites: bool = True
) -> CompiledPipeline:
    return CompiledPipeline(
        from_bytes(data),
        tree_strategy=saved_strategy(tree_strategy),
        backend=saved_backend(backend),
        threads=threads,
        rewrites=rewrites,
    )
