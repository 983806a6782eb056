"""Installed packages, which workers have as well, told from the user's own modules, which only the driver has."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_own_module", "own_packages"]

_OURS = ("vista_spark", "cerebro_spark", "udfs", "optimizer")

# Folders that installers alone write to, under whatever prefix: of a virtual environment, a user or a distribution.
_SITES = frozenset({"site-packages", "dist-packages"})

# Folders to which Spark copies files that the user adds to a session: workers have those.
_SHIPPED = "userFiles-"


def own_packages(modules: Iterable[str]) -> set[str]:
    """Name the top packages of modules whose source lies beside the user's code, not among what is installed.

    Examples
    --------
    >>> own_packages(["collections.abc", "numpy"])
    set()
    """
    return {name for name in {module.partition(".")[0] for module in modules} if is_own_module(name)}


def is_own_module(name: str) -> bool:
    """Return whether a loaded top-level module is the user's own.

    Installed are the standard library; what lies in a folder ``site-packages`` or ``dist-packages`` of an environment
    of any kind; and what a distribution installed into another folder of Python's path, as ``pip install --target``
    does. A package that is installed as editable is the user's own.
    """
    module: object = sys.modules.get(name)
    if not isinstance(module, ModuleType) or name in ("__main__", *_OURS) or name in sys.stdlib_module_names:
        return False
    files = [module.__file__] if module.__file__ else list(getattr(module, "__path__", ()))
    return bool(files) and not any(_is_installed(name, str(file)) for file in files)


@lru_cache(maxsize=1024)
def _is_installed(name: str, file: str) -> bool:
    path = Path(file).absolute()
    places = (path, path.resolve())
    if any(_SITES.intersection(place.parts) or _SHIPPED in str(place) for place in places):
        return True
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    if stdlib in places[1].parents:
        return True
    entries = {Path(entry or ".").resolve() for entry in sys.path}
    return any(_has_distribution(str(entry), name) for entry in entries.intersection(places[1].parents))


@lru_cache(maxsize=256)
def _has_distribution(folder: str, name: str) -> bool:
    """Return whether a distribution has installed a package into a folder."""
    return any(_provides(distribution, name) for distribution in distributions(path=[folder]))


def _provides(distribution: Distribution, name: str) -> bool:
    # The list of installed files, which a source folder with the metadata of a build does not have.
    listed = (distribution.read_text("RECORD") or "").splitlines()
    return any(line.startswith((f"{name}/", f"{name}.")) for line in listed)
