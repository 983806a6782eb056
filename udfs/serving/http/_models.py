"""The models that a router serves, by name and version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import nearest
from udfs.serving import NoSuchModelError

if TYPE_CHECKING:
    from udfs.serving import Router, ServedModel

__all__ = ["find_model", "versions_of"]


def find_model(router: Router, name: str, version: str | None = None) -> ServedModel:
    """Find a version of a model; by default the last one deployed.

    Raises
    ------
    NoSuchModelError
        It is not deployed.
    """
    versions = versions_of(router, name)
    if version is None:
        return versions[-1]
    for model in versions:
        if model.version == version:
            return model
    deployed = ", ".join(model.version for model in versions)
    raise NoSuchModelError(f"model {name!r} has no version {version[:40]!r}; deployed: {deployed}")


def versions_of(router: Router, name: str) -> list[ServedModel]:
    """List a model's versions, in the order in which they were deployed.

    Raises
    ------
    NoSuchModelError
        None is deployed.
    """
    models = router.models
    versions = [model for model in models if model.name == name]
    if not versions:
        raise NoSuchModelError(f"no model {name[:100]!r} is deployed{nearest(name[:100], {m.name for m in models})}")
    return versions
