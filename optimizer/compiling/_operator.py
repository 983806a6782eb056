"""What all operators have in common: arrays, widths, a document."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["OPERATORS", "Operator", "check_choice", "later", "width_of"]

OPERATORS: dict[str, type[Operator]] = {}
"""Every operator by its name, as documents have it."""


_LATER = "later"


def later(default: Any) -> Any:
    """Declare a field that an operator had not in an earlier version: programs of that one are read, with its default.

    At its default it is no part of the document or the digest, which are those of the earlier version then.
    """
    return field(default=default, metadata={_LATER: True})


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """A function from tables of numbers to one table, row by row. Its fields are numbers, texts and numpy arrays.

    A subclass is registered under its own name, and says which widths it takes.
    """

    arity: ClassVar[int | None] = 1
    """Inputs that it takes; ``None`` for any number from one."""
    host: ClassVar[bool] = False
    """Whether the host runs it on columns of the input, before the tensor program."""

    def __init_subclass__(cls) -> None:
        """Register the operator. With slots, dataclass makes the class twice: the second one counts."""
        OPERATORS[cls.__name__] = cls

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result.

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
        """Give the arrays among the fields, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def numbers(self) -> dict[str, Any]:
        """Give the fields that are no arrays, as JSON takes them; without those of :func:`later` at their defaults."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        usual = {one.name: one.default for one in fields(self) if one.metadata.get(_LATER)}
        return {
            name: value
            for name, value in values.items()
            if not isinstance(value, np.ndarray) and not (name in usual and value == usual[name])
        }

    def digest(self) -> bytes:
        """Give a fingerprint: equal for operators that have the same class, numbers and arrays, bit by bit."""
        # The repr of a number tells -0.0 from 0.0, and has all its digits.
        seen = hashlib.sha256(f"{type(self).__name__} {self.numbers()!r}".encode())
        for name, array in self.arrays().items():
            seen.update(f"{name} {array.dtype.str} {array.shape}".encode())
            seen.update(np.ascontiguousarray(array).tobytes())
        return seen.digest()

    @classmethod
    def build(cls, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Operator:
        """Build an operator from what :meth:`numbers` and :meth:`arrays` gave.

        Raises
        ------
        ProgramError
            A field is missing, but for a :func:`later` one, or there is one too many, or a value is not allowed.
        """
        given, known = {*numbers, *arrays}, {one.name for one in fields(cls)}
        if not known >= given >= {one.name for one in fields(cls) if not one.metadata.get(_LATER)}:
            raise ProgramError(f"{cls.__name__} has the fields {sorted(known)}, and the document has {sorted(given)}")
        return cls(**numbers, **arrays)

    def explain(self) -> str:
        """Describe the operator in a few words."""
        said = [f"{name}={value!r}" for name, value in self.numbers().items()]
        said += [f"{name} {value.shape}" for name, value in self.arrays().items()]
        return f"{type(self).__name__}({', '.join(said)})"


def check_choice(operator: str, field: str, value: str, allowed: Sequence[str]) -> None:
    """Check a field that takes one of a few texts.

    Raises
    ------
    ProgramError
        It has another one.
    """
    if value not in allowed:
        raise ProgramError(f"{operator}: {field}={value!r} is none of {', '.join(allowed)}")


def width_of(operator: Operator, given: int, expected: int) -> int:
    """Check the columns of an input.

    Raises
    ------
    ProgramError
        They are not as many as expected.
    """
    if given != expected:
        raise ProgramError(f"{operator.explain()} takes {expected} columns, not {given}")
    return given
