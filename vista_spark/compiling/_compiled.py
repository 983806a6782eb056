"""A compiled pipeline: a program with the methods of the model that it was."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from optimizer.compiling import Rewritten, make_plan, saved_backend, saved_strategy, sparse_nodes
from udfs.compiling import Scorer, Tables, from_bytes, read_numbers, to_bytes
from vista_spark.compiling._integers import (
    check_floats,
    check_integers,
    narrows_integers,
    rounds_results,
    spelled,
    underscored,
)
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

    from optimizer.compiling import Plan, Program

__all__ = ["CompiledPipeline"]


class CompiledPipeline:
    """The predictions of a model by a tensor program.

    It has the methods of the model that the program gives: ``outputs`` names them. It pickles as its own bytes, and so
    travels to a Spark worker that has no training library. :class:`TensorPipeline` runs it over a DataFrame.

    Parameters
    ----------
    program : Program
    tree_strategy, backend, threads
        As of :func:`compile_pipeline`.
    rewrites : bool
        As of :func:`compile_pipeline`. What is saved is the program as it was compiled: it is rewritten where it runs.

    Raises
    ------
    optimizer.compiling.UnsupportedOperatorError
        There is no such strategy or backend, the trees would not fit into memory, or the backend is
        ``"onnxruntime"`` and an operator has no exact ONNX form.
    InvalidArgumentError
        `threads` is no whole number above 0, or a package of the backend is missing.
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
        # The door: a strategy that does not fit these trees is refused now, not in a task.
        make_plan(program, tree_strategy=tree_strategy, backend=backend)
        sparse_nodes(program)
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise InvalidArgumentError(f"threads={threads!r}: a whole number above 0, or None for torch's number")
        if backend == "onnxruntime":
            self._check_runtime()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Methods of the model that the program gives."""
        return tuple(self.program.outputs)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that it reads, where the model was fitted on a DataFrame."""
        return self.program.columns

    def columns_in(self, names: Iterable[str]) -> list[str] | None:
        """Name the columns of a table that it reads, in its order, or ``None`` where the model knows no names.

        LightGBM writes spaces in names as underscores: ``mean_radius`` is ``mean radius`` of a table that has that and
        no ``mean_radius``. A name that the table has in neither way stays as it is.
        """
        if self.columns is None:
            return None
        found = spelled(self.columns, names) if self._narrows is not None else {}
        return [found.get(name, name) for name in self.columns]

    @property
    def plan(self) -> Plan:
        """Plan of the rewritten program for a table of float64: strategies of trees, engine, rows at a time."""
        return self._scorer.plan("float64")

    def rewritten(self, dtype: str = "float64") -> Rewritten:
        """Give the program as it runs on tables of one type, float32 or float64, and what was done to it."""
        return self._scorer.rewritten(dtype)

    def explain(self) -> str:
        """Describe the operators that run on a table of float64, what was rewritten, and how: ``plan.explain()``."""
        return self.plan.explain()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict classes or values of rows, as the model does; of several outputs, a column each.

        Parameters
        ----------
        X : array of shape (rows, columns), or pandas DataFrame
            Columns of a DataFrame are taken by name.

        Raises
        ------
        ValueError
            A row has what the model refuses: NaN, an infinity, or a number beyond float32 where it looks at that.
        ColumnError
            A column is missing, or there are too many or too few.
        AttributeError
            The model has no such method, or it is not compiled; the message names those that are there.
        """
        answer: NDArray[Any] = self._run("predict", X)
        return answer

    def predict_proba(self, X: ArrayLike) -> Any:
        """Predict probabilities of the classes, of shape (rows, classes); of several outputs, a list of such arrays.

        Raises as :meth:`predict`.
        """
        return self._run("predict_proba", X)

    def predict_log_proba(self, X: ArrayLike) -> Any:
        """Predict logarithms of probabilities, in the shapes of :meth:`predict_proba`. Raises as :meth:`predict`."""
        return self._run("predict_log_proba", X)

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Give scores of the classes. Raises as :meth:`predict`."""
        answer: NDArray[Any] = self._run("decision_function", X)
        return answer

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Give a score or log-likelihood per row. Raises as :meth:`predict`."""
        answer: NDArray[Any] = self._run("score_samples", X)
        return answer

    def apply(self, X: ArrayLike) -> NDArray[Any]:
        """Give the leaf of each row in each tree, in the library's numbers. Raises as :meth:`predict`."""
        answer: NDArray[Any] = self._run("apply", X)
        return answer

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Transform rows. Raises as :meth:`predict`."""
        answer: NDArray[Any] = self._run("transform", X)
        return answer

    def save(self, path: str | Path) -> None:
        """Write to a file: arrays and a JSON document in one safetensors file, no code.

        Raises
        ------
        FileExistsError
            The file is there already.
        """
        with Path(path).open("xb") as file:
            file.write(to_bytes(self.program))

    def to_onnx(self, path: str | Path, *, dtype: str = "float64") -> None:
        """Write the program as an ONNX model, for a runtime that has neither torch nor the training library.

        It has standard operators of ``ai.onnx`` alone (opset 18), and of ``ai.onnx.ml`` for columns of texts. Classes
        are those of this pipeline, and values within its tolerance. ONNX has no refusal of a row: where this pipeline
        refuses some, the model has an output ``bad_rows``, and what it gives for those rows means nothing.

        Parameters
        ----------
        path : str or Path
            A new file.
        dtype : {"float32", "float64"}
            Of the table ``input``, of shape (rows, columns). The model computes as this pipeline does for such a table.
            With columns of texts there is one input a column, of shape (rows, 1), under its name.

        Raises
        ------
        optimizer.compiling.UnsupportedOperatorError
            An operator, or an option of it, has no exact ONNX form; the message names it.
        InvalidArgumentError
            Another type, or the package onnx is missing.
        FileExistsError
            The file is there already.

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
            raise InvalidArgumentError(f"dtype={dtype!r} is neither 'float32' nor 'float64'")
        try:
            from udfs.compiling.onnx import model_of  # an optional package
        except ModuleNotFoundError as error:
            if error.name != "onnx":
                raise
            raise InvalidArgumentError("to_onnx takes the package onnx: pip install onnx") from error
        data = model_of(self.program, dtype).SerializeToString()
        with Path(path).open("xb") as file:
            file.write(data)

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
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
        tree_strategy, backend, threads, rewrites
            As of :func:`compile_pipeline`: how a program runs is no part of it.

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

    def _check_runtime(self) -> None:
        try:
            engine: Any = self._scorer.engine("float64")
        except ModuleNotFoundError as error:
            if error.name not in {"onnx", "onnxruntime"}:
                raise
            raise InvalidArgumentError(
                f"backend='onnxruntime' takes the package {error.name}: pip install onnx onnxruntime"
            ) from error
        engine.check()

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        answer = self._scorer.run(*self._tables(table), outputs=(method,))
        if answer.reasons:
            first, more = int(np.argmax(answer.bad)), int(answer.bad.sum()) - 1
            who = f"row {first} and {more:,} more have" if more else f"row {first} has"
            raise InvalidArgumentError(f"{who} {' or '.join(answer.reasons)}")
        return answer.outputs[method]

    def _refuse(self, method: str) -> NoReturn:
        raise AttributeError(f"the model that was compiled has no {method}; it has {', '.join(self.outputs)}")

    @property
    def _reads_lists(self) -> bool:
        """Whether its one column holds lists or dictionaries."""
        return self.program.width == 1 and bool(self.program.categories.get(0, frozenset()) & {list, dict})

    @cached_property
    def _host(self) -> bool:
        """Whether the host looks texts or categories up."""
        return bool(self.program.host)

    @cached_property
    def _narrows(self) -> str | None:
        return narrows_integers(self.program)

    @cached_property
    def _rounds(self) -> bool:
        return rounds_results(self.program)

    def _tables(self, table: Any) -> Tables:
        """The table as float32 or float64, its columns in the model's order, and codes of its texts."""
        rows = self._rows(table)
        if len(rows.shape) == 1 and self.program.width == 1:
            rows = np.asarray(rows)[:, None]  # labels, and texts
        if rows.ndim != 2 or rows.shape[1] != self.program.width:
            raise ColumnError(f"a table of shape {rows.shape}; the model takes (rows, {self.program.width})")
        if self._rounds:
            check_floats(rows)
        if hasattr(rows, "iloc"):
            return self._of_frame(rows)
        if self._narrows is not None:
            check_integers(rows, self._narrows)
        if rows.dtype.kind in "biuf" and not self._host:
            return Tables(read_numbers(rows), ())
        return self._scorer.read(list(rows.T))

    def _rows(self, table: Any) -> Any:
        """The table as an array, or as a DataFrame of pandas, its columns in the model's order."""
        if isinstance(table, pa.Table | pa.RecordBatch):
            table = table.to_pandas()
        if hasattr(table, "nnz"):
            # Absent is not always zero: XGBoost takes it for missing, and QuantileTransformer leaves it alone.
            raise ColumnError(
                f"a sparse table ({type(table).__name__}): the model is compiled for dense ones; give table.toarray()"
            )
        if hasattr(table, "columns") and self.columns is not None:
            table = self._chosen(table, self.columns)
        if hasattr(table, "iloc"):
            return table
        if hasattr(table, "dtype"):
            return np.asarray(table)
        if self._reads_lists:
            table = [table] if isinstance(table, dict) else list(table)
            return np.array([*table, None], object)[:-1]  # a column of lists, of whatever length
        if isinstance(table, list | tuple) and table and isinstance(table[0], str | bytes):
            return np.array([*table, None], object)[:-1]  # as they are, however long one of them is
        rows = np.asarray(table)
        return np.asarray(table, object) if rows.dtype.kind == "U" else rows  # numbers would become texts

    def _chosen(self, frame: Any, names: tuple[str, ...]) -> Any:
        """The model's columns of a frame, in its order."""
        if self._narrows is not None:
            frame = underscored(frame, names)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise ColumnError(f"columns {', '.join(map(repr, missing))} are missing: the model was fitted on them")
        return frame[list(names)]

    def _of_frame(self, frame: Any) -> Tables:
        """A frame's columns, each with its own type."""
        numeric = not self._host and len(self.program.numeric) == self.program.width
        if numeric and all(kind.kind in "biuf" and hasattr(kind, "newbyteorder") for kind in frame.dtypes):
            return Tables(read_numbers(np.asarray(frame)), ())
        return self._scorer.read([np.asarray(frame.iloc[:, place]) for place in range(self.program.width)])


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
