"""Base class of operators: arrays, widths, and the document of a saved program."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from optimizer.compiling._errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["OPERATORS", "Operator", "check_choice", "later", "width_of"]

OPERATORS: dict[str, type[Operator]] = {}
"""Every operator by its name, as documents have it."""


_LATER = "later"


def later(default: Any) -> Any:
    """Declare a field that was added in a later version: programs of earlier versions are read with its default.

    At its default it is not part of the document or the digest, so both stay those of the earlier version.
    """
    return field(default=default, metadata={_LATER: True})


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """Function from tables of numbers to one table, row by row. Fields are numbers, texts and numpy arrays.

    A subclass is registered under its name and validates the widths of its inputs.
    """

    arity: ClassVar[int | None] = 1
    """Number of inputs; ``None`` for any number from one."""
    host: ClassVar[bool] = False
    """Whether the host runs it on columns of the input, before the tensor program."""

    def __init_subclass__(cls) -> None:
        """Register the operator. With slots, dataclass makes the class twice: the second one counts."""
        OPERATORS[cls.__name__] = cls

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result.

        Parameters
        ----------
        inputs : sequence of int
            Columns of each input.

        Raises
        ------
        ProgramError
            The operator does not take inputs of these widths.
        """
        return inputs[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays among the fields, by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def numbers(self) -> dict[str, Any]:
        """Return the other fields for JSON, without those of :func:`later` at their defaults."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        usual = {item.name: item.default for item in fields(self) if item.metadata.get(_LATER)}
        return {
            name: value
            for name, value in values.items()
            if not isinstance(value, np.ndarray) and not (name in usual and value == usual[name])
        }

    def digest(self) -> bytes:
        """Return a fingerprint, equal for operators of the same class with the same numbers and arrays."""
        # The repr of a number tells -0.0 from 0.0, and has all its digits.
        seen = hashlib.sha256(f"{type(self).__name__} {self.numbers()!r}".encode())
        for name, array in self.arrays().items():
            seen.update(f"{name} {array.dtype.str} {array.shape}".encode())
            seen.update(np.ascontiguousarray(array).tobytes())
        return seen.digest()

    @classmethod
    def build(cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Operator:
        """Build an operator from the results of :meth:`numbers` and :meth:`arrays`.

        Raises
        ------
        ProgramError
            A field is missing that is not a :func:`later` one, a field is unknown, or a value is not allowed.
        """
        present, known = {*numbers, *arrays}, {item.name for item in fields(cls)}
        if not known >= present >= {item.name for item in fields(cls) if not item.metadata.get(_LATER)}:
            raise ProgramError(f"{cls.__name__} must have the fields {sorted(known)}, got {sorted(present)}.")
        return cls(**numbers, **arrays)

    def explain(self) -> str:
        """Describe the operator in a few words."""
        said = [f"{name}={value!r}" for name, value in self.numbers().items()]
        said += [f"{name} {value.shape}" for name, value in self.arrays().items()]
        return f"{type(self).__name__}({', '.join(said)})"


def check_choice(operator: str, field: str, value: str, allowed: Sequence[str]) -> None:
    """Validate a field with a fixed set of values.

    Raises
    ------
    ProgramError
        The value is not allowed.
    """
    if value not in allowed:
        raise ProgramError(f"{field} of {operator} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def width_of(operator: Operator, width: int, expected: int) -> int:
    """Validate the number of columns of an input, and return it.

    Raises
    ------
    ProgramError
        The input has another number of columns.
    """
    if width != expected:
        raise ProgramError(f"input of {operator.explain()} must have {expected} columns, got {width}.")
    return width
