"""Features of an exported program: the tensor that its last layer with parameters reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._archive import load_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import fx

    from udfs.handlers._framework import Exported

__all__ = ["open_features"]


def open_features(data: bytes) -> Exported:
    """Open a ``.pt2`` archive as a function that returns the features, of shape ``(rows, channels)``.

    Axes of places, such as those of pixels or tokens, are averaged.
    """
    module: Any = load_program(data).module(check_guards=False)
    node, features = _last_layer(module)
    (output,) = [each for each in module.graph.nodes if each.op == "output"]
    output.args = (features,)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    module.graph.eliminate_dead_code()
    module.recompile()
    channels_first = "conv" in str(node.target)

    def run(inputs: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], ...]:
        with torch.inference_mode():
            tensor = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs)).float()
        places = tuple(range(2, tensor.ndim)) if channels_first else tuple(range(1, tensor.ndim - 1))
        return ((tensor.mean(dim=places) if places else tensor).numpy(),)

    return run


def _last_layer(module: Any) -> tuple[fx.Node, fx.Node]:
    """Return the last node with parameters on the way to the first output, and the node that it reads."""
    parameters = dict(module.named_parameters())
    fed: set[fx.Node] = set()  # nodes that depend on an input of the network
    learned: set[fx.Node] = set()  # parameters, and views of parameters
    for node in module.graph.nodes:
        if node.op == "placeholder" or any(each in fed for each in node.all_input_nodes):
            fed.add(node)
        elif node.target in parameters or any(each in learned for each in node.all_input_nodes):
            learned.add(node)
    (output,) = [each for each in module.graph.nodes if each.op == "output"]
    current = output.all_input_nodes[0]
    while True:
        read = [each for each in current.all_input_nodes if each in fed]
        if not read:
            raise UntraceableModelError("the network has no layer with parameters, and so no features below it")
        if any(each in learned for each in current.all_input_nodes):
            return current, read[0]
        current = read[0]
