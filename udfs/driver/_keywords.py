"""Hints for keyword arguments that a function does not have: a typo, or a name of an earlier release."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["FORMER_NAMES", "UnknownKeywordError", "hint_keywords", "hint_options"]

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


def hint_keywords(target: _Target, options: Iterable[str] = ()) -> _Target:
    """Make a function, or a class's constructor, hint at the right keyword when it gets a wrong one.

    Parameters
    ----------
    target : callable
        A function, or a class whose ``__init__`` is wrapped in place, and its ``setParams`` where it has one. A
        decorator of a dataclass goes above ``@dataclass``.
    options : iterable of str
        Keywords that the function accepts as ``**keywords``; see :func:`hint_options`.

    Returns
    -------
    callable
        With the same signature. It raises :class:`UnknownKeywordError`, a ``TypeError`` too.

    Examples
    --------
    >>> @hint_keywords
    ... def search(*, metric="loss", num_shards=1): ...
    >>> search(evaluation_metric="auc")
    Traceback (most recent call last):
    udfs.driver._keywords.UnknownKeywordError: search() has no parameter 'evaluation_metric'; did you mean 'metric'?
    """
    if isinstance(target, type):
        constructed: Any = target
        names = _keywords(constructed.__init__, target.__name__)
        constructed.__init__ = _checked(constructed.__init__, target.__name__, names)
        if hasattr(target, "setParams"):
            constructed.setParams = _checked(constructed.setParams, f"{target.__name__}.setParams", names)
        return target
    return cast("_Target", _checked(target, target.__name__, _keywords(target, target.__name__, options)))


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
    names = tuple(options.__annotations__.keys() - set(without))
    return functools.partial(hint_keywords, options=names)


def _keywords(function: Callable[..., Any], name: str, options: Iterable[str] = ()) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    if not options and any(each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypeError(f"{name}() takes any keyword: there is none to hint at")
    names = (each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self")
    return [*names, *options]


def _checked(function: Callable[..., Any], name: str, names: list[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in names:
                raise UnknownKeywordError(f"{name}() has no parameter {keyword!r}{_hint(keyword, names)}")
        return function(*arguments, **keywords)

    return call


def _hint(keyword: str, names: list[str]) -> str:
    renamed = [today for today in FORMER_NAMES.get(keyword, ()) if today in names]
    return f"; did you mean {renamed[0]!r}?" if renamed else nearest(keyword, names)
