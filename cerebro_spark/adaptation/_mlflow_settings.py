"""Settings of a campaign that MLflow logs beside those of its searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cerebro_spark.adaptation._settings import CampaignSettings

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


def tracked_settings(settings: CampaignSettings) -> dict[str, Any]:
    """Return the settings of a campaign to log, with the name, copies and seed of its augmentation."""
    logged = {name: getattr(settings, name) for name in _LOGGED}
    augmentation = settings.augmentation
    if augmentation is not None:
        logged |= {
            "augmentation": augmentation.name,
            "augmentation_copies": augmentation.copies,
            "augmentation_seed": settings.seed,
        }
    return logged
