"""Layers of a network of ``transformers``: its blocks from the bottom to the top, found by a run on the meta device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from udfs.roster._card import FeatureLayer
from udfs.roster._pretrained_network import CLASSIFIERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from udfs.roster._pretrained_builder import PretrainedBuilder

__all__ = ["find_layers", "has_pooler"]

# What the library calls the list of a network's blocks or stages.
_LISTS = ("layer", "layers", "block", "blocks", "stage", "stages")
_IMAGE_RANK = 4
_TOKENS_RANK = 3

# Networks whose blocks return tokens of patches, row by row, and how many special tokens come first: a number, and the
# setting that adds to it. A network that is absent here has its tokens flattened as they are.
_SPECIAL_TOKENS: dict[str, tuple[int, str]] = {
    "beit": (1, ""),
    "data2vec-vision": (1, ""),
    "deit": (2, ""),
    "dinov2": (1, ""),
    "dinov2_with_registers": (1, "num_register_tokens"),
    "dinov3_vit": (1, "num_register_tokens"),
    "swin": (0, ""),
    "swinv2": (0, ""),
    "vit": (1, ""),
    "vit_msn": (1, ""),
}


@dataclass(slots=True)
class _Call:
    """A module's only call: its place in the order of the returns, what it read, and the tensor that it returned."""

    place: int
    read: Tensor | None
    returned: Tensor
    times: int = 1


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of a network; ``stage`` is 0 where the network has no stages."""

    path: str
    stage: int
    number: int


def find_layers(
    builder: PretrainedBuilder, shape: tuple[int, ...], config: Any
) -> tuple[PretrainedBuilder, tuple[FeatureLayer, ...], int]:
    """Find the layers that a card names, and what the builder has to add so that each is a module's tensor.

    ``shape`` is that of one input. Return the builder with the additions, the layers from the bottom to the top (the
    stem, the blocks, the convolution above them, the pooled vector, the logits; each where the network has one) and the
    number of parameters.
    """
    with torch.device("meta"):
        network = builder().eval()
    calls, output = _run(network, shape)
    blocks = [block for block in _blocks(network) if block.path in calls and _is_feature(calls[block.path].returned)]
    classifier = next((name for name in CLASSIFIERS if _is_classifier(network, calls, name, output)), "")
    # Where several heads are averaged, as in a DeiT with a teacher, there is no such vector.
    vector = calls[classifier].read if classifier else None if _has_heads(network) else output
    if vector is not None and vector.numel() != vector.shape[1]:
        vector = None  # not pooled
    pool = "" if vector is None else _source(calls, vector)
    places = {"head": _above(calls, blocks[-1].path, pool) if blocks else "", "pool": pool, "fc": classifier}
    if not pool and vector is not None and vector.dim() == 2:  # records and channels
        builder, places["pool"] = replace(builder, vector=classifier), ".".join(filter(None, (classifier, "vector")))
    read = calls[blocks[0].path].read if blocks else None
    stem = "" if read is None else _shortest(calls, read)
    names = _Names(config.model_type)
    paths = {names.stem: names.stem_path(stem, calls)} if stem else {}
    paths |= {names.block(block): block.path for block in blocks}
    maps = {path: special for path in paths.values() if (special := _special_tokens(calls, path, config)) is not None}
    paths |= {name: places[key] for key, name in names.above.items() if places[key]}
    layers = tuple(FeatureLayer(name, f"{path}.feature_map" if path in maps else path) for name, path in paths.items())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return replace(builder, maps=tuple(maps.items())), layers, parameters


def has_pooler(builder: PretrainedBuilder) -> bool:
    """Return whether a network has a pooler with parameters."""
    with torch.device("meta"):
        return any("pooler." in name for name, _ in builder().named_parameters())


class _Names:
    """The field's names for the layers of one kind of network."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.stem = {"resnet": "conv1", "mobilenet_v1": "conv1", "mobilenet_v2": "block1"}.get(kind, "stem")
        self.above = {"head": "head", "pool": "pool", "fc": "fc"}
        self.above |= {
            "resnet": {"pool": "pool5", "fc": "fc6"},  # of the paper, and of the roster's own
            "mobilenet_v2": {"head": "conv18"},
        }.get(kind, {})

    def stem_path(self, stem: str, calls: Mapping[str, _Call]) -> str:
        """Return the path of the stem's feature: of ResNet's convolution, before it is pooled."""
        convolution = f"{stem}.embedder"
        return convolution if self._kind == "resnet" and convolution in calls else stem

    def block(self, block: _Block) -> str:
        """Name a block."""
        if self._kind == "resnet":
            return f"conv{block.stage + 1}_{block.number}"
        if self._kind == "mobilenet_v1":
            # Depthwise and pointwise convolutions by turns.
            return f"{'dw' if block.number % 2 else 'pw'}{(block.number + 1) // 2}"
        if self._kind == "mobilenet_v2":
            return f"block{block.number + 1}"  # the stem has the first
        return f"stage{block.stage}_block{block.number}" if block.stage else f"block{block.number}"


def _run(network: nn.Module, shape: tuple[int, ...]) -> tuple[Mapping[str, _Call], Tensor]:
    """Call a network on the meta device; return the modules that were called once, and its output."""
    calls: dict[str, _Call] = {}

    def hook(path: str, _module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        returned = output[0] if isinstance(output, tuple) and output else output
        if not isinstance(returned, torch.Tensor):
            return
        read = args[0] if args else kwargs.get("hidden_states")
        times = calls[path].times + 1 if path in calls else 1
        calls[path] = _Call(len(calls), read if isinstance(read, torch.Tensor) else None, returned, times)

    for path, module in network.named_modules():
        if path:
            module.register_forward_hook(partial(hook, path), with_kwargs=True)
    with torch.no_grad():
        output = network(torch.empty((1, *shape), device="meta"))
    return {path: call for path, call in calls.items() if call.times == 1}, output


def _blocks(network: nn.Module) -> Iterator[_Block]:
    """Yield the items of the outermost lists of blocks; of a list of stages, the blocks of each."""
    outer = ""
    stage = number = 0
    for path, module in network.named_modules():
        if not _is_list(path, module) or (outer and path.startswith(f"{outer}.")):
            continue
        outer = path
        for name, item in module.named_children():
            inner = _stage(item)
            if inner is not None:
                stage += 1
                for place, (block, _) in enumerate(item.get_submodule(inner).named_children(), start=1):
                    yield _Block(".".join(filter(None, (path, name, inner, block))), stage, place)
            else:
                number += 1
                yield _Block(f"{path}.{name}", 0, number)


def _stage(item: nn.Module) -> str | None:
    """Return the path, within an item, of a stage's list of blocks; nothing where the item is a block itself."""
    if isinstance(item, nn.ModuleList):
        return ""
    if not type(item).__name__.endswith("Stage"):
        return None
    return next((name for name, child in item.named_children() if _is_list(name, child)), None)


def _is_list(path: str, module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.Sequential) and path.rpartition(".")[2] in _LISTS and len(module) > 0


def _is_feature(tensor: Tensor) -> bool:
    """Return whether a tensor is one that pooling takes rightly: not a map that has its channels last."""
    return tensor.dim() != _IMAGE_RANK or tensor.shape[2] == tensor.shape[3]


def _shortest(calls: Mapping[str, _Call], tensor: Tensor) -> str:
    """Find the outermost module that returned a tensor."""
    paths = [path for path, call in calls.items() if call.returned is tensor]
    return min(paths, key=len, default="")


def _above(calls: Mapping[str, _Call], block: str, pool: str) -> str:
    """Find the last feature map above the last block and below the pooling, as MobileNet's last convolution."""
    last = calls[block]
    above = [
        call
        for path, call in calls.items()
        if last.place < call.place < (calls[pool].place if pool else len(calls) * 2)
        and not block.startswith(f"{path}.")
        and call.returned.dim() == _IMAGE_RANK
        and call.returned is not last.returned
        and _is_feature(call.returned)
    ]
    return _shortest(calls, max(above, key=lambda call: call.place).returned) if above else ""


def _source(calls: Mapping[str, _Call], vector: Tensor) -> str:
    """Find the first module that returned a vector, or a tensor of the same elements in another shape."""
    returned = [
        path
        for path, call in sorted(calls.items(), key=lambda item: item[1].place)
        if _base(call.returned) is _base(vector) and call.returned.numel() == vector.numel()
    ]
    return returned[0] if returned else ""


def _base(tensor: Tensor) -> Tensor:
    """Return the tensor that a tensor is a view of, or itself."""
    base: Tensor | None = tensor._base  # noqa: SLF001 - torch's own documents use it
    return tensor if base is None else base


def _is_classifier(network: nn.Module, calls: Mapping[str, _Call], name: str, output: Tensor) -> bool:
    """Return whether a module makes the network's output; an identity, of a network without classes, does not."""
    return name in calls and calls[name].returned is output and not isinstance(getattr(network, name), nn.Identity)


def _has_heads(network: nn.Module) -> bool:
    return any(name.endswith("_classifier") for name, _ in network.named_children())


def _special_tokens(calls: Mapping[str, _Call], path: str, config: Any) -> int | None:
    """Number of special tokens before those of the patches, or nothing where a module does not return tokens."""
    returned = calls[path].returned if path in calls else None
    if returned is None or returned.dim() != _TOKENS_RANK or config.model_type not in _SPECIAL_TOKENS:
        return None
    count, setting = _SPECIAL_TOKENS[config.model_type]
    special = count + (int(getattr(config, setting)) if setting else 0)
    patches = int(returned.shape[1]) - special
    return special if patches > 1 and math.isqrt(patches) ** 2 == patches else None
