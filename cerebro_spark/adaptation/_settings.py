"""Settings of a campaign, which its checks, plans and cycles read."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.callbacks import Callback
    from cerebro_spark.hopper import SparkBackend
    from cerebro_spark.tune import Search
    from optimizer.adaptation import Costs
    from optimizer.space import Space
    from udfs.adaptation import Augmentation
    from udfs.handlers import ModelTrainer
    from udfs.store import Store

__all__ = ["CampaignSettings"]


@dataclass(kw_only=True, eq=False)
class CampaignSettings:
    """Fields of an :class:`Adaptation`, whose documentation describes them."""

    backend: SparkBackend
    store: Store
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    search_space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space
    id_column: str
    feature_columns: Sequence[str] | Mapping[str, Sequence[str]]
    label_columns: Sequence[str]
    search: Callable[..., Search] | None = None
    weight_column: str | None = None
    image_size: int | None = None
    test_fraction: float = 0.25
    name: str = field(default_factory=lambda: f"adaptation-{uuid.uuid4().hex[:12]}")
    max_records: int = 5000
    disk_bytes: int = 25 << 30
    memory_bytes: int | None = None
    workspace_bytes: int = 640 << 20
    materialise: bool = True
    fuse: bool = True
    joint: bool = True
    storage_dtype: str = "float32"
    warm_start: bool = False
    augmentation: Augmentation | None = None
    costs: Costs | None = None
    bytes_per_second: float | None = None
    checkpoints: str | None = None
    replicas: int | None = None
    metric: str | Sequence[str] = "loss"
    mode: str | Sequence[str] | None = None
    errors: str = "drop"
    callbacks: Sequence[Callback] = ()
    experiment: str | None = None
    tensorboard: str | None = None
    progress: bool = True
    unit_timeout_s: float | None = None
    schedule: str = "least-far-along"
    rounds: str = "rolling"
    seed: int = 0
