"""MobileNetV2."""

from __future__ import annotations

from cerebro_spark.builtin._model import BuiltinModel, values

__all__ = ["MODEL"]

MODEL = BuiltinModel(
    name="mobilenet_v2",
    title="MobileNetV2",
    input="image",
    network="mobilenet_v2",
    search_spaces={
        # The thesis names the model without its hyperparameters: those of its other networks for images.
        "full": {"lr": values(1e-4, 1e-6), "batch_size": values(32, 256), "weight_decay": values(1e-4, 1e-6)},
        # A network of 17 small blocks: also the classifier alone.
        "frozen": {
            "lr": values(1e-3, 5e-5),
            "batch_size": values(16, 32),
            "weight_decay": values(0.0),
            "trainable_blocks": values(0, 3, 6),
        },
    },
    settings={"image_size": 224, "num_epochs": 10, "metric": "accuracy"},
    reference="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
)
