"""Networks of ``transformers`` for images, as a card takes them: one tensor in, one tensor out, features as modules."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from udfs.roster._transformers import first_line, quiet, transformers
from udfs.weights import WeightsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

__all__ = ["CLASSIFIERS", "build"]

CLASSIFIERS = ("classifier", "head")
"""Names that ``transformers`` gives to a network's last layer."""

_SHOWN = 8


def build(
    network: str, config: str, *, pooler: bool, maps: tuple[tuple[str, int], ...], vector: str | None
) -> nn.Module:
    """Build a network with random weights; its paths and parameters are those of ``transformers``.

    The parameters are those of :class:`udfs.roster._pretrained_builder.PretrainedBuilder`. The network reads
    ``(N, channels, height, width)`` and returns the logits; without a head, the pooled vector, or the last hidden state
    where there is no pooler.
    """
    kind = getattr(transformers(), network)
    settings = kind.config_class.from_dict(json.loads(config))
    # Of a checkpoint that was trained for something else.
    settings.return_dict, settings.output_hidden_states, settings.output_attentions = True, False, False
    with quiet():
        built: nn.Module = _returning_one_tensor(kind)(settings, **_pooling(pooler))
    built.with_pooler = pooler  # type: ignore[assignment]
    for path, special in maps:
        module = built.get_submodule(path)
        module.add_module("feature_map", _FeatureMap(special))
        module.register_forward_hook(_through_feature_map)
    if vector is not None:
        reader: Any = built.get_submodule(vector)
        reader.add_module("vector", _Vector())
        if reader is not built:
            reader.__class__ = _reading_a_vector(reader.__class__)
    return built


class _FeatureMap(nn.Module):
    """The tokens of the patches as a feature map."""

    def __init__(self, special: int) -> None:
        super().__init__()
        self.special = special

    def forward(self, tokens: Tensor) -> Tensor:
        """Arrange ``(N, special + side * side, channels)`` as ``(N, channels, side, side)``, row by row."""
        patches = tokens[:, self.special :] if self.special else tokens
        side = math.isqrt(patches.shape[1])
        return torch.unflatten(patches.transpose(1, 2), 2, (side, side))

    def tokens(self, feature_map: Tensor, tokens: Tensor) -> Tensor:
        """Put the special tokens and the patches of a feature map together again."""
        patches = feature_map.flatten(2).transpose(1, 2)
        return torch.cat([tokens[:, : self.special], patches], 1) if self.special else patches


def _through_feature_map(module: Any, inputs: Any, output: Any) -> Any:
    """Pass a module's tokens on by way of its feature map, which a tracer then sees as a part of the network."""
    del inputs
    tokens = output[0] if isinstance(output, tuple) else output
    again = module.feature_map.tokens(module.feature_map(tokens), tokens)
    return (again, *output[1:]) if isinstance(output, tuple) else again


class _Vector(nn.Module):
    """The vector that a classifier reads."""

    def forward(self, vector: Tensor) -> Tensor:
        """Return the same values, from an operation of its own."""
        return vector.unsqueeze(1).flatten(1)


class _ReadsVector:
    """The part of a classifier that is not of the library: its class is another one, so that a tracer looks inside."""

    vector: nn.Module

    def forward(self, pooled: Tensor) -> Tensor:
        """Classify by way of the vector."""
        logits: Tensor = super().forward(self.vector(pooled))  # type: ignore[misc]
        return logits


class _OneTensor:
    """The part of :func:`build`'s networks that is not of ``transformers``."""

    _kind: Any
    """The class of ``transformers``."""

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Compute the logits, or the features of a network without a head."""
        outputs = super().forward(pixel_values=pixel_values)  # type: ignore[misc]
        candidates = (getattr(outputs, name, None) for name in ("logits", "pooler_output", "last_hidden_state"))
        features: Tensor = next(tensor for tensor in candidates if tensor is not None)
        vector = getattr(self, "vector", None)
        return features if vector is None else vector(features)

    def own_weights(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert a checkpoint to this network's parameters by the library's own rules.

        Its names are often another version's, which the library translates when it loads them. Raise WeightsError if
        parameters are missing, unknown or of another shape.
        """
        name = self._kind.__name__
        with quiet():
            try:
                network, report = self._kind.from_pretrained(
                    None,
                    config=self.config,  # type: ignore[attr-defined]
                    state_dict=dict(state),
                    output_loading_info=True,
                    ignore_mismatched_sizes=True,  # they are in the report, and refused below
                    dtype=torch.float32,
                    **_pooling(self.with_pooler),  # type: ignore[attr-defined]
                )
            except Exception as error:
                # Whatever the library raises about weights that it cannot take.
                raise WeightsError(f"the weights do not fit {name}: {first_line(error)}") from error
        derived = {path for path, _ in network.named_buffers()} - network.state_dict().keys()
        children = {child for child, _ in network.named_children()}
        unknown = {key for key in report["unexpected_keys"] if key not in derived and not key.endswith("mask_token")}
        if not any(hasattr(network, head) for head in CLASSIFIERS):
            # The head of the task that it was trained for.
            unknown = {key for key in unknown if key.partition(".")[0] in {*children, network.base_model_prefix}}
        misshapen = [
            f"{key} is {tuple(shape)} where the model has {tuple(wanted)}"
            for key, shape, wanted in report["mismatched_keys"]
        ]
        faults = {"missing": report["missing_keys"], "unexpected": unknown, "of another shape": misshapen}
        listed = "; ".join(f"{len(keys)} {fault}: {_some(keys)}" for fault, keys in faults.items() if keys)
        if listed:
            raise WeightsError(f"the weights do not fit {name}: {listed}")
        return dict(network.state_dict())


@lru_cache(maxsize=64)
def _reading_a_vector(kind: Any) -> Any:
    return type(kind.__name__, (_ReadsVector, kind), {"__module__": __name__})


@lru_cache(maxsize=64)
def _returning_one_tensor(kind: Any) -> Any:
    return type(kind.__name__, (_OneTensor, kind), {"_kind": kind, "__module__": kind.__module__})


def _pooling(pooler: bool) -> dict[str, bool]:
    return {} if pooler else {"add_pooling_layer": False}


def _some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
