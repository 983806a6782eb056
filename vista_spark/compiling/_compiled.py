"""A compiled pipeline: a program with the methods of the model that it was."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from optimizer.compiling import Program, strategies_of
from udfs.compiling import from_bytes, to_bytes
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from udfs.compiling.torch import Engine

__all__ = ["CompiledPipeline"]

# Beyond it float64 does not have every whole number, and the library may round another way.
_WHOLE = 2**53


class CompiledPipeline:
    """The predictions of a model by a tensor program.

    It has the methods of the model that the program gives: ``outputs`` names them. It pickles as its own bytes, and so
    travels to a Spark worker that has no training library. :class:`TensorPipeline` runs it over a DataFrame.

    Parameters
    ----------
    program : Program
    tree_strategy : str
        As of :func:`compile_pipeline`.

    Raises
    ------
    optimizer.compiling.UnsupportedOperatorError
        There is no such strategy, or its trees would not fit into memory.
    """

    def __init__(self, program: Program, *, tree_strategy: str = "auto") -> None:
        self.program = program
        self.tree_strategy = tree_strategy
        # The door: a strategy that does not fit these trees is refused now, not in a task.
        self._strategies = strategies_of(program, tree_strategy)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Methods of the model that the program gives."""
        return tuple(self.program.outputs)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that it reads, where the model was fitted on a DataFrame."""
        return self.program.columns

    def explain(self) -> str:
        """Describe operators, and how trees run."""
        ways = [f"  {node} runs by {strategy}" for node, strategy in self._strategies.items()]
        return "\n".join([self.program.explain(), *ways])

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
    def load(cls, path: str | Path, *, tree_strategy: str = "auto") -> CompiledPipeline:
        """Read what :meth:`save` wrote.

        Raises
        ------
        optimizer.compiling.ProgramError
            The file is no compiled pipeline, or has been altered.
        """
        return cls(from_bytes(Path(path).read_bytes()), tree_strategy=tree_strategy)

    def __reduce__(self) -> tuple[Callable[..., CompiledPipeline], tuple[bytes, str]]:
        return _restored, (to_bytes(self.program), self.tree_strategy)

    @cached_property
    def _engine(self) -> Engine:
        from udfs.compiling.torch import Engine  # noqa: PLC0415 - imports torch

        return Engine(self.program, self.tree_strategy)

    def _run(self, method: str, table: ArrayLike) -> Any:
        if method not in self.program.outputs:
            self._refuse(method)
        rows = self._numbers(table)
        answer = self._engine.run(rows)
        if answer.bad.any():
            first, more = int(np.argmax(answer.bad)), int(answer.bad.sum()) - 1
            who = f"row {first} and {more:,} more have" if more else f"row {first} has"
            raise InvalidArgumentError(f"{who} {' or '.join(answer.reasons)}")
        return answer.outputs[method]

    def _refuse(self, method: str) -> NoReturn:
        raise AttributeError(f"the model that was compiled has no {method}; it has {', '.join(self.outputs)}")

    def _numbers(self, table: Any) -> NDArray[Any]:
        """The table as float32 or float64, its columns in the model's order."""
        if hasattr(table, "columns") and self.columns is not None:
            missing = [name for name in self.columns if name not in table.columns]
            if missing:
                raise ColumnError(f"columns {', '.join(map(repr, missing))} are missing: the model was fitted on them")
            table = table[list(self.columns)]
        rows = np.asarray(table)
        if rows.ndim != 2 or rows.shape[1] != self.program.width:  # noqa: PLR2004
            raise ColumnError(f"a table of shape {rows.shape}; the model takes (rows, {self.program.width})")
        if rows.dtype.kind not in "biuf":
            try:
                rows = rows.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ColumnError(f"a table of {rows.dtype} that holds more than numbers: {error}") from error
        if rows.dtype.kind in "iu" and rows.size and max(abs(int(rows.min())), abs(int(rows.max()))) > _WHOLE:
            raise InvalidArgumentError(f"whole numbers beyond {_WHOLE} lose digits as float64: give floats")
        return rows if rows.dtype in {np.dtype(np.float32), np.dtype(np.float64)} else rows.astype(np.float64)


def _restored(data: bytes, tree_strategy: str) -> CompiledPipeline:
    return CompiledPipeline(from_bytes(data), tree_strategy=tree_strategy)
