"""Typer options generated from the parameters of a dataclass or function."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from udfs.cli._command import choice, comma_separated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["OptionGroup", "parameter_docs", "with_options"]

_Command = TypeVar("_Command", bound="Callable[..., Any]")

_SCALARS: tuple[type, ...] = (str, float, int, bool)
_ENTRY = re.compile(r"([*\w]+(?:, \w+)*)(?: : (.+))?")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`|`+([^`]+)`+")


@dataclass(frozen=True)
class OptionGroup:
    """Options of a command that fill parameters of one dataclass or function.

    Names, types and defaults come from the signature. The help is the first sentence of the parameter's description in
    the numpy docstring; a type such as ``{"drop", "raise"}`` restricts the values.

    Parameters
    ----------
    target : callable or sequence of callable
        Dataclass or function that the options fill. If there are several, the first with a parameter describes it.
    names : sequence of str
        Parameters that become options.
    overrides : mapping of str to dict, optional
        Keywords of ``typer.Option`` by parameter name, such as ``{"layers": {"parser": parse_layers}}``.
    defaults : mapping of str to object, optional
        Defaults of the command that differ from those of the target.

    Examples
    --------
    >>> from optimizer.memory import ClusterSpec
    >>> [option] = OptionGroup(ClusterSpec, ["nodes"]).parameters()
    >>> option.annotation.__metadata__[0].help
    'Worker nodes; one executor runs on each.'
    """

    target: Any
    names: Sequence[str]
    overrides: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self) -> list[inspect.Parameter]:
        """Return one keyword parameter per option, annotated for typer."""
        targets = self.target if isinstance(self.target, (list, tuple)) else (self.target,)
        parameters: dict[str, inspect.Parameter] = {}
        docs: dict[str, tuple[str, str]] = {}
        for target in reversed(targets):
            parameters |= inspect.signature(target).parameters
            docs |= parameter_docs(target)
        return [self._option(parameters[name], *docs.get(name, ("", ""))) for name in self.names]

    def _option(self, parameter: inspect.Parameter, kind: str, text: str) -> inspect.Parameter:
        """Translate a parameter, its documented type and its description to a typer option."""
        name, annotation = parameter.name, str(parameter.annotation)
        default = self.defaults.get(name, parameter.default)
        scalar = next((each for each in _SCALARS if re.search(rf"\b{each.__name__}\b", annotation)), str)
        flag = f"--{name.replace('_', '-')}"
        settings: dict[str, Any] = {"help": text}
        if allowed := re.findall(r'"([^"]+)"', kind.partition("}")[0]):
            settings |= {"parser": choice(*allowed), "metavar": name.rpartition("_")[2].upper()}
            settings["help"] = f"{text} One of: {', '.join(allowed)}."
        elif "Sequence[str]" in annotation:
            settings |= {"parser": comma_separated, "metavar": "NAMES"}
        elif scalar is bool and default is False:
            settings["flags"] = (flag,)
        settings |= self.overrides.get(name, {})
        if not isinstance(default, (*_SCALARS, type(inspect.Parameter.empty))):
            default = None
        elif isinstance(default, _SCALARS) and "parser" in settings:
            default = str(default)
        option = typer.Option(*settings.pop("flags", (flag,) if scalar is not bool else ()), **settings)
        kind_of_value = scalar if default is not None else scalar | None
        return parameter.replace(
            annotation=Annotated[kind_of_value, option], default=default, kind=inspect.Parameter.KEYWORD_ONLY
        )


def with_options(**groups: OptionGroup) -> Callable[[_Command], _Command]:
    """Replace parameters of a command by groups of options.

    Parameters
    ----------
    **groups : OptionGroup
        Options by the parameter that receives them: a dict of values by name, without those that are ``None``.

    Returns
    -------
    callable
        Decorator for a function that typer runs.
    """

    def decorate(function: _Command) -> _Command:
        @functools.wraps(function)
        def command(**values: Any) -> Any:
            for name, group in groups.items():
                filled = {option: values.pop(option) for option in group.names}
                values[name] = {option: value for option, value in filled.items() if value is not None}
            return function(**values)

        parameters = inspect.signature(function, eval_str=True).parameters
        remaining = [each.replace(kind=each.KEYWORD_ONLY) for name, each in parameters.items() if name not in groups]
        options = [option for group in groups.values() for option in group.parameters()]
        # Typer reads the options of a command from its signature.
        command.__signature__ = inspect.Signature([*remaining, *options])  # type: ignore[attr-defined]
        return cast("_Command", command)

    return decorate


def parameter_docs(target: Any) -> dict[str, tuple[str, str]]:
    """Parse the parameters of a numpy docstring, including those of base classes.

    Returns
    -------
    dict of str to tuple of str
        Documented type and first sentence of the description, without markup, by parameter.

    Examples
    --------
    >>> parameter_docs(OptionGroup)["names"]
    ('sequence of str', 'Parameters that become options.')
    """
    docs: dict[str, tuple[str, str]] = {}
    for documented in reversed(target.__mro__) if isinstance(target, type) else (target,):
        docs |= _own_docs(documented)
    return docs


def _own_docs(target: Any) -> dict[str, tuple[str, str]]:
    """Parse the parameters of one docstring, without those of base classes."""
    section = inspect.cleandoc(target.__doc__ or "").partition("Parameters\n----------\n")[2]
    docs: dict[str, tuple[str, str]] = {}
    names: list[str] = []
    for line in re.split(r"\n\n\w[\w ]+\n---", section)[0].splitlines():
        if entry := _ENTRY.fullmatch(line):
            names = entry[1].split(", ")
            docs |= dict.fromkeys(names, (entry[2] or "", ""))
        else:
            docs |= {name: (docs[name][0], f"{docs[name][1]} {line.strip()}".strip()) for name in names}
    return {name: (kind, _first_sentence(text)) for name, (kind, text) in docs.items()}


def _first_sentence(text: str) -> str:
    plain = _ROLE.sub(lambda match: match[1] or match[2], text)
    return re.split(r"(?<=[\w)'\"]\.) (?=[A-Z`])", plain, maxsplit=1)[0]
