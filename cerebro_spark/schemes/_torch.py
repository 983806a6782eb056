"""The schemes for networks of torch."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.schemes._torch_blocks import (
    blocks_of,
    encoder_blocks,
    learn,
    named_blocks,
    own_buffers,
    top_blocks,
)
from cerebro_spark.schemes._torch_combine import Concatenation, Last, Sum, WeightedSum
from udfs.handlers import UntraceableModelError
from udfs.handlers.torch import FRAMEWORK, Extraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.schemes._torch_blocks import Block
    from udfs.handlers import TensorSpec

__all__ = ["feature_transfer", "fine_tune", "frozen", "on_top", "top_of"]


class _First(nn.Module):
    """The first of an encoder's outputs: the tokens of its last block."""

    def forward(self, outputs: Any) -> Tensor:
        """Take it."""
        first: Tensor = outputs[0]
        return first


class HeadedNetwork(nn.Module):
    """A network, a combination of the features that it gives, and a head that reads them.

    ``combine`` makes one tensor of what the trunk returns. The head is given those of the trunk's ``inputs`` that its
    ``forward`` has parameters for.

    Raises
    ------
    InvalidArgumentError
        The head is not a module.
    """

    def __init__(self, trunk: nn.Module, combine: nn.Module, head: Any, inputs: Sequence[str]) -> None:
        super().__init__()
        if not isinstance(head, nn.Module):
            raise InvalidArgumentError(
                "head must be a torch.nn.Module of the features, such as TransformerHead(384, classes=9) or "
                f"torch.nn.Linear(512, 5), got {head!r}"
            )
        self.trunk, self.combine, self.head = trunk, combine, head
        asked = list(inspect.signature(head.forward).parameters)[1:]
        self.also = {name: place for place, name in enumerate(inputs) if name in asked}

    def forward(self, *inputs: Tensor) -> Any:
        """Run the trunk, the combination and the head."""
        features = self.combine(self.trunk(*inputs))
        also = {name: inputs[place] for name, place in self.also.items() if place < len(inputs)}
        return self.head(features, **also)


def frozen(net: nn.Module) -> Any:
    """Copy a network's modules in evaluation mode, with nothing that learns.

    Parameters share the memory of the network's; buffers do not, for a batch norm in training mode writes to them.
    """
    copied = FRAMEWORK.build(lambda: net, (), 0)
    own_buffers(copied)
    return copied


def feature_transfer(
    net: nn.Module, layers: Sequence[str], combine: str, head: Any, inputs: Sequence[TensorSpec] | None
) -> nn.Module:
    """Put a head on features; see :func:`cerebro_spark.schemes.feature_transfer`."""
    opened = Extraction(frozen(net), inputs)
    names = opened.ordered(layers)
    trunk = opened.network(names[-1:] if combine == "last" else names)
    return HeadedNetwork(trunk, _combination(opened, names, combine), head, opened.inputs).eval()


def _combination(opened: Extraction, layers: Sequence[str], combine: str) -> nn.Module:
    if combine == "concat":
        widths = [opened.width(layer) for layer in layers]
        if len({images for _, images in widths}) > 1:
            raise InvalidArgumentError(
                f"layers must be all feature maps or all vectors for combine='concat', got {', '.join(layers)}"
            )
        return Concatenation([width for width, _ in widths], images=widths[0][1])
    if combine == "last":
        return Last()
    _check_alike(opened, layers, combine)
    return Sum() if combine == "sum" else WeightedSum(len(layers))


def _check_alike(opened: Extraction, layers: Sequence[str], combine: str) -> None:
    try:
        widths = {layer: opened.width(layer) for layer in layers}
    except UntraceableModelError:
        return  # the first batch tells
    if len(set(widths.values())) > 1:
        told = ", ".join(f"{layer} has {width}" for layer, (width, _) in widths.items())
        raise InvalidArgumentError(f'combine={combine!r} of layers of several widths ({told}): combine="concat"')


def fine_tune(net: nn.Module, top: int, head: Any, paths: Sequence[str] | None) -> nn.Module:
    """Make the last blocks trainable; see :func:`cerebro_spark.schemes.fine_tune`."""
    copied = frozen(net)
    chosen, above = top_of(copied, top, paths, with_head=head is not None)
    tuned = on_top(copied, head, [path for block in chosen for path in block])
    root = tuned if head is None else tuned.get_submodule("trunk")
    modules = [*(path for block in chosen for path in block), *above]
    # A cut network has no module of a block itself, only those within that it calls.
    learn(inner for path in modules for inner in _within(root, path))
    return tuned.eval()


def _within(root: nn.Module, path: str) -> list[nn.Module]:
    try:
        return [root.get_submodule(path)]
    except AttributeError:
        return []


def top_of(net: nn.Module, top: int, paths: Sequence[str] | None, *, with_head: bool) -> tuple[list[Block], list[str]]:
    """Choose the blocks to train.

    Returns
    -------
    above : list of str
        Modules above the blocks, which learn too: the network's own top, if it keeps it.
    """
    blocks = blocks_of(net) if paths is None else named_blocks(net, paths)
    if encoder_blocks(net) is not None and paths is None:
        above = [] if with_head else _after(net, blocks)
        return top_blocks(blocks, top, net), above
    classifiers = [block for block in blocks[-1:] if isinstance(net.get_submodule(block[0]), nn.Linear)]
    blocks = blocks[: len(blocks) - len(classifiers)]
    above = [] if with_head else [*(path for block in classifiers for path in block), *_after(net, blocks)]
    return top_blocks(blocks, top, net), above


def _after(net: nn.Module, blocks: Sequence[Block]) -> list[str]:
    """List the modules with weights of their own that are registered after the last block."""
    if not blocks:
        return []
    paths = [path for path, _ in net.named_modules()]
    inside = [place for place, path in enumerate(paths) if f"{path}.".startswith(f"{blocks[-1][-1]}.")]
    after = paths[max(inside) + 1 :]
    return [path for path in after if any(True for _ in net.get_submodule(path).parameters(recurse=False))]


def on_top(net: nn.Module, head: Any, training: Sequence[str]) -> nn.Module:
    """Put a head in the place of a network's own top.

    ``net`` is a copy, and ``training`` are the paths of what is to learn. Raise InvalidArgumentError if it does
    something in training that its modules do not show, UntraceableModelError if it cannot be opened.
    """
    if head is None:
        return net
    if encoder_blocks(net) is not None:
        if getattr(net, "pooler", None) is not None:
            net.pooler = None  # type: ignore[assignment]  # of transformers: heads read the tokens
        return HeadedNetwork(net, _First(), head, list(inspect.signature(net.forward).parameters))
    opened = Extraction(net)
    if opened.draws_by_itself(training):
        raise InvalidArgumentError(
            f"{type(net).__name__} does something in training that its modules do not show, as functional dropout: "
            "use nn.Dropout, or put the head into the network yourself and leave head= out"
        )
    trunk = opened.network([opened.below_classifier])
    return HeadedNetwork(trunk, Last(), head, opened.inputs)
