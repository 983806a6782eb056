"""MobileNetV2 on Fashion-MNIST's pictures: a built-in model in a search file.

``python examples/search_data.py fashion --rows 6000 --out fashion.parquet``
``cerebro tune examples/searches/mobilenet.py --table fashion.parquet --out artifacts/mobilenet``

Name weights, and leave out ``training="full"``, to keep pretrained layers.
"""

from __future__ import annotations

from cerebro_spark.builtin import builtin_model

model = builtin_model(
    "mobilenet_v2", column="image", label="label", num_classes=10, training="full", image_size=32, num_epochs=2
)
trainer_fn, convert_table = model.trainer_fn, model.convert_table
search_space = {**model.search_space, "lr": [1e-3, 1e-4], "batch_size": [32], "weight_decay": [0.0]}
globals().update(model.settings)
