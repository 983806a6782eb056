"""Workloads of adaptation for the tests: Nautilus's Table 3, and random ones."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from optimizer.adaptation import Candidate, Costs
from optimizer.graph import Layer, LayerGraph

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ATTENTION", "DENSE", "PAPER", "STATE_BYTES", "TABLE_3", "feature_transfer", "fine_tuned", "workloads"]

PAPER = Costs(flops_per_second=6e12, bytes_per_second=500e6)
"""The rates that the paper sets for its machine."""

TOKENS, HIDDEN, BLOCKS, CLASSES = 128, 768, 12, 9

# A transformer block: four projections and two dense layers of four times the width; scores and their use.
ATTENTION = 8 * TOKENS * HIDDEN**2 + 4 * TOKENS**2 * HIDDEN
DENSE = 16 * TOKENS * HIDDEN**2
STATE = (TOKENS, HIDDEN)
STATE_BYTES = 4 * TOKENS * HIDDEN
# Projections, scores of 12 heads twice, context, output, sum, norm; then the wide layer twice, output, sum, norm.
ATTENTION_INNER = 7 * STATE_BYTES + 2 * 12 * 4 * TOKENS**2
DENSE_INNER = 11 * STATE_BYTES


def _block(name: str, below: str, *, frozen: bool) -> list[Layer]:
    """Give the two halves of a transformer block."""
    mark = "bert" if frozen else ""
    return [
        Layer(
            f"{name}.attention",
            "attention",
            (below,),
            STATE,
            flops=ATTENTION,
            param_bytes=16 * HIDDEN**2,
            frozen=frozen,
            fingerprint=mark and f"{mark}.{name}.attention",
            inner_bytes=ATTENTION_INNER,
        ),
        Layer(
            name,
            "dense",
            (f"{name}.attention",),
            STATE,
            flops=DENSE,
            param_bytes=32 * HIDDEN**2,
            frozen=frozen,
            fingerprint=mark and f"{mark}.{name}",
            inner_bytes=DENSE_INNER,
        ),
    ]


def bert(frozen: int = BLOCKS) -> list[Layer]:
    """BERT-base on 128 tokens, of which the first blocks are frozen."""
    layers = [
        Layer("ids", "input", (), (TOKENS,), "int32"),
        Layer("hidden0", "embedding", ("ids",), STATE, param_bytes=4 * 30_522 * HIDDEN, fingerprint="bert.embedding"),
    ]
    for i in range(1, BLOCKS + 1):
        layers += _block(f"hidden{i}", f"hidden{i - 1}", frozen=i <= frozen)
    return layers


def _classifier(below: str) -> Layer:
    return Layer(
        "classes",
        "fc",
        (below,),
        (TOKENS, CLASSES),
        flops=2 * TOKENS * HIDDEN * CLASSES,
        param_bytes=4 * HIDDEN * CLASSES,
        frozen=False,
    )


def feature_transfer(how: str) -> LayerGraph:
    """A transformer block over features of frozen BERT, as in FTR."""
    layers = bert()
    last = {"last": "hidden12", "second last": "hidden11", "embedding": "hidden0"}
    if how in last:
        below = last[how]
    else:
        names = [f"hidden{i}" for i in (range(1, 13) if how == "sum all" else range(9, 13))]
        below = how
        if how == "concat last 4":
            layers.append(Layer("concat", "concat", tuple(names), (TOKENS, 4 * HIDDEN)))
            layers.append(
                Layer(
                    "project",
                    "fc",
                    ("concat",),
                    STATE,
                    flops=8 * TOKENS * HIDDEN**2,
                    param_bytes=16 * HIDDEN**2,
                    frozen=False,
                )
            )
            below = "project"
        else:
            layers.append(Layer(how, "add", tuple(names), STATE, flops=len(names) * TOKENS * HIDDEN))
    layers += [*_block("head", below, frozen=False), _classifier("head")]
    return LayerGraph(layers, ["classes"])


def adapters(top: int) -> LayerGraph:
    """Houlsby adapters of 64 after both halves of the last blocks, as in ATR."""
    layers = bert()[: 2 + 2 * (BLOCKS - top)]
    below = f"hidden{BLOCKS - top}"
    for i in range(BLOCKS - top + 1, BLOCKS + 1):
        for half in _block(f"hidden{i}", below, frozen=True):
            layers.append(half if half.inputs == (below,) else _over(half, below))
            below = f"{half.name}.adapter"
            layers.append(
                Layer(
                    below,
                    "adapter",
                    (half.name,),
                    STATE,
                    flops=4 * TOKENS * HIDDEN * 64,
                    param_bytes=8 * HIDDEN * 64,
                    frozen=False,
                    inner_bytes=2 * STATE_BYTES,
                )
            )
    return LayerGraph([*layers, _classifier(below)], ["classes"])


def _over(layer: Layer, below: str) -> Layer:
    return Layer.from_dict(layer.to_dict() | {"inputs": (below,)})


STAGES = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))


def fine_tuned(top: int) -> LayerGraph:
    """ResNet-50 with its last bottleneck blocks trainable, as in FTU."""
    layers = [
        Layer("image", "input", (), (3, 224, 224), "uint8"),
        Layer(
            "stem",
            "conv",
            ("image",),
            (64, 56, 56),
            flops=2 * 112**2 * 64 * 3 * 49,
            param_bytes=4 * 64 * 3 * 49,
            fingerprint="stem",
        ),
    ]
    number, before = 0, 64
    for blocks, width, side in STAGES:
        for i in range(blocks):
            number += 1
            # The first block of a later stage reads a map of twice the side, and halves it in its second convolution.
            first = (2 * side if i == 0 and width > 64 else side) ** 2 * before * width
            shortcut = before * 4 * width if i == 0 else 0
            weights = before * width + 9 * width**2 + 4 * width**2 + shortcut
            frozen = number <= 16 - top
            layers.append(
                Layer(
                    f"block{number}",
                    "bottleneck",
                    (layers[-1].name,),
                    (4 * width, side, side),
                    flops=2 * (first + side**2 * (13 * width**2 + shortcut)),
                    param_bytes=4 * weights,
                    frozen=frozen,
                    fingerprint=f"block{number}" if frozen else "",
                    inner_bytes=4 * side**2 * width * 16,
                )
            )
            before = 4 * width
    head = Layer("classes", "fc", (layers[-1].name,), (2,), flops=4 * 2048, param_bytes=8 * 2048, frozen=False)
    return LayerGraph([*layers, head], ["classes"])


def _grid(graphs: dict[str, LayerGraph], epochs: tuple[int, ...] = (5,)) -> list[Candidate]:
    return [
        Candidate(f"{name}/{batch}/{rate}/{n}", graph, n, batch)
        for (name, graph), batch, rate, n in itertools.product(
            graphs.items(), (16, 32), ("5e-5", "3e-5", "2e-5"), epochs
        )
    ]


def _transfers(*ways: str) -> dict[str, LayerGraph]:
    return {way: feature_transfer(way) for way in ways}


FTR_2 = ("second last", "last", "sum last 4", "concat last 4")

TABLE_3: dict[str, Callable[[], list[Candidate]]] = {
    "FTR-1": lambda: _grid(_transfers("embedding", *FTR_2, "sum all")),
    "FTR-2": lambda: _grid(_transfers(*FTR_2)),
    "FTR-3": lambda: _grid(_transfers("concat last 4"), (5, 10)),
    "ATR": lambda: _grid({f"last {top}": adapters(top) for top in (1, 2, 3, 4)}),
    # "Last 3 hidden" to "last 12 hidden" are convolutions: one to four blocks of three.
    "FTU": lambda: _grid({f"last {3 * top}": fine_tuned(top) for top in (1, 2, 3, 4)}),
}
"""The candidates of the paper's workloads, by name."""


@st.composite
def workloads(draw: st.DrawFn, most: int = 3, layers: int = 5) -> list[Candidate]:
    """Draw candidates over one small frozen DAG, with skips, and heads on some of its layers."""
    trunk = [Layer(f"x{i}", "input", (), (draw(st.integers(1, 4)), i + 1)) for i in range(draw(st.integers(1, 2)))]
    for i in range(draw(st.integers(1, layers))):
        names = [layer.name for layer in trunk]
        trunk.append(
            Layer(
                f"f{i}",
                "conv",
                tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))),
                (draw(st.integers(1, 6)),),
                flops=draw(st.integers(0, 40)),
                param_bytes=draw(st.integers(0, 50)),
                fingerprint=f"f{i}",
                random=draw(st.integers(0, 9)) == 0,
            )
        )
    names = [layer.name for layer in trunk]
    candidates = []
    for i in range(draw(st.integers(1, most))):
        below = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)))
        head = Layer("head", "fc", below, (2,), flops=draw(st.integers(1, 9)), param_bytes=8, frozen=False)
        graph = LayerGraph([*trunk, head], ["head"])
        candidates.append(Candidate(f"c{i}", graph, draw(st.integers(1, 3)), draw(st.sampled_from([8, 8, 16]))))
    return candidates
