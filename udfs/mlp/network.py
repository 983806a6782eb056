"""The perceptron in torch, and its form on disk and on the wire: safetensors."""

from __future__ import annotations

import json
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, cast

import torch
from safetensors.torch import load, save
from torch import nn

from udfs.packing import StateError, safetensors_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Perceptron", "choose_device", "from_bytes", "to_bytes"]


class Perceptron(nn.Module):
    """Linear layers with ReLU between them, on inputs that it standardises itself.

    ``layers`` go from standardised inputs to logits or to a standardised value. ``mean`` and ``scale``, float64 of
    shape ``(sizes[0],)``, standardise the inputs, the float64 scalars ``target_mean`` and ``target_scale`` the output;
    they are 0 and 1 for logits.

    Examples
    --------
    >>> Perceptron([4, 8, 3])(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    mean: torch.Tensor
    scale: torch.Tensor
    target_mean: torch.Tensor
    target_scale: torch.Tensor

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.layers = nn.Sequential()
        for before, after in pairwise(sizes):
            if len(self.layers):
                self.layers.append(nn.ReLU())
            # The weights come from a seed of their own: torch's global one is the process's, not ours to move.
            self.layers.append(nn.utils.skip_init(nn.Linear, before, after))  # type: ignore[no-untyped-call]
        self.register_buffer("mean", torch.zeros(sizes[0], dtype=torch.float64))
        self.register_buffer("scale", torch.ones(sizes[0], dtype=torch.float64))
        self.register_buffer("target_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("target_scale", torch.ones((), dtype=torch.float64))
        self.initialise(0)

    def initialise(self, seed: int) -> None:
        """Draw weights (He et al. 2015, uniform; of gain 1 for the output); biases are zero."""
        draw = torch.Generator().manual_seed(seed)
        linear = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        for layer in linear:
            gain: Literal["linear", "relu"] = "linear" if layer is linear[-1] else "relu"
            nn.init.kaiming_uniform_(layer.weight, nonlinearity=gain, generator=draw)
            nn.init.zeros_(layer.bias)

    def standardised(self, inputs: torch.Tensor) -> torch.Tensor:
        """Standardise inputs for the layers; same shape, float32."""
        return ((inputs.double() - self.mean) / self.scale).float()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits or values of shape ``(n, sizes[-1])``, float64, from inputs of shape ``(n, sizes[0])``."""
        outputs = self.layers(self.standardised(inputs))
        return cast("torch.Tensor", outputs.double() * self.target_scale + self.target_mean)


def to_bytes(network: Perceptron) -> bytes:
    """Write the state dict as a safetensors file, with the sizes in its header."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    return save(state, {"sizes": json.dumps(network.sizes)})


def from_bytes(raw: bytes) -> Perceptron:
    """Read what :func:`to_bytes` wrote, onto the CPU and in inference mode; StateError if it is not a perceptron."""
    sizes = (safetensors_metadata(BytesIO(raw)) or {}).get("sizes")
    if sizes is None:
        raise StateError(f"{len(raw)} bytes that are not a perceptron: expected what its model's write() stored")
    with torch.device("meta"):
        network = Perceptron(json.loads(sizes))
    network.load_state_dict(load(raw), assign=True)
    return network.eval()


def choose_device(name: str) -> torch.device:
    """Choose the device by name; ``"auto"`` takes an accelerator where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
