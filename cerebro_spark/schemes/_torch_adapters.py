"""Adapters within the blocks of torch networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.schemes._torch import frozen, on_top, top_of
from cerebro_spark.schemes._torch_blocks import encoder_blocks, learn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["houlsby", "residual_adapters"]

# As the code of Houlsby et al.: small enough that the adapted network begins as the plain one.
_DEVIATION = 1e-3

_BATCH_NORM = nn.modules.batchnorm._BatchNorm  # noqa: SLF001 - the common base


class Adapter(nn.Module):
    """A bottleneck with a skip connection: ``h + up(gelu(down(h)))`` (Houlsby et al., figure 2)."""

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.down, self.activation, self.up = nn.Linear(width, bottleneck), nn.GELU(), nn.Linear(bottleneck, width)
        for layer in (self.down, self.up):
            nn.init.trunc_normal_(layer.weight, std=_DEVIATION, a=-2 * _DEVIATION, b=2 * _DEVIATION)
            nn.init.zeros_(layer.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Adapt ``(..., width)``."""
        adapted: Tensor = hidden + self.up(self.activation(self.down(hidden)))
        return adapted


class AdaptedOutput(nn.Module):
    """A projection of BERT and an adapter, added to the residual input, and normalised.

    It stands in for the module of these names, and its parameters keep their keys.

    Parameters
    ----------
    plain : torch.nn.Module
        With ``dense``, ``LayerNorm`` and, of ``transformers``, ``dropout``.
    """

    def __init__(self, plain: Any, bottleneck: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm = plain.dense, plain.LayerNorm
        self.dropout = getattr(plain, "dropout", nn.Identity())
        self.adapter = Adapter(plain.dense.out_features, bottleneck)

    def forward(self, hidden: Tensor, before: Tensor) -> Tensor:
        """Project ``hidden``, adapt it, and add ``before``."""
        out: Tensor = self.LayerNorm(self.adapter(self.dropout(self.dense(hidden))) + before)
        return out


class AdaptedConvolution(nn.Module):
    """A convolution and a 1 x 1 convolution beside it, which reads the centre of each window; added up."""

    def __init__(self, plain: nn.Conv2d) -> None:
        super().__init__()
        self.plain = plain
        height, width = plain.stride
        self.adapter = nn.Conv2d(
            plain.in_channels, plain.out_channels, 1, (height, width), groups=plain.groups, bias=False
        )
        nn.init.zeros_(self.adapter.weight)
        # As nn.functional.pad takes it, the last axis first; below zero it crops.
        self.border = (*_border(plain, 1), *_border(plain, 0))

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``(N, channels, height, width)``."""
        centres = nn.functional.pad(x, self.border) if any(self.border) else x
        out: Tensor = self.plain(x) + self.adapter(centres)
        return out


def _border(plain: nn.Conv2d, axis: int) -> tuple[int, int]:
    """Count the zeros before and after an axis with which a window of one pixel goes where the centres go."""
    reach = plain.dilation[axis] * (plain.kernel_size[axis] - 1)
    if isinstance(plain.padding, str):
        around = reach if plain.padding == "same" else 0
        before = around // 2
    else:
        around, before = 2 * plain.padding[axis], plain.padding[axis]
    first = before - plain.dilation[axis] * (plain.kernel_size[axis] // 2)
    return first, around - reach - first


def houlsby(net: nn.Module, top: int, bottleneck: int, head: Any) -> nn.Module:
    """Put adapters into a BERT; see :func:`cerebro_spark.schemes.houlsby`."""
    if encoder_blocks(net) is None:
        raise InvalidArgumentError(
            f"{type(net).__name__} is no encoder of BERT's kind, with blocks encoder.layer.0 and so on: give "
            'roster.load("minilm_l6"), or BertModel of transformers; for CNNs there is residual_adapters'
        )
    copied = frozen(net)
    chosen, _ = top_of(copied, top, None, with_head=True)
    for (path,) in chosen:
        block: Any = copied.get_submodule(path)
        for owner in (block.attention, block):
            owner.output = AdaptedOutput(owner.output, bottleneck)
            learn([owner.output.adapter, owner.output.LayerNorm])
    return on_top(copied, head, [path for (path,) in chosen]).eval()


def residual_adapters(net: nn.Module, top: int, head: Any, paths: Sequence[str] | None) -> nn.Module:
    """Put adapters into a CNN; see :func:`cerebro_spark.schemes.residual_adapters`."""
    copied = frozen(net)
    chosen, _ = top_of(copied, top, paths, with_head=head is not None)
    inside = [path for block in chosen for path in block]
    adaptable = [path for path in _paths_within(copied, inside) if _is_adaptable(copied.get_submodule(path))]
    if not adaptable:
        raise InvalidArgumentError(
            f"blocks {', '.join(inside)} have no convolution with a window larger than one pixel, and so no place for "
            "an adapter: raise top, or name the blocks: blocks=[...]"
        )
    for path in _paths_within(copied, inside):
        if isinstance(copied.get_submodule(path), _BATCH_NORM):
            learn([copied.get_submodule(path)])
    for path in adaptable:
        around, _, name = path.rpartition(".")
        plain = copied.get_submodule(path)
        assert isinstance(plain, nn.Conv2d)  # what is adaptable, for the type checker
        copied.get_submodule(around).register_module(name, AdaptedConvolution(plain))
    if head is None:
        learn(_top(copied, top, paths))
    return on_top(copied, head, inside).eval()


def _top(net: nn.Module, top: int, paths: Sequence[str] | None) -> Iterator[nn.Module]:
    """Yield the modules above the blocks, which learn where the network keeps its own top."""
    _, above = top_of(net, top, paths, with_head=False)
    yield from (net.get_submodule(path) for path in above)


def _paths_within(net: nn.Module, inside: Sequence[str]) -> list[str]:
    around = tuple(f"{block}." for block in inside)
    return [path for path, _ in net.named_modules() if f"{path}.".startswith(around)]


def _is_adaptable(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1
