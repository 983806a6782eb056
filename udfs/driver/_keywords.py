"""Checks of the arguments of public functions: hints for names that they do not have, and the types of values."""

from __future__ import annotations

import functools
import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from optimizer.errors import InvalidArgumentError, nearest
from udfs.driver._argument_types import argument_types, check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["FORMER_NAMES", "UnknownKeywordError", "hint_names", "hint_options", "validate_arguments"]

_Target = TypeVar("_Target", bound="Callable[..., Any]")

# Keywords of earlier releases, and today's: the first one that the function has is hinted.
FORMER_NAMES: dict[str, tuple[str, ...]] = {
    "config": ("trial_id",),
    "evaluation_metric": ("metric",),
    "featuresCol": ("feature_columns",),
    "imageCol": ("image_column",),
    "labelCol": ("label_column",),
    "num_partitions": ("num_shards",),
    "partitions": ("num_shards",),
    "several": ("image_aggregation", "imageAggregation"),
    "validation": ("test_fraction",),
}


class UnknownKeywordError(InvalidArgumentError, TypeError):
    """A keyword argument that the function does not have; the message hints at the right one."""


def validate_arguments(
    target: _Target, options: Mapping[str, Any] = MappingProxyType({}), *, check: bool = True
) -> _Target:
    """Make a function, or a class's constructor, check the names and the types of its arguments.

    Parameters
    ----------
    target : callable
        A function, or a class whose ``__init__`` is wrapped in place, and its ``setParams`` where it has one. A
        decorator of a dataclass goes above ``@dataclass``.
    options : mapping of str to annotation
        Keywords that the function accepts as ``**keywords``; see :func:`hint_options`.
    check : bool
        Whether types are checked. Default true; false for a target that checks its arguments itself.

    Returns
    -------
    callable
        With the same signature. It raises :class:`UnknownKeywordError`, a ``TypeError`` too, and
        ``InvalidArgumentError`` for a value of another type than the annotation's; see
        :func:`udfs.driver._argument_types.check_types`.

    Examples
    --------
    >>> @validate_arguments
    ... def search(*, metric="loss", num_shards=1): ...
    >>> search(evaluation_metric="auc")
    Traceback (most recent call last):
    udfs.driver._keywords.UnknownKeywordError: search() has no parameter 'evaluation_metric'; did you mean 'metric'?
    """
    if isinstance(target, type):
        constructed: Any = target
        names = _keywords(constructed.__init__, target.__name__)
        kinds = argument_types(constructed.__init__.__annotations__) if check else {}
        constructed.__init__ = _checked(constructed.__init__, target.__name__, names, kinds)
        if hasattr(target, "setParams"):
            constructed.setParams = _checked(constructed.setParams, f"{target.__name__}.setParams", names, kinds)
        return target
    names = _keywords(target, target.__name__, options)
    kinds = argument_types(target.__annotations__) if check else {}
    return cast("_Target", _checked(target, target.__name__, names, kinds))


def hint_names(target: _Target) -> _Target:
    """Make a function or class hint at the right keyword, and leave the types to its own checks."""
    return validate_arguments(target, check=False)


def hint_options(options: type, *, without: Iterable[str] = ()) -> Callable[[_Target], _Target]:
    """Decorate a function with ``**keywords: Unpack[options]`` so that it hints at the right keyword.

    Parameters
    ----------
    options : type
        Typed dictionary of the keywords.
    without : iterable of str
        Keys that the function refuses.

    Examples
    --------
    >>> from typing import TypedDict, Unpack
    >>> class Options(TypedDict, total=False):
    ...     stride: int
    >>> @hint_options(Options)
    ... def explain(image, **keywords: Unpack[Options]): ...
    >>> explain("cat.png", strid=4)
    Traceback (most recent call last):
    udfs.driver._keywords.UnknownKeywordError: explain() has no parameter 'strid'; did you mean 'stride'?
    """
    accepted = {name: each for name, each in options.__annotations__.items() if name not in without}
    return functools.partial(validate_arguments, options=accepted, check=False)


def _keywords(function: Callable[..., Any], name: str, options: Iterable[str] = ()) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    if not options and any(each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypeError(f"{name}() takes any keyword: there is none to hint at")
    names = (each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self")
    return [*names, *options]


def _checked(
    function: Callable[..., Any], name: str, names: list[str], kinds: Mapping[str, tuple[str, ...]]
) -> Callable[..., Any]:
    places = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in names:
                hint = _other_place(keyword, arguments) if places[:1] == ["self"] else ""
                raise UnknownKeywordError(f"{name}() has no parameter {keyword!r}{hint or _hint(keyword, names)}")
        check_types(kinds, dict(zip(places, arguments, strict=False)) | keywords)
        return function(*arguments, **keywords)

    return call


def _other_place(keyword: str, arguments: tuple[Any, ...]) -> str:
    """Name the methods of a class, or its constructor, that have a parameter which the called function has not."""
    kind = type(arguments[0])
    methods = [
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name != "setParams" and keyword in inspect.signature(method).parameters
    ]
    if keyword in inspect.signature(kind).parameters:
        return f": it is a parameter of {kind.__name__}()"
    if not methods:
        return ""
    *first, last = (f"{name}()" for name in methods)
    return f": it is a parameter of {', '.join(first)}{' and ' if first else ''}{last}"


def _hint(keyword: str, names: list[str]) -> str:
    renamed = [today for today in FORMER_NAMES.get(keyword, ()) if today in names]
    return f"; did you mean {renamed[0]!r}?" if renamed else nearest(keyword, names)
