"""Built-in models as sources of a search."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.builtin._source import ModelSource
from cerebro_spark.builtin.models import shipped_models
from optimizer.arguments import choice_error, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from cerebro_spark.builtin._model import BuiltinModel

__all__ = ["MODEL_SETTINGS", "builtin_model", "builtin_models", "find_model"]

_LOG = logging.getLogger(__name__)

MODEL_SETTINGS = ("max_length", "tokenizer", "num_classes")
"""Settings of a built-in model that are not settings of a search."""


def builtin_models() -> list[dict[str, Any]]:
    """Describe the built-in models as plain data, without importing a framework.

    Returns
    -------
    list of dict
        ``name``, ``title``, ``input`` (``"image"`` or ``"text"``), ``trainings``, ``search_space`` (the default by
        training, in the form of the launch document), ``settings`` (defaults) and ``reference``.

    Examples
    --------
    >>> [(model["name"], model["input"]) for model in builtin_models()]
    [('bert_base', 'text'), ('distilbert', 'text'), ('mobilenet_v2', 'image'), ('resnet50', 'image')]
    """
    return [model.document for _, model in sorted(shipped_models().items())]


def find_model(name: Any) -> BuiltinModel:
    """Return a built-in model by name.

    Raises
    ------
    InvalidArgumentError
        There is no such model; the message lists the models.
    """
    models = shipped_models()
    if name not in models:
        raise InvalidArgumentError(choice_error("builtin", name, sorted(models)))
    return models[name]


def builtin_model(
    name: str,
    *,
    column: str,
    label: str,
    num_classes: int,
    training: str = "frozen",
    weights: str | None = None,
    **settings: Any,
) -> ModelSource:
    """Return the trainer, the default search space and the settings of a built-in model.

    Parameters
    ----------
    name : str
        Name of the model, see :func:`builtin_models`.
    column : str
        Column of images (encoded bytes, Spark's image struct, or paths and URIs of files), or of texts.
    label : str
        Column of classes, whole numbers from 0.
    num_classes : int
        Number of classes.
    training : {"frozen", "full"}
        Whether the lower layers keep their pretrained weights (default), or all layers learn. Frozen layers learn from
        the hyperparameter ``trainable_blocks`` on, counted from the top; with 0 only the classifier learns.
    weights : str, optional
        Pretrained weights. For images, path or URI of a state dict with torchvision's names; for texts, a folder that
        ``save_pretrained`` of transformers wrote, or a state dict of BERT's base size. By default random weights, which
        ``"frozen"`` refuses.
    **settings
        ``image_size`` in pixels for images, ``max_length`` in tokens and ``tokenizer`` for texts, and settings of the
        search.

    Returns
    -------
    ModelSource
        Object with ``trainer_fn``, ``search_space``, ``settings`` and ``convert_table``.

    Raises
    ------
    InvalidArgumentError
        An argument is not valid.

    Examples
    --------
    >>> model = builtin_model("resnet50", column="photo", label="kind", num_classes=5, training="full", image_size=112)
    >>> model.search_space
    {'lr': [0.0001, 1e-06], 'batch_size': [32, 256], 'weight_decay': [0.0001, 1e-06]}
    >>> model.settings["feature_columns"], model.settings["image_size"]
    (['photo'], 112)
    """
    model = find_model(name)
    space = model.space(training)
    classes = whole("num_classes", num_classes, least=2)
    if weights is None and training != "full":
        raise InvalidArgumentError(
            f"weights must be the path or URI of pretrained weights for training={training!r}, got none. Random layers "
            "that stay frozen learn nothing: name the weights, or set training='full'"
        )
    if weights is None:
        _LOG.warning("%s begins with random weights, because no weights are named", model.title)
    chosen = {**model.settings, **settings}
    kept = {name: value for name, value in chosen.items() if name not in MODEL_SETTINGS}
    if model.input == "image":
        from cerebro_spark.builtin._images import ImageTrainer, read_files  # imports pyspark

        return ModelSource(
            trainer_fn=ImageTrainer(model.network, training, weights, classes),
            search_space=space,
            settings={**kept, "feature_columns": [column], "label_columns": [label]},
            convert_table=partial(read_files, column=column),
        )
    from cerebro_spark.builtin._texts import TextTrainer, text_card, tokenized  # imports pyspark

    length = whole("max_length", chosen["max_length"], least=2)
    card = text_card(name, model.sizes, weights, chosen["tokenizer"] or None, length)
    return ModelSource(
        trainer_fn=TextTrainer(card, training, classes),
        search_space=space,
        settings={**kept, "feature_columns": ["input_ids", "attention_mask"], "label_columns": [label]},
        convert_table=partial(tokenized, column=column, card=card),
    )
