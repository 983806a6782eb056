"""ResNet50."""

from __future__ import annotations

from cerebro_spark.builtin._model import BuiltinModel, values

__all__ = ["MODEL"]

MODEL = BuiltinModel(
    name="resnet50",
    title="ResNet50",
    input="image",
    network="resnet50",
    search_spaces={
        # Table 3.5 of the Cerebro thesis: ImageNet with Adam and an L2 regularisation.
        "full": {"lr": values(1e-4, 1e-6), "batch_size": values(32, 256), "weight_decay": values(1e-4, 1e-6)},
        # Table 9.3, workload FTU: the last 3, 6, 9 or 12 residual blocks learn.
        "frozen": {
            "lr": values(5e-5, 3e-5, 2e-5),
            "batch_size": values(16, 32),
            "weight_decay": values(0.0),
            "trainable_blocks": values(3, 6, 9, 12),
        },
    },
    settings={"image_size": 224, "num_epochs": 10, "metric": "accuracy"},
    reference="He et al., Deep residual learning for image recognition, CVPR 2016; Nakandala 2022, Tables 3.5 and 9.3",
)
