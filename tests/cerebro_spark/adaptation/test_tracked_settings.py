"""What MLflow gets of a campaign."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cerebro_spark import Augmentation
from cerebro_spark.adaptation._mlflow_settings import _LOGGED, tracked_settings

if TYPE_CHECKING:
    import numpy as np


def mirrored(record: dict[str, Any], generator: np.random.Generator, share: float = 0.5) -> dict[str, Any]:
    return {name: tensor[..., ::-1] if generator.random() < share else tensor for name, tensor in record.items()}


def test_an_augmentation_is_logged_by_name_copies_and_seed() -> None:
    settings: Any = SimpleNamespace(**dict.fromkeys(_LOGGED, 7), augmentation=None, seed=3, trainer_fn=mirrored)
    assert tracked_settings(settings) == dict.fromkeys(_LOGGED, 7)
    settings.augmentation = Augmentation(partial(mirrored, share=0.1), 4)
    assert tracked_settings(settings) == dict.fromkeys(_LOGGED, 7) | {
        "augmentation": f"{mirrored.__module__}.mirrored",
        "augmentation_copies": 4,
        "augmentation_seed": 3,
    }
