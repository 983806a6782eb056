"""Small networks of ``transformers`` with random weights, saved as folders: many kinds, with the options of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["IMAGES", "TEXTS", "Case", "saved"]

_SIZE = 32
_VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": _SIZE,
    "patch_size": 8,
    "num_labels": 5,
}
_SWIN = {"image_size": _SIZE, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "num_labels": 5}
_STAGES = {"hidden_sizes": [8, 16], "depths": [1, 2], "num_labels": 5}
_RESNET = {"embedding_size": 8, **_STAGES}
_EFFICIENTNET = {"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 320}
_SQUARE = {"height": _SIZE, "width": _SIZE}


@dataclass(frozen=True)
class Case:
    """A network: its classes in ``transformers`` and their settings."""

    kind: str
    network: str
    config: dict[str, Any] = field(default_factory=dict)
    processor: str = "ViT"
    processing: dict[str, Any] = field(default_factory=lambda: {"size": _SQUARE})


def _convnext(size: int, **settings: Any) -> dict[str, Any]:
    return {"processor": "ConvNext", "processing": {"size": {"shortest_edge": size}, **settings}}


def _cropped(processor: str, resized: dict[str, int], side: int, **settings: Any) -> dict[str, Any]:
    crop = {"height": side, "width": side}
    return {"processor": processor, "processing": {"size": resized, "crop_size": crop, **settings}}


_DEIT = _cropped("DeiT", {"height": 37, "width": 37}, _SIZE)
_CLASSIFICATION = "ForImageClassification"
_CLASSES = ("cat", "dog", "bird", "fish", "snail")

IMAGES: dict[str, Case] = {
    "vit": Case("ViT", _CLASSIFICATION, _VIT),
    "vit-bicubic": Case("ViT", _CLASSIFICATION, _VIT, processing={"size": _SQUARE, "resample": 3}),
    "vit-no-bias": Case("ViT", _CLASSIFICATION, {**_VIT, "qkv_bias": False, "hidden_act": "relu", "patch_size": 4}),
    "vit-bare": Case("ViT", "Model", _VIT),
    "vit-no-pooler": Case("ViT", "ForMaskedImageModeling", _VIT | {"encoder_stride": 8}),
    "vit-named-classes": Case("ViT", _CLASSIFICATION, {**_VIT, "id2label": dict(enumerate(_CLASSES))}),
    "deit": Case("DeiT", _CLASSIFICATION, _VIT, **_DEIT),
    "deit-teacher": Case("DeiT", "ForImageClassificationWithTeacher", _VIT, **_DEIT),
    "deit-bare": Case("DeiT", "Model", _VIT, **_DEIT),
    "beit": Case("Beit", _CLASSIFICATION, _VIT, "ViT"),
    "beit-relative": Case("Beit", _CLASSIFICATION, {**_VIT, "use_relative_position_bias": True}),
    "beit-shared": Case("Beit", _CLASSIFICATION, {**_VIT, "use_shared_relative_position_bias": True}),
    "beit-first-token": Case(
        "Beit", _CLASSIFICATION, {**_VIT, "use_mean_pooling": False, "use_absolute_position_embeddings": True}
    ),
    "dinov2": Case("Dinov2", _CLASSIFICATION, _VIT, **_cropped("Bit", {"shortest_edge": 37}, _SIZE)),
    "dinov2-registers": Case("Dinov2WithRegisters", _CLASSIFICATION, {**_VIT, "num_register_tokens": 3}),
    "swin": Case("Swin", _CLASSIFICATION, {**_SWIN, "window_size": 4}),
    "swin-positions": Case("Swin", _CLASSIFICATION, {**_SWIN, "window_size": 4, "use_absolute_embeddings": True}),
    "swin-one-window": Case("Swin", _CLASSIFICATION, {**_SWIN, "window_size": 8}),
    "swin-padded": Case("Swin", _CLASSIFICATION, {**_SWIN, "window_size": 5}),
    "swin-bare": Case("Swin", "Model", {**_SWIN, "window_size": 4}),
    "swinv2": Case("Swinv2", _CLASSIFICATION, {**_SWIN, "window_size": 4}),
    "convnext": Case("ConvNext", _CLASSIFICATION, {**_STAGES, "num_stages": 2}, **_convnext(_SIZE)),
    "convnext-v2": Case("ConvNextV2", _CLASSIFICATION, {**_STAGES, "num_stages": 2}, **_convnext(_SIZE, crop_pct=0.9)),
    "convnext-bare": Case(
        "ConvNext", "Model", {**_STAGES, "num_stages": 2, "layer_scale_init_value": 0.0}, **_convnext(384)
    ),
    "resnet": Case("ResNet", _CLASSIFICATION, {**_RESNET, "layer_type": "basic"}, **_convnext(48)),
    "resnet-bottleneck": Case("ResNet", _CLASSIFICATION, _RESNET, **_convnext(48, resample=2)),
    "resnet-v1": Case("ResNet", _CLASSIFICATION, {**_RESNET, "downsample_in_bottleneck": True}, **_convnext(48)),
    "resnet-narrow": Case("ResNet", _CLASSIFICATION, {**_RESNET, "downsample_in_first_stage": True}, **_convnext(64)),
    "resnet-bare": Case("ResNet", "Model", _RESNET, **_convnext(48)),
    "regnet-x": Case("RegNet", _CLASSIFICATION, {**_RESNET, "groups_width": 4, "layer_type": "x"}, **_convnext(48)),
    "regnet-y": Case("RegNet", _CLASSIFICATION, {**_RESNET, "groups_width": 4, "layer_type": "y"}, **_convnext(48)),
    "regnet-bare": Case("RegNet", "Model", {**_RESNET, "groups_width": 8}, **_convnext(48)),
    "efficientnet": Case(
        "EfficientNet",
        _CLASSIFICATION,
        {**_EFFICIENTNET, "num_labels": 5},
        "EfficientNet",
        {"size": {"height": 64, "width": 64}},
    ),
    "efficientnet-offset": Case(
        "EfficientNet",
        _CLASSIFICATION,
        {**_EFFICIENTNET, "num_labels": 5, "pooling_type": "max"},
        "EfficientNet",
        {
            "size": {"height": 64, "width": 64},
            "resample": 0,
            "rescale_factor": 1 / 127.5,
            "rescale_offset": True,
            "do_normalize": False,
            "include_top": False,
        },
    ),
    "efficientnet-bare": Case(
        "EfficientNet", "Model", _EFFICIENTNET, "EfficientNet", {"size": {"height": 64, "width": 64}}
    ),
    "mobilenet-v1": Case(
        "MobileNetV1",
        _CLASSIFICATION,
        {"depth_multiplier": 0.25, "num_labels": 5},
        **_cropped("MobileNetV1", {"shortest_edge": 71}, 64),
    ),
    "mobilenet-v1-same": Case(
        "MobileNetV1",
        _CLASSIFICATION,
        {"depth_multiplier": 0.25, "num_labels": 5, "tf_padding": False, "hidden_act": "relu"},
        **_cropped("MobileNetV1", {"shortest_edge": 60}, 64),  # padded
    ),
    "mobilenet-v2": Case(
        "MobileNetV2",
        _CLASSIFICATION,
        {"depth_multiplier": 0.35, "num_labels": 5},
        **_cropped("MobileNetV2", {"shortest_edge": 71}, 64),
    ),
    "mobilenet-v2-dilated": Case(
        "MobileNetV2",
        _CLASSIFICATION,
        {"depth_multiplier": 0.35, "num_labels": 5, "output_stride": 16, "finegrained_output": False},
        **_cropped("MobileNetV2", {"shortest_edge": 71}, 64, do_rescale=False, do_normalize=False),
    ),
    "mobilenet-v2-bare": Case(
        "MobileNetV2",
        "Model",
        {"depth_multiplier": 0.35, "tf_padding": False},
        **_cropped("MobileNetV2", {"shortest_edge": 71}, 64),
    ),
    "poolformer": Case(
        "PoolFormer",
        _CLASSIFICATION,
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_labels": 5},
        **_cropped("PoolFormer", {"shortest_edge": 64}, 64),
    ),
}

_BERT = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
_DISTILBERT = {
    "vocab_size": 40,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 20,
}

TEXTS: dict[str, Case] = {
    "bert": Case("Bert", "Model", _BERT),
    "bert-classes": Case("Bert", "ForSequenceClassification", {**_BERT, "hidden_act": "gelu_new"}),
    "roberta": Case("Roberta", "ForMaskedLM", _BERT),
    "xlm-roberta": Case("XLMRoberta", "Model", _BERT),
    "camembert": Case("Camembert", "ForSequenceClassification", {**_BERT, "layer_norm_eps": 1e-5}),
    "distilbert": Case("DistilBert", "Model", _DISTILBERT),
    "distilbert-words": Case("DistilBert", "ForMaskedLM", {**_DISTILBERT, "sinusoidal_pos_embds": True}),
    "distilbert-classes": Case("DistilBert", "ForSequenceClassification", {**_DISTILBERT, "activation": "relu"}),
}


def saved(case: Case, folder: Path, processor: bool = True) -> nn.Module:
    """Save a network with weights at which its layers differ, and its image processor; return the network."""
    transformers.logging.disable_progress_bar()
    config = getattr(transformers, f"{case.kind}Config")(**case.config)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        network: nn.Module = getattr(transformers, f"{case.kind}{case.network}")(config).eval()
        _randomise(network)
    network.save_pretrained(folder)
    if processor:
        made = getattr(transformers, f"{case.processor}ImageProcessorPil")(**case.processing)
        made.save_pretrained(folder)
    return network.requires_grad_(False)


def _randomise(network: nn.Module) -> None:
    """Draw all weights and statistics, with the scale of the signal kept."""
    with torch.no_grad():
        for name, held in (*network.named_parameters(), *network.named_buffers()):
            if not held.is_floating_point() or "relative_coords" in name:
                continue
            if held.dim() == 1 and name.endswith(("bias", "mean")):
                held.normal_(std=0.2)
            elif held.dim() == 1:
                held.uniform_(0.5, 1.5)
            elif name.endswith("weight") and "embedding" not in name.lower().replace("patch_embeddings", ""):
                held.normal_(std=(2 / held[0].numel()) ** 0.5)
            else:
                held.normal_(std=0.4)
