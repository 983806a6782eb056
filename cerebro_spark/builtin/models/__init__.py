"""Built-in models, one per file: each module of this folder has a ``MODEL``, and is found without being listed."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.builtin._model import BuiltinModel

__all__ = ["shipped_models"]


@cache
def shipped_models() -> Mapping[str, BuiltinModel]:
    """Import the modules of this folder, and return their models by name.

    Examples
    --------
    >>> sorted(shipped_models())
    ['bert_base', 'distilbert', 'mobilenet_v2', 'resnet50']
    """
    modules = [import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)]
    return {module.MODEL.name: module.MODEL for module in modules}
