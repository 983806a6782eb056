"""Hints for keyword arguments that a function does not have: a typo, or a name of an earlier release."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMER_NAMES", "UnknownKeywordError", "hint_keywords"]

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


def hint_keywords(target: _Target) -> _Target:
    """Make a function, or a class's constructor, hint at the right keyword when it gets a wrong one.

    Parameters
    ----------
    target : callable
        A function, or a class whose ``__init__`` is wrapped in place, and its ``setParams`` where it has one. A
        decorator of a dataclass goes above ``@dataclass``.

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
    return cast("_Target", _checked(target, target.__name__, _keywords(target, target.__name__)))


def _keywords(function: Callable[..., Any], name: str) -> list[str]:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise TypeError(f"{name}() takes any keyword: there is none to hint at")
    return [each for each in parameters if each != "self"]


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
