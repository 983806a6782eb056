"""Checks of a scheme's arguments that the frameworks share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from udfs.handlers import framework_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["adapters", "framework_module", "module_paths"]

_MODULES = {"torch": "cerebro_spark.schemes._torch", "keras": "cerebro_spark.schemes._keras"}


def framework_module(net: object) -> Any:
    """Import the module with the schemes of a network's framework.

    Raises
    ------
    InvalidArgumentError
        The network is not one of torch or Keras.
    """
    framework = framework_of(net)
    if framework is None or framework.name not in _MODULES:
        kind = type(net)
        raise InvalidArgumentError(
            f"net is a {kind.__module__}.{kind.__qualname__}: give a torch.nn.Module or a keras.Model; of others, "
            "freeze what is not to learn and hand the model to ModelTrainer"
        )
    return import_module(_MODULES[framework.name])


def adapters(net: object, scheme: str) -> Any:
    """Import the module with the adapters, which only torch has.

    Raises
    ------
    InvalidArgumentError
        The network is not one of torch.
    """
    framework = framework_of(net)
    if framework is None or framework.name != "torch":
        kind = type(net)
        raise InvalidArgumentError(f"{scheme} adapts a torch.nn.Module; net is a {kind.__module__}.{kind.__qualname__}")
    from cerebro_spark.schemes import _torch_adapters  # imports torch

    return _torch_adapters


def module_paths(layers: object, argument: str = "layers") -> list[str]:
    """Read names of layers: one or several of str, or layers of a card as ``roster.card(...).resolve(...)`` gives them.

    Raises
    ------
    InvalidArgumentError
        None, one that is no name, or one twice.
    """
    listed: Sequence[Any] = [layers] if isinstance(layers, str) or hasattr(layers, "module") else list(layers)  # type: ignore[call-overload]
    paths = [getattr(layer, "module", layer) for layer in listed]
    wrong = [path for path in paths if not isinstance(path, str)]
    if wrong or not paths:
        raise InvalidArgumentError(
            f"{argument}={layers!r}: give names of layers, such as 'encoder.layer.5', or those of a card: "
            "roster.card('minilm_l6').resolve(2)"
        )
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise InvalidArgumentError(f"{argument} has {twice[0]!r} twice: name each layer once")
    return paths
