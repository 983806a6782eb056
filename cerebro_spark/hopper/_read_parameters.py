"""Record of the hyperparameters that a user's function reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.training import TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["ReadParameters"]


class ReadParameters:
    """Function of a configuration to a trainer that records the parameters which ``trainer_fn`` reads."""

    def __init__(self, trainer_fn: Callable[[dict[str, Any]], Any]) -> None:
        self._trainer_fn = trainer_fn
        self._read: set[str] = set()

    def __call__(self, params: Mapping[str, Any]) -> Any:
        """Call the user's function; the parameters that it passes to a function of its own count as read."""
        trainer = self._trainer_fn(_Recorded(params, self._read))
        if isinstance(trainer, TrainingFunctions):
            self._read.update(params)
        return trainer

    def unread(self, configurations: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> list[str]:
        """List the parameters of a configuration that were not read and differ between the configurations."""
        return [
            name
            for name, value in params.items()
            if name not in self._read and any(other.get(name) != value for other in configurations)
        ]


class _Recorded(dict[str, Any]):
    """Configuration that adds the names of read parameters to a set; iterating over it reads all of them."""

    def __init__(self, params: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(params)
        self._names = read

    def __getitem__(self, name: str) -> Any:
        self._names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._names.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self._names.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self._names.add(name)
        return super().setdefault(name, default)

    def popitem(self) -> tuple[str, Any]:
        self._names.update(self)
        return super().popitem()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Any:
        self._names.update(super().keys())
        return super().keys()

    def values(self) -> Any:
        self._names.update(super().keys())
        return super().values()

    def items(self) -> Any:
        self._names.update(super().keys())
        return super().items()

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __ne__(self, other: object) -> bool:
        return self.copy() != other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)
