"""Programs of ``torch.export`` that were opened from a file: modules whose graph is known already."""

from __future__ import annotations

from typing import Any

from torch import fx

__all__ = ["is_program", "returned_paths"]


def is_program(model: object) -> bool:
    """Return whether a module is one that :func:`udfs.handlers.torch._program.open_network` made."""
    return isinstance(model, fx.GraphModule) and "leaves" in model.meta and "returned" in model.meta


def returned_paths(program: Any) -> dict[str, str]:
    """Map the paths of a program's modules to the nodes that hold what they returned, in that order."""
    returned: dict[str, str] = program.meta["returned"]
    return returned
