"""Networks of torch: structure on the meta device, state dicts, layers in the order of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from udfs.weights import fit_state_dict, read_state_dict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import torch
    from torch import nn

    from vista_spark.roster._architecture import Architecture
    from vista_spark.roster._card import ModelCard

__all__ = ["ARCHITECTURE"]


class _Torch:
    """See :class:`vista_spark.roster._architecture.Architecture`."""

    def skeleton(self, card: ModelCard) -> nn.Module:
        """Build in evaluation mode on the meta device: all of the structure, none of the memory."""
        import torch  # noqa: PLC0415  (an optional extra)

        # A builder may draw numbers that the meta device does not swallow.
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            network: nn.Module = card.builder().eval().requires_grad_(False)
        return network

    def paths(self, card: ModelCard, network: nn.Module) -> list[str]:  # noqa: ARG002  (Keras needs the card)
        """Paths of all modules."""
        return [path for path, _ in network.named_modules() if path]

    def run_order(self, card: ModelCard) -> list[str]:
        """Paths in the order in which hooks hear of their modules."""
        import torch  # noqa: PLC0415  (an optional extra)

        network = self.skeleton(card)
        finished: dict[str, None] = {}

        def finish(path: str) -> Callable[[nn.Module, Any, object], None]:
            def hook(_module: nn.Module, _inputs: Any, output: object) -> None:
                if isinstance(output, torch.Tensor):
                    finished.pop(path, None)
                    finished[path] = None

            return hook

        for path, module in network.named_modules():
            if path:
                module.register_forward_hook(finish(path))
        with torch.no_grad():
            network(
                *(
                    torch.empty((1, *spec.shape), dtype=getattr(torch, spec.dtype), device="meta")
                    for spec in card.preprocessing.inputs
                )
            )
        return list(finished)

    def parameters(self, network: nn.Module) -> int:
        """Count the scalars of parameters, without buffers."""
        return sum(parameter.numel() for parameter in network.parameters())

    def random(self, card: ModelCard, seed: int) -> nn.Module:
        """Build with torch's generator at a seed, and put the generator back."""
        import torch  # noqa: PLC0415  (an optional extra)

        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would reseed the accelerators too, and nothing would put those back.
            torch.default_generator.manual_seed(seed)
            network: nn.Module = card.builder().eval().requires_grad_(False)
        return network

    def load(
        self, card: ModelCard, weights: str | os.PathLike[str] | Mapping[str, torch.Tensor], seed: int
    ) -> nn.Module:
        """Give the skeleton a state dict."""
        state = weights if isinstance(weights, Mapping) else read_state_dict(weights)
        network = self.skeleton(card)
        own_weights = getattr(network, "own_weights", None)
        if callable(own_weights):
            state = own_weights(state)
        fit_state_dict(network, state, card.name)
        if any(buffer.device.type == "meta" for buffer in network.buffers()):
            # A buffer outside the state dict has its value from the builder alone.
            network = self.random(card, seed)
            fit_state_dict(network, state, card.name)
        return network.eval().requires_grad_(False)


ARCHITECTURE: Architecture = _Torch()
