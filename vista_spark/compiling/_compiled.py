"""A compiled pipeline: a program with the methods of the model that it was."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from optimizer.compiling import Program, Rewritten, rewrite, sparse_nodes, strategies_of
from udfs.compiling import Scorer, Tables, from_bytes, read_numbers, to_bytes
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["CompiledPipeline"]


class CompiledPipeline:
    """The predictions of a model by a tensor program.

    It has the methods of the model that the program gives: ``outputs`` names them. It pickles as its own bytes, and so
    travels to a Spark worker that has no training library. :class:`TensorPipeline` runs it over a DataFrame.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        As of :func:`compile_pipeline`.
    rewrites : bool
        As of :func:`compile_pipeline`. What is saved is the program as it was compiled: it is rewritten where it runs.

    Raises
    ------
    optimizer.compiling.UnsupportedOperatorError
        There is no such strategy, or its trees would not fit into memory.
    """

    def __init__(self, program: Program, *, tree_strategy: str = "auto", rewrites: bool = True) -> None:
        self.program = program
        self.tree_strategy = tree_strategy
        self.rewrites = rewrites
        # The door: a strategy that does not fit these trees is refused now, not in a task.
        self._strategies = strategies_of(program, tree_strategy)
        sparse_nodes(program)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Methods of the model that the program gives."""
        return tuple(self.program.outputs)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that it reads, where the model was fitted on a DataFrame."""
        return self.program.columns

    def rewritten(self, dtype: str = "float64") -> Rewritten:
        """Give the program as it runs on tables of one type, float32 or float64, and what was done to it."""
        return rewrite(self.program, dtype) if self.rewrites else Rewritten(self.program, (), dtype)

    def explain(self) -> str:
        """Describe operators as they run on a table of float64, what was rewritten, and how trees run."""
        ways = [f"  {node} runs by {strategy}" for node, strategy in self._strategies.items()]
        return "\n".join([self.rewritten().explain(), *ways])

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

    @classmethod
    def load(cls, path: str | Path, *, tree_strategy: str = "auto", rewrites: bool = True) -> CompiledPipeline:
        """Read what :meth:`save` wrote.

        Raises
        ------
        optimizer.compiling.ProgramError
            The file is no compiled pipeline, or has been altered.
        """
        return cls(from_bytes(Path(path).read_bytes()), tree_strategy=tree_strategy, rewrites=rewrites)

    def __reduce__(self) -> tuple[Callable[..., CompiledPipeline], tuple[bytes, str, bool]]:
        return _restored, (to_bytes(self.program), self.tree_strategy, self.rewrites)

    @cached_property
    def _engine(self) -> Scorer:
        return Scorer(self.program.only(_but_leaves(self.program)), self.tree_strategy, rewrites=self.rewrites)

    @cached_property
    def _leaves(self) -> Scorer:
        """Numbers of leaves are seldom asked for: predictions do not compute them."""
        return Scorer(self.program.only(["apply"]), self.tree_strategy, rewrites=self.rewrites)

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        scorer = self._leaves if method == "apply" else self._engine
        answer = scorer.run(*self._tables(table, scorer))
        if answer.bad.any():
            first, more = int(np.argmax(answer.bad)), int(answer.bad.sum()) - 1
            who = f"row {first} and {more:,} more have" if more else f"row {first} has"
            raise InvalidArgumentError(f"{who} {' or '.join(answer.reasons)}")
        return answer.outputs[method]

    def _refuse(self, method: str) -> NoReturn:
        raise AttributeError(f"the model that was compiled has no {method}; it has {', '.join(self.outputs)}")

    def _tables(self, table: Any, scorer: Scorer) -> Tables:
        """The table as float32 or float64, its columns in the model's order, and codes of its texts."""
        if hasattr(table, "columns") and self.columns is not None:
            missing = [name for name in self.columns if name not in table.columns]
            if missing:
                raise ColumnError(f"columns {', '.join(map(repr, missing))} are missing: the model was fitted on them")
            table = table[list(self.columns)]
        if isinstance(table, list | tuple) and table and isinstance(table[0], str | bytes):
            table = np.array([*table, None], object)[:-1]  # as they are, however long one of them is
        rows = table if hasattr(table, "iloc") else np.asarray(table)
        if not hasattr(table, "dtype") and not hasattr(table, "iloc") and rows.dtype.kind == "U":
            rows = np.asarray(table, object)  # a list of lists, whose numbers would become texts
        if len(rows.shape) == 1 and self.program.width == 1:
            rows = np.asarray(rows)[:, None]  # labels, and texts
        if rows.ndim != 2 or rows.shape[1] != self.program.width:  # noqa: PLR2004
            raise ColumnError(f"a table of shape {rows.shape}; the model takes (rows, {self.program.width})")
        if hasattr(rows, "iloc"):
            return self._of_frame(rows, scorer)
        if rows.dtype.kind in "biuf" and not self.program.host:
            return Tables(read_numbers(rows), ())
        return scorer.read(list(rows.T))

    def _of_frame(self, frame: Any, scorer: Scorer) -> Tables:
        """A frame's columns, each with its own type."""
        numeric = not self.program.host and len(self.program.numeric) == self.program.width
        if numeric and all(kind.kind in "biuf" and hasattr(kind, "newbyteorder") for kind in frame.dtypes):
            return Tables(read_numbers(np.asarray(frame)), ())
        return scorer.read([np.asarray(frame.iloc[:, place]) for place in range(self.program.width)])


def _but_leaves(program: Program) -> list[str]:
    return [name for name in program.outputs if name != "apply"]


def _restored(data: bytes, tree_strategy: str, rewrites: bool) -> CompiledPipeline:
    return CompiledPipeline(from_bytes(data), tree_strategy=tree_strategy, rewrites=rewrites)
