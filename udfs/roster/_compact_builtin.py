"""Cards of the compact networks of MCDNN; torch is imported only when one is built."""

from __future__ import annotations

from udfs.images import Preprocessing
from udfs.roster._builtin import BUILT_IN, TorchBuilder
from udfs.roster._card import FeatureLayer, ModelCard
from udfs.roster._class_names import IMAGENET

__all__ = ["TORCH_BUILT_IN"]

_OBJECTS, _FACES = Preprocessing(crop=227, resize=256), Preprocessing(crop=152, resize=172)
_OBJECT_LAYERS = ("features.1", "features.4", "features.7", "features.9", "features.11")
_FACE_LAYERS = ("features.1", "features.4", "features.7", "features.10")
_FULLY_CONNECTED = ("classifier.1", "classifier.3", "classifier.4")


def _card(name: str, parameters: int, subject: str) -> ModelCard:
    convolutions = _FACE_LAYERS if name.startswith("F") else _OBJECT_LAYERS
    layers = [FeatureLayer(f"conv{place}", path) for place, path in enumerate(convolutions, start=1)]
    connected = enumerate(_FULLY_CONNECTED, start=len(layers) + 1)
    return ModelCard(
        name=f"compact_{name.lower()}",
        builder=TorchBuilder("_compact", f"Compact{name}"),
        preprocessing=_FACES if name.startswith("F") else _OBJECTS,
        layers=(*layers, *(FeatureLayer(f"fc{place}", path) for place, path in connected)),
        parameters=parameters,
        reference=f"Shen, System for serving deep neural networks efficiently, 2018, table B.1: {subject}",
        class_names=IMAGENET if name.startswith("O") else None,
    )


TORCH_BUILT_IN: dict[str, ModelCard] = BUILT_IN | {
    card.name: card
    for card in (
        _card("O1", 34_066_792, "objects"),
        _card("O2", 8_711_912, "objects"),
        _card("S1", 13_084_237, "scenes"),
        _card("S2", 7_082_957, "scenes"),
        _card("F1", 23_638_974, "faces"),
        _card("F2", 4_518_718, "faces"),
    )
}
"""Cards of all torch networks for images by name."""
