"""Description of a built-in model: plain data that a page can show without a framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BuiltinModel", "values"]


def values(*listed: float) -> dict[str, Any]:
    """Return the entry of a search space that tries the listed values."""
    return {"kind": "choice", "values": list(listed)}


@dataclass(frozen=True, kw_only=True)
class BuiltinModel:
    """Built-in model.

    Parameters
    ----------
    name : str
        Key, such as ``"resnet50"``.
    title : str
        Name for people.
    input : {"image", "text"}
        Content of the feature column.
    network : str
        Network for images: a name of the roster, or anything else that ``vista_spark.roster.of`` accepts.
    sizes : mapping
        Sizes of an encoder for texts whose weights are in no folder, as fields of ``udfs.roster.BertShape``.
    search_spaces : mapping
        Default search space by training, in the form of the launch document.
    settings : mapping
        Default settings of a search, with the settings of the model: ``image_size``, or ``max_length``.
    reference : str
        Source of the network and of its hyperparameters.

    Examples
    --------
    >>> model = BuiltinModel(
    ...     name="mine",
    ...     title="Mine",
    ...     input="image",
    ...     network="resnet18",
    ...     search_spaces={"full": {"lr": values(1e-4, 1e-6)}},
    ...     settings={"image_size": 224, "num_epochs": 10},
    ... )
    >>> model.space("full")
    {'lr': [0.0001, 1e-06]}
    """

    name: str
    title: str
    input: Literal["image", "text"]
    search_spaces: Mapping[str, Mapping[str, Mapping[str, Any]]]
    settings: Mapping[str, Any]
    network: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """Description as plain data, which JSON can represent."""
        return {
            "name": self.name,
            "title": self.title,
            "input": self.input,
            "trainings": list(self.search_spaces),
            "search_space": {
                training: {name: dict(entry) for name, entry in space.items()}
                for training, space in self.search_spaces.items()
            },
            "settings": dict(self.settings),
            "reference": self.reference,
        }

    def space(self, training: str) -> dict[str, list[Any]]:
        """Return the default search space of a training, as a search takes it.

        Raises
        ------
        InvalidArgumentError
            The model has no such training.
        """
        one_of("training", training, tuple(self.search_spaces))
        return {name: list(entry["values"]) for name, entry in self.search_spaces[training].items()}

    def check_parameters(self, training: str, names: Mapping[str, Any]) -> None:
        """Refuse hyperparameters that the model does not have.

        Raises
        ------
        InvalidArgumentError
            A name is unknown; the message lists the known ones.
        """
        known = list(self.space(training))
        for name in names:
            if name not in known:
                raise InvalidArgumentError(
                    f"search_space of {self.name!r} must have hyperparameters among {', '.join(known)}, got "
                    f"{name!r}{nearest(name, known) or '.'}"
                )
