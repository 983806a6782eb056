"""Changes of a network's structure as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError

__all__ = ["LayerChange", "Structure"]

# Numbers of sizes of each kind of change; None for any.
_KINDS = {"bottleneck": 1, "separable": 1, "resized": 3, "strided": None, "removed": 0, "stored": 1}


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Replacement of a layer.

    Parameters
    ----------
    path : str
        Path of the layer's module in the network; empty for the network itself.
    kind : str
        ``"bottleneck"`` with the rank: a linear layer as two, or a convolution as one to ``rank`` channels and a 1x1
        convolution. ``"separable"`` with the rank: a convolution as a vertical and a horizontal one. ``"resized"`` with
        outputs, inputs and groups. ``"strided"`` with a stride for each spatial axis. ``"removed"``: the identity.
        ``"stored"`` with the bits of a stored weight, 8 or 16.
    sizes : sequence of int
        Numbers of the kind.

    Raises
    ------
    InvalidArgumentError
        An unknown kind, or other sizes than those of the kind.

    Examples
    --------
    >>> LayerChange("features.0", "stored", (8,))
    LayerChange(path='features.0', kind='stored', sizes=(8,))
    """

    path: str
    kind: str
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        one_of("kind", self.kind, tuple(_KINDS))
        count = _KINDS[self.kind]
        plain = all(type(size) is int and size > 0 for size in self.sizes)
        if not plain or (count is not None and len(self.sizes) != count):
            raise InvalidArgumentError(
                f"sizes of a {self.kind} layer must be {'' if count is None else f'{count} '}positive integers, got "
                f"{self.sizes!r}."
            )
        if self.kind == "stored" and self.sizes[0] not in (8, 16):
            raise InvalidArgumentError(f"bits must be 8 or 16, got {self.sizes[0]}.")


@dataclass(frozen=True, slots=True)
class Structure:
    """Changes that make a variant of a base network, in the order in which they are applied.

    ``dataclasses.asdict`` makes it plain data for JSON, and ``Structure(**data)`` reads it. Structures are joined by
    ``+``: the paths of later changes are those of the network after the earlier ones.

    Parameters
    ----------
    changes : sequence of LayerChange or mapping
        Changes, each as an object or as its fields.

    Examples
    --------
    >>> import dataclasses, json
    >>> pair, stored = LayerChange("fc", "bottleneck", (8,)), LayerChange("fc.0", "stored", (8,))
    >>> structure = Structure((pair,)) + Structure((stored,))
    >>> Structure(**json.loads(json.dumps(dataclasses.asdict(structure)))) == structure
    True
    """

    changes: tuple[LayerChange, ...] = ()

    def __post_init__(self) -> None:
        listed: Iterable[Any] = self.changes
        changes = (LayerChange(**change) if isinstance(change, Mapping) else change for change in listed)
        object.__setattr__(self, "changes", tuple(changes))

    def __add__(self, other: Structure) -> Structure:
        return Structure(self.changes + other.changes)
