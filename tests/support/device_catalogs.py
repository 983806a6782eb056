"""Catalogs of small residual networks, with random weights in files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from optimizer.variants import Measurement
from udfs.images import Preprocessing, decode
from vista_spark import roster
from vista_spark.variants import Catalog, CatalogVariant

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["MB", "SIZE", "Residual", "SmallCatalog", "photograph", "small_catalog"]

MB = 1_000_000
SIZE = 32
_CLASSES = 5


class Residual(nn.Module):
    """A stem, a residual block with two branches, and a classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.left = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width))
        self.right = nn.Conv2d(width, width, 1)
        self.narrow = nn.Conv2d(width, 4, 3, 2, 1)
        self.head = nn.Linear(4 * 8 * 8, _CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.relu(self.left(x) + self.right(x) + x)
        return self.head(torch.flatten(torch.relu(self.narrow(x)), 1))


@dataclass(frozen=True)
class SmallCatalog:
    """A catalog, with the networks that its variants must agree with."""

    catalog: Catalog
    networks: dict[str, nn.Module]
    files: dict[str, Path]

    def scores(self, variant: str, image: bytes) -> NDArray[np.float32]:
        """Compute the scores of an image with the network itself."""
        preprocessing: Any = self.catalog[variant].model.preprocessing
        tensor = torch.from_numpy(decode(image, preprocessing))[None]
        with torch.inference_mode():
            return self.networks[variant](tensor)[0].numpy()


def photograph(seed: int) -> bytes:
    """Encode a picture of noise at a low resolution."""
    grain = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grain).resize((48, 40)).save(buffer, "JPEG")
    return buffer.getvalue()


def built(width: int, ready: threading.Event) -> Residual:
    """Build a network once an event is set."""
    assert ready.wait(60)
    return Residual(width)


def small_catalog(
    folder: Path, task: str, seed: int = 0, ready: threading.Event | None = None, **resident: int
) -> SmallCatalog:
    """Build a catalog with a variant for each keyword, of that many resident bytes, in descending order of accuracy.

    Widths are 16, 8, 4 and so on. The first network can be built once the event `ready` is set.
    """
    variants, networks, files = [], {}, {}
    for place, (name, size) in enumerate(resident.items()):
        width = 16 >> place
        torch.manual_seed(seed + place)
        network = Residual(width).eval()
        files[name] = folder / f"{task}-{name}.safetensors"
        save_file(network.state_dict(), files[name])
        networks[name] = network
        accuracy = 0.9 - 0.1 * place
        fact = Measurement(
            name, accuracy, 100, accuracy - 0.05, accuracy + 0.05, size, size, 2.0 / 4**place, 0.01, {1: 0.002}, SIZE
        )
        card = roster.ModelCard(
            f"{task}-{name}",
            partial(Residual, width) if ready is None or place else partial(built, width, ready),
            Preprocessing(resize=SIZE, crop=SIZE),
            layers=("head",),
            weights=str(files[name]),
        )
        variants.append(CatalogVariant(fact, card))
    return SmallCatalog(
        Catalog(task, tuple(f"class {place}" for place in range(_CLASSES)), tuple(variants)), networks, files
    )
