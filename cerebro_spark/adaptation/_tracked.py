"""Settings of a campaign that MLflow gets beside those of its searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["tracked_settings"]

_LOGGED = (
    "id_column",
    "max_records",
    "disk_bytes",
    "memory_bytes",
    "workspace_bytes",
    "materialise",
    "fuse",
    "joint",
    "storage_dtype",
    "warm_start",
)


def tracked_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Give what is logged of a campaign; of an augmentation its function's name, its copies and the seed.

    Parameters
    ----------
    given : mapping of str to object
        Settings of an :class:`Adaptation`, by name.
    """
    logged = {name: given[name] for name in _LOGGED}
    drawn = given["augmentation"]
    if drawn is not None:
        logged |= {
            "augmentation": drawn.name,
            "augmentation_copies": drawn.copies,
            "augmentation_seed": given["seed"],
        }
    return logged
