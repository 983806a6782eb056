"""Conventions of LightGBM: integers that it rounds to float32, and spaces that it writes as underscores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import INPUT, Finite, NarrowIntegers, ReadAs, Select, Within
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optimizer.compiling import Program

__all__ = ["check_integers", "narrows_integers", "spelled"]


def narrows_integers(program: Program) -> str | None:
    """Name the library that reads columns of the input as they are and narrows integers; ``None`` if none does."""
    nodes = {node.name: node for node in program.nodes}
    for node in program.nodes:
        if isinstance(node.operator, NarrowIntegers):
            name = node.inputs[0]
            while name in nodes and isinstance(nodes[name].operator, Select | Finite | ReadAs | Within):
                name = nodes[name].inputs[0]
            if name == INPUT:
                return node.operator.who
    return None


def check_integers(rows: Any, library: str) -> None:
    """Validate that the integers of an array are exact as float32, to which the library rounds them.

    Raises
    ------
    InvalidArgumentError
        A number is not.
    """
    if rows.dtype.kind not in "iu":
        return
    rounded = rows.astype(np.float64) != rows.astype(np.float32)
    if np.any(rounded):
        raise InvalidArgumentError(
            f"X must hold integers that are exact as float32, to which {library} rounds them, got {rows[rounded][0]}. "
            "Pass floats."
        )


def spelled(known: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Map names with underscores to the columns of a table that have spaces instead.

    Names that two columns could have are left out.
    """
    written: dict[str, list[str]] = {}
    texts = [name for name in names if isinstance(name, str)]
    for name in texts:
        written.setdefault(name.replace(" ", "_"), []).append(name)
    columns = set(texts)
    return {name: written[name][0] for name in known if name not in columns and len(written.get(name, ())) == 1}
