"""Variants of an ablation: the full model, the model without each part, and random controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optimizer.errors import InvalidArgumentError, nearest

__all__ = ["FULL", "Kind", "Variant", "design"]

FULL = "full"
"""Name of the variant from which nothing is removed."""

Kind = Literal["full", "features", "modules", "params", "random features", "random parameters"]


@dataclass(frozen=True, slots=True)
class Variant:
    """Configuration with a part removed.

    Parameters
    ----------
    name : str
        Name of the part, or of the random control.
    kind : str
        Kind of the part: ``"features"``, ``"modules"`` or ``"params"``; ``"full"``, ``"random features"`` or
        ``"random parameters"`` for the others.
    removed : tuple of str
        Columns, modules or params to remove. A random control of modules removes as many parameters as these modules
        have.
    count : int
        Number of columns that a control removes at random. Default 0.
    control : str
        Name of the variant that removes equally much at random; ``""`` without one.
    """

    name: str
    kind: Kind
    removed: tuple[str, ...] = ()
    count: int = 0
    control: str = ""

    @property
    def is_control(self) -> bool:
        """True if the variant removes a random part."""
        return self.kind in {"random features", "random parameters"}


def design(
    *,
    features: Any = None,
    modules: Any = None,
    params: Any = None,
    columns: Sequence[str],
    controls: bool = True,
) -> tuple[Variant, ...]:
    """List the variants of an ablation: the full model, one per part, and a random control for each size.

    Parameters
    ----------
    features, modules, params : sequence of str, or mapping of str to str or sequence of str
        Parts to remove. A mapping names each part; an entry of a sequence is a part of one member.
    columns : sequence of str
        Feature columns of the model.
    controls : bool
        Whether to add random controls. Default ``True``. Parts of ``params`` have none.

    Returns
    -------
    tuple of Variant
        The full model first, controls last.

    Raises
    ------
    InvalidArgumentError
        There is nothing to remove, a column is unknown, a part has no or all columns, or two parts have one name.

    Examples
    --------
    >>> [variant.name for variant in design(features={"capital": ["gain", "loss"]}, columns=["gain", "loss", "age"])]
    ['full', 'capital', '2 random features']
    """
    parts = {
        "features": _parts("features", features),
        "modules": _parts("modules", modules),
        "params": _parts("params", params),
    }
    if not any(parts.values()):
        raise InvalidArgumentError(
            "features, modules or params must name a part to remove, got none. Pass features=['age'], for example"
        )
    _check_columns(parts["features"], columns)
    _check_names(parts)
    variants = [Variant(FULL, "full")]
    random: dict[str, Variant] = {}
    for name, members in parts["features"].items():
        count = len(members)
        control = f"{count} random feature{'s' if count > 1 else ''}" if controls else ""
        variants.append(Variant(name, "features", members, control=control))
        if control:
            random[control] = Variant(control, "random features", count=count)
    for name, members in parts["modules"].items():
        control = f"random parameters, as many as {name}" if controls else ""
        variants.append(Variant(name, "modules", members, control=control))
        if control:
            random[control] = Variant(control, "random parameters", members)
    variants += [Variant(name, "params", members) for name, members in parts["params"].items()]
    return (*variants, *random.values())


def _parts(argument: str, value: Any) -> dict[str, tuple[str, ...]]:
    """Read the parts of an argument, by name."""
    if value is None:
        return {}
    example = f'{argument}=["a", "b"] or {argument}={{"both": ["a", "b"]}}'
    if isinstance(value, Mapping):
        listed = {name: (each,) if isinstance(each, str) else each for name, each in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if len(set(map(str, value))) < len(value):
            raise InvalidArgumentError(f"{argument} must have different parts, got {list(value)!r}.")
        listed = {each: (each,) for each in value if isinstance(each, str)}
        if len(listed) < len(value):
            raise InvalidArgumentError(f"{argument} must be names, such as {example}, got {value!r}.")
    else:
        raise InvalidArgumentError(f"{argument} must be a sequence or a mapping, such as {example}, got {value!r}.")
    for name, members in listed.items():
        if (
            not isinstance(name, str)
            or not isinstance(members, Sequence)
            or not members
            or not all(isinstance(member, str) and member for member in members)
        ):
            raise InvalidArgumentError(f"{argument} must be names, such as {example}, got {name!r}: {members!r}.")
        if len(set(members)) < len(members):
            raise InvalidArgumentError(f"{argument} must name each member of {name!r} once, got {list(members)!r}.")
    return {name: tuple(members) for name, members in listed.items()}


def _check_columns(parts: Mapping[str, tuple[str, ...]], columns: Sequence[str]) -> None:
    for name, members in parts.items():
        for column in members:
            if column not in columns:
                raise InvalidArgumentError(
                    f"features must be feature columns ({', '.join(columns)}), got {column!r}"
                    f"{nearest(column, columns) or '.'}"
                )
        if set(members) == set(columns):
            raise InvalidArgumentError(
                f"features must leave at least one feature column, got {name!r} with all {len(columns)}. "
                "A model without features predicts a constant: remove a smaller group"
            )


def _check_names(parts: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    names = [name for group in parts.values() for name in group]
    for place, name in enumerate(names):
        if name in names[:place] or name == FULL:
            raise InvalidArgumentError(
                f"features, modules and params must have different names, none {FULL!r}, got {name!r} twice. "
                f'Name a part with a mapping, as in modules={{"my {name}": ["{name}"]}}'
            )
