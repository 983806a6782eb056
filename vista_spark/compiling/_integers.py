"""Whole numbers that a library rounds, or gives back as such, and names of columns that it writes otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from optimizer.compiling import INPUT, AdditiveChi2, Finite, NarrowIntegers, Select, Within
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optimizer.compiling import Operator, Program

__all__ = ["check_floats", "check_integers", "narrows_integers", "rounds_results", "spelled", "underscored"]


_Reader = TypeVar("_Reader", bound="Operator")


def narrows_integers(program: Program) -> str | None:
    """Name the library that gets the table's own numbers, be they chosen or checked before, and narrows integers."""
    found = _readers(program, NarrowIntegers)
    return found[0].who if found else None


def rounds_results(program: Program) -> bool:
    """Whether a step gets the table's own numbers that gives whole ones for such: ``AdditiveChi2Sampler``."""
    return bool(_readers(program, AdditiveChi2))


def _readers(program: Program, kind: type[_Reader]) -> list[_Reader]:
    """Operators of a class whose input is the table itself, or columns of it that were checked."""
    nodes = {node.name: node for node in program.nodes}
    found = []
    for node in program.nodes:
        name = node.inputs[0] if isinstance(node.operator, kind) else ""
        while name in nodes and isinstance(nodes[name].operator, Select | Finite | Within):
            name = nodes[name].inputs[0]
        if name == INPUT and isinstance(node.operator, kind):
            found.append(node.operator)
    return found


def check_floats(rows: Any) -> None:
    """Refuse an array or a DataFrame of whole numbers alone.

    Raises
    ------
    InvalidArgumentError
        It is one.
    """
    kinds = {getattr(kind, "kind", "O") for kind in (rows.dtypes if hasattr(rows, "iloc") else [rows.dtype])}
    if kinds <= set("biu"):
        raise InvalidArgumentError(
            "a table of whole numbers, for which AdditiveChi2Sampler rounds its results to such: give floats"
        )


def check_integers(rows: Any, who: str) -> None:
    """Refuse whole numbers of an array that are no float32: the library would round them, and floats it would not.

    Raises
    ------
    InvalidArgumentError
        There is one.
    """
    if rows.dtype.kind not in "iu":
        return
    wide = rows.astype(np.float64) != rows.astype(np.float32)
    if np.any(wide):
        raise InvalidArgumentError(
            f"{who} rounds whole numbers of an array to float32, which has no {rows[wide][0]}: give an array of floats"
        )


def spelled(known: Iterable[str], there: Iterable[str]) -> dict[str, str]:
    """Find columns of a table whose spaces the library has written as underscores: the table's names by its own.

    A name that two columns could have is nobody's.
    """
    written: dict[str, list[str]] = {}
    names = [name for name in there if isinstance(name, str)]
    for name in names:
        written.setdefault(name.replace(" ", "_"), []).append(name)
    own = set(names)
    return {name: written[name][0] for name in known if name not in own and len(written.get(name, ())) == 1}


def underscored(table: Any, known: tuple[str, ...]) -> Any:
    """Rename columns of a DataFrame of pandas whose spaces the library has written as underscores."""
    return table.rename(columns={column: name for name, column in spelled(known, table.columns).items()})
