"""Row views of a session, and the view that selects inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from udfs.shards import RowView
from udfs.training._errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.shards import Shard, TensorGroup, Tensors
    from udfs.training._session import Session

__all__ = ["InputColumns", "RowView", "check_view", "view_of", "viewed_rows"]


def check_view(view: Any) -> None:
    """Raise TrainerError if a value is no view."""
    if view is not None and not all(hasattr(view, name) for name in ("groups", "count", "rows_to_read", "apply")):
        raise TrainerError(f"view must be a RowView such as InputColumns or Windows, got {view!r}.")


def view_of(session: Session) -> RowView | None:
    """Return the view of a session's configuration; ``None`` if it reads the rows as they are."""
    view: RowView | None = getattr(session, "view", None)
    return view


def viewed_rows(view: RowView | None, rows: Tensors) -> Tensors:
    """Return rows as a configuration reads them."""
    return rows if view is None else view.apply(rows)


@dataclass(frozen=True, slots=True)
class InputColumns:
    """View that selects some inputs of the shards, in the order of the network's inputs.

    A search whose configurations read different inputs prepares all of them, and each configuration names its own: the
    layer of a pretrained network to read becomes a hyperparameter (Cerebro, section 4.3).

    Parameters
    ----------
    names : sequence of str
        Names of inputs, at least one, each once.

    Raises
    ------
    TrainerError
        There is no name, or a name twice; or, once the shards are known, they have no such input.

    Examples
    --------
    >>> import numpy as np
    >>> from udfs.shards import Tensors
    >>> rows = Tensors((np.zeros((2, 3)), np.ones((2, 5))), (np.zeros(2),), 2, names=("conv4", "conv5"))
    >>> [array.shape for array in InputColumns(["conv5"]).apply(rows).inputs]
    [(2, 5)]
    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        names = self.names
        if isinstance(names, str) or not names or not all(isinstance(name, str) for name in names):
            raise TrainerError(f"names must be a sequence of names of inputs, got {names!r}. Write InputColumns(['a'])")
        if len(set(names)) < len(names):
            raise TrainerError(f"names must be different, got {list(names)!r}.")
        object.__setattr__(self, "names", tuple(names))

    @property
    def span(self) -> int:
        """Return 1: each row is read by itself."""
        return 1

    @property
    def maps_labels(self) -> bool:
        """False: labels stay as they are."""
        return False

    def groups(
        self, inputs: tuple[TensorGroup, ...], labels: tuple[TensorGroup, ...]
    ) -> tuple[tuple[TensorGroup, ...], tuple[TensorGroup, ...]]:
        """Return the selected inputs, and all labels."""
        return tuple(inputs[place] for place in self._places([group.name for group in inputs])), labels

    def count(self, shard: Shard) -> int:
        """Return the number of rows of a shard."""
        return shard.rows

    def notes(self, shards: Sequence[Shard]) -> list[str]:
        """Return no notes: all rows are seen."""
        return []

    def rows_to_read(self, shard: Shard, rows: int) -> int:
        """Return ``rows``: every row is seen."""
        return rows

    def apply(self, rows: Tensors) -> Tensors:
        """Return rows with the selected inputs."""
        places = self._places(rows.names)
        return replace(rows, inputs=tuple(rows.inputs[place] for place in places), names=tuple(self.names))

    def _places(self, known: Sequence[str]) -> list[int]:
        unknown = next((name for name in self.names if name not in known), None)
        if unknown is not None:
            raise TrainerError(
                f"names must be inputs of the shards ({', '.join(known)}), got {unknown!r}{nearest(unknown, known)}"
            )
        return [known.index(name) for name in self.names]
