"""Cards of networks that ``transformers`` wrote: a folder, or a hub's name, is all that there is to give."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.roster._card import ModelCard
from udfs.roster._hub import CONFIG, PROCESSORS, copied, folder_weights, pretrained_folder
from udfs.roster._image_processor import read_preprocessing
from udfs.roster._pretrained_builder import PretrainedBuilder
from udfs.roster._text_builtin import KINDS, folder_card
from udfs.roster._transformers import first_line, quiet, transformers
from udfs.weights import WeightsError, local_file, read_state_dict, redacted

if TYPE_CHECKING:
    import os

    from udfs.images import Preprocessing

__all__ = ["from_pretrained"]

_CLASSIFICATION = "ForImageClassification"
_CHANNELS = 3


def from_pretrained(
    name_or_folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    preprocessing: Preprocessing | None = None,
    max_length: int = 128,
    revision: str | None = None,
) -> ModelCard:
    """Make the card of a network that ``transformers`` wrote, for images or for text.

    Images: any network of the library that reads pictures of three channels, with its classifier or without. Text:
    BERT, RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT. Preprocessing, class names and layers come from the folder's
    own files. The weights stay where they are, and are read as those of the roster's networks: once per node.

    Networks for images are built by ``transformers`` itself, which the workers then need as well; those for text are
    built without it.

    Parameters
    ----------
    name_or_folder : str or path
        A folder as ``save_pretrained`` writes it, with ``config.json``, ``model.safetensors`` (or
        ``pytorch_model.bin``), and ``preprocessor_config.json`` or ``tokenizer.json``; the URI of such a folder; or the
        name of a network of the hub, which is downloaded into the hub's cache on this machine.
    name : str, optional
        The card's; by default the last part of the folder's path, letters, digits and underscores alone.
    preprocessing : Preprocessing, optional
        Instead of the folder's own, which has to have the processor's exact pixels: where it cannot, it is refused.
    max_length : int
        Tokens that a text is cut or padded to. Unused for images.
    revision : str, optional
        Branch, tag or commit of a hub's name.

    Returns
    -------
    ModelCard
        Its layers from the bottom to the top: ``stem``, ``block1`` or ``stage1_block1`` and so on, ``head`` (a
        convolution above the blocks), ``pool`` (the vector that the classifier reads) and ``fc`` (the logits); of
        ResNet ``conv1``, ``conv2_1`` to ``pool5`` and ``fc6``, of MobileNetV1 ``conv1``, ``dw1``, ``pw1``, of text
        ``layer1`` and so on. Tokens of ViT, DeiT, BEiT, DINOv2 and Swin are arranged as feature maps of the patches,
        without the special tokens.

    Raises
    ------
    InvalidArgumentError
        No such folder, no network, a network that reads something else, one with code of its own, or an image processor
        that no Preprocessing gives the pixels of.
    udfs.weights.WeightsError
        The folder has no weights.
    ImportError
        ``transformers`` is not installed, for images.

    Examples
    --------
    >>> import tempfile
    >>> from transformers import ResNetConfig, ResNetForImageClassification, ConvNextImageProcessorPil
    >>> config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
    >>> folder = tempfile.mkdtemp()
    >>> ResNetForImageClassification(config).save_pretrained(folder)
    >>> _ = ConvNextImageProcessorPil(size={"shortest_edge": 64}).save_pretrained(folder)
    >>> card = from_pretrained(folder, name="mine")
    >>> [layer.name for layer in card.layers], card.preprocessing.size
    (['conv1', 'conv2_1', 'conv3_1', 'conv3_2', 'pool5', 'fc6'], '64 px')
    """
    folder = pretrained_folder(name_or_folder, revision)
    shown = redacted(name_or_folder)
    config = _read_config(folder, shown)
    name = _card_name(shown) if name is None else name
    if config.get("model_type") in KINDS:
        if preprocessing is not None:
            raise InvalidArgumentError(f"preprocessing is of images, and {shown} reads text")
        return replace(folder_card(folder, name, max_length), weights=folder_weights(folder, shown))
    return _image_card(folder, shown, name, config, preprocessing)


def _read_config(folder: str, shown: str) -> dict[str, Any]:
    try:
        config = json.loads(local_file(f"{folder}/{CONFIG}").read_text(encoding="utf-8"))
    except WeightsError as error:
        raise InvalidArgumentError(f"{shown} has no {CONFIG}: give a folder of save_pretrained") from error
    except ValueError as error:
        raise InvalidArgumentError(f"{CONFIG} of {shown} is not JSON: {error}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise InvalidArgumentError(f"{CONFIG} of {shown} has no model_type: give a folder of save_pretrained")
    return config


def _card_name(shown: str) -> str:
    last = shown.rstrip("/").rpartition("/")[2]
    return re.sub(r"\W+", "_", last).strip("_") or "pretrained"


def _image_card(
    folder: str, shown: str, name: str, config: dict[str, Any], preprocessing: Preprocessing | None
) -> ModelCard:
    kind, settings = _network_class(config, shown)
    weights = folder_weights(folder, shown)
    if preprocessing is None:
        with tempfile.TemporaryDirectory() as files:
            if not any(file in PROCESSORS for file in copied(folder, (CONFIG, *PROCESSORS), Path(files))):
                raise InvalidArgumentError(
                    f"{shown} has no {PROCESSORS[0]}, which says how pictures are prepared: give preprocessing=, or "
                    "save_pretrained the image processor into the folder"
                )
            preprocessing = read_preprocessing(Path(files), shown)
    builder = PretrainedBuilder(kind.__name__, json.dumps(config))
    # Torch, which is not needed before.
    from udfs.roster._pretrained_layers import find_layers, has_pooler

    try:
        # A checkpoint of another task often has no pooler, and a random one would still return numbers.
        if has_pooler(builder) and not any("pooler." in key for key in read_state_dict(weights)):
            builder = replace(builder, pooler=False)
        builder, layers, parameters = find_layers(builder, preprocessing.shape, settings)
    except WeightsError:
        raise
    except Exception as error:
        # Whatever the network's own code raises.
        raise InvalidArgumentError(
            f"{kind.__name__} of {shown} does not run on pictures of {preprocessing.size}: {first_line(error)}"
        ) from error
    return ModelCard(
        name=name,
        builder=builder,
        preprocessing=preprocessing,
        layers=layers,
        parameters=parameters,
        reference=f"{kind.__name__} of transformers, {shown}",
        weights=weights,
        class_names=_class_names(settings) if _CLASSIFICATION in kind.__name__ else None,
    )


def _network_class(config: dict[str, Any], shown: str) -> tuple[Any, Any]:
    """Return the class of a network for images, and its configuration."""
    library = transformers()
    wanted = (config.get("architectures") or [""])[0] or ""
    if "auto_map" in config and not hasattr(library, wanted):
        raise InvalidArgumentError(f"{shown} brings code of its own, which is not run; write a ModelCard for it")
    with quiet():
        try:
            settings = library.AutoConfig.for_model(**config)
        except Exception as error:
            raise InvalidArgumentError(
                f"{CONFIG} of {shown} must be a configuration of transformers {library.__version__}, got an error: "
                f"{first_line(error)}"
            ) from error
        kind = getattr(library, wanted, None) if _CLASSIFICATION in wanted else None
        if kind is None:
            from transformers.models.auto.modeling_auto import MODEL_MAPPING  # an optional extra

            kind = MODEL_MAPPING.get(type(settings), None)
    if kind is None or isinstance(kind, tuple) or kind.main_input_name != "pixel_values":
        raise InvalidArgumentError(
            f"{shown} has a network of the kind {config['model_type']!r}, which reads neither images nor text as these "
            f"do: {', '.join(KINDS)}"
        )
    if getattr(settings, "num_channels", _CHANNELS) != _CHANNELS:
        raise InvalidArgumentError(f"{shown} reads images of {settings.num_channels} channels; these have {_CHANNELS}")
    return kind, settings


def _class_names(settings: Any) -> tuple[str, ...] | None:
    """Return the names of the classes, unless they are only numbers."""
    by_class = {int(number): str(label) for number, label in (settings.id2label or {}).items()}
    if all(label == f"LABEL_{number}" for number, label in by_class.items()):
        return None
    return tuple(by_class.get(number, "") for number in range(settings.num_labels))
