"""Lookup of a router's models by name and version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import nearest
from udfs.serving import NoSuchModelError

if TYPE_CHECKING:
    from udfs.serving import Router, ServedModel

__all__ = ["find_model", "versions_of"]


def find_model(router: Router, name: str, version: str | None = None) -> ServedModel:
    """Return a version of a model; by default the last one deployed.

    Raises
    ------
    NoSuchModelError
        The model or the version is not deployed.
    """
    versions = versions_of(router, name)
    if version is None:
        return versions[-1]
    for model in versions:
        if model.version == version:
            return model
    deployed = ", ".join(model.version for model in versions)
    raise NoSuchModelError(f"version of model {name!r} must be one of {deployed}, got {version[:40]!r}.")


def versions_of(router: Router, name: str) -> list[ServedModel]:
    """Return a model's versions, in the order of their deployment.

    Raises
    ------
    NoSuchModelError
        The model is not deployed.
    """
    models = router.models
    versions = [model for model in models if model.name == name]
    if not versions:
        raise NoSuchModelError(
            f"Model {name[:100]!r} is not deployed{nearest(name[:100], {m.name for m in models}) or '.'}"
        )
    return versions
