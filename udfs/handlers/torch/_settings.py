"""Process-wide settings of torch that a user's function may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["apply_settings", "take_settings"]


def _set_deterministic(mode: int) -> None:
    torch.use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def _flag(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return (lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


# Functions that read and set each setting.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (torch.get_default_device, torch.set_default_device),
    "deterministic": (torch.get_deterministic_debug_mode, _set_deterministic),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "matrix products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cuDNN": _flag(torch.backends.cudnn, "enabled"),
    "cuDNN's choice": _flag(torch.backends.cudnn, "benchmark"),
    "deterministic cuDNN": _flag(torch.backends.cudnn, "deterministic"),
    "oneDNN": _flag(torch.backends.mkldnn, "enabled"),
}


def take_settings() -> dict[str, Any]:
    """Read the settings of torch by name."""
    return {name: read() for name, (read, _) in _SETTINGS.items()}


def apply_settings(settings: Mapping[str, Any]) -> None:
    """Set some settings of torch by name."""
    for name, value in settings.items():
        _SETTINGS[name][1](value)
