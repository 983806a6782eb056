"""Getters and setters of Params, as methods that a stage's class declares in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.ml.param import Param, Params

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["accessors", "optional_accessors", "setter"]

_P = TypeVar("_P", bound=Params)
_T = TypeVar("_T")
_Method = TypeVar("_Method", bound="Callable[..., Any]")


def accessors(param: Param[_T], what: str) -> tuple[Callable[[Any], _T], Callable[[_P, _T], _P]]:
    """Return the getter and the setter of a Param that has a value: ``getTau, setTau = accessors(tau, "...")``.

    Parameters
    ----------
    param : Param
        Param of the class in whose body both are declared.
    what : str
        Noun phrase for the docstrings, such as ``"the number of epochs"``.
    """

    def get(self: Any) -> Any:
        return self.getOrDefault(param.name)

    return _named(get, "get", param, f"Return {what}."), setter(param, what)


def optional_accessors(param: Param[_T], what: str) -> tuple[Callable[[Any], _T | None], Callable[[_P, _T], _P]]:
    """Return the getter and the setter of a Param without a default: the getter returns ``None`` if it is not set."""

    def get(self: Any) -> Any:
        return self.getOrDefault(param.name) if self.isDefined(param.name) else None

    return _named(get, "get", param, f"Return {what}, or ``None`` if it is not set."), setter(param, what)


def setter(param: Param[_T], what: str) -> Callable[[_P, _T], _P]:
    """Return the setter of a Param, which pyspark's mixins leave to the stage."""

    def set_value(self: _P, value: _T) -> _P:
        return self._set(**{param.name: value})

    return _named(set_value, "set", param, f"Set {what}.")


def _named(method: _Method, verb: str, param: Param[Any], doc: str) -> _Method:
    method.__name__ = f"{verb}{param.name[0].upper()}{param.name[1:]}"
    method.__doc__ = doc
    return method
