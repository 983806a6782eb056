"""Equation 11 of Nautilus on its own networks, BERT-base at 128 tokens and ResNet-50, opened from the roster."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks.adaptation._workloads import traced
from optimizer.adaptation import Candidate, Costs, plan
from udfs.handlers import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.harness.report import Report
    from optimizer.graph import LayerGraph

__all__ = ["PUBLISHED", "paper_candidates", "theory"]

PUBLISHED = {"FTR-1": 4.1, "FTR-2": 5.2, "FTR-3": 4.2, "ATR": 3.2, "FTU": 2.8}
"""Speedups that the paper measured (section 5.1; FTR-3, ATR and FTU read off figure 6 A)."""

PAPER = Costs(flops_per_second=6e12, bytes_per_second=500e6)
"""Rates that the paper sets for its machine."""

_TOKENS, _BLOCKS, _CLASSES = 128, 12, 9
_TOP = tuple(range(_BLOCKS - 3, _BLOCKS + 1))
_STRATEGIES: dict[str, tuple[str, tuple[int, ...]]] = {
    "embedding": ("one", (0,)),
    "second last": ("one", (_BLOCKS - 1,)),
    "last": ("one", (_BLOCKS,)),
    "sum last 4": ("sum", _TOP),
    "concat last 4": ("concat", _TOP),
    "sum all": ("sum", tuple(range(1, _BLOCKS + 1))),
}
_FTR_2 = ("second last", "last", "sum last 4", "concat last 4")
# "Last 3 hidden" to "last 12 hidden" are convolutions: one to four blocks of three.
_TOPS = (1, 2, 3, 4)
_BLOCKS_OF_RESNET = tuple(
    f"conv{stage}_block{block}" for stage, blocks in enumerate((3, 4, 6, 3), 2) for block in range(1, blocks + 1)
)
_RATES = (5e-5, 3e-5, 2e-5)


def paper_candidates(name: str) -> list[Candidate]:
    """Open the networks of one workload of Table 3 and return its candidates."""
    if name == "FTU":
        return _grid({f"last {3 * top}": lambda top=top: _resnet50(top) for top in _TOPS})
    if name == "ATR":
        return _grid({f"last {top}": lambda top=top: _bert(top) for top in _TOPS})
    schemes = {"FTR-1": tuple(_STRATEGIES), "FTR-2": _FTR_2, "FTR-3": ("concat last 4",)}[name]
    epochs = (5, 10) if name == "FTR-3" else (5,)
    return _grid({scheme: lambda scheme=scheme: _bert(_STRATEGIES[scheme]) for scheme in schemes}, epochs)


def _grid(graphs: dict[str, Callable[[], LayerGraph]], epochs: tuple[int, ...] = (5,)) -> list[Candidate]:
    opened = {name: graph() for name, graph in graphs.items()}
    return [
        Candidate(f"{name}, batch {batch}, rate {rate:g}, {number} epochs", graph, number, batch)
        for (name, graph), batch, rate, number in itertools.product(opened.items(), (16, 32), _RATES, epochs)
    ]


@cache
def _encoder() -> Any:
    """BERT-base with random weights: it has the FLOPs of a trained one."""
    from vista_spark import roster  # torch is for this alone

    smaller: Any = roster.card("minilm_l6").builder
    return replace(smaller, hidden=768, blocks=_BLOCKS, intermediate=3072)()


@cache
def _bert(how: tuple[str, tuple[int, ...]] | int) -> LayerGraph:
    from benchmarks.adaptation._nets import Tagger, Tuned  # torch is for this alone

    encoder = copy.deepcopy(_encoder())
    net = Tuned(encoder, how, _CLASSES) if isinstance(how, int) else Tagger(encoder, how[1], how[0], _CLASSES)
    return traced("torch", net, [TensorSpec((_TOKENS,), "int32")] * 2)


@cache
def _cnn() -> Any:
    import keras  # for this alone

    base = keras.applications.ResNet50(weights=None, include_top=False, pooling="avg", input_shape=(224, 224, 3))
    return keras.Model(base.input, keras.layers.Dense(2, name="classes")(base.output))


def _resnet50(top: int) -> LayerGraph:
    model = _cnn()
    learning = tuple(f"{block}_" for block in _BLOCKS_OF_RESNET[-top:])
    for layer in model.layers:
        layer.trainable = layer.name == "classes" or layer.name.startswith(learning)
    return traced("keras", model, [TensorSpec((224, 224, 3), "uint8")])


def theory(report: Report, workloads: Sequence[str]) -> None:
    """Add equation 11, the published speedups and the plan at the paper's settings."""
    rows = []
    for name in workloads:
        found = plan(
            paper_candidates(name),
            records=5000,
            disk_bytes=25 * 10**9,
            memory_bytes=10 * 10**9,
            workspace_bytes=10**9,
            costs=PAPER,
        )
        planned = found.current_flops / found.flops
        rows.append(
            (
                name,
                str(len(found.feeds)),
                f"{found.theoretical_speedup:.2f}",
                f"{PUBLISHED[name]:.1f}",
                f"{planned:.2f}",
                f"{found.materialised_bytes / 1e9:.1f}",
                ", ".join(f"{len(group.members)} of batch {group.batch_size}" for group in found.groups),
            )
        )
        report.ratio(
            f"theory.{name}", found.theoretical_speedup / PUBLISHED[name], "equation 11 / the published speedup"
        )
        report.ratio(f"planned.{name}", planned, "FLOPs of current practice / of the plan, reading included")
    report.table(
        "Equation 11 on BERT-base (128 tokens) and ResNet-50; the plan at 6 TFLOP/s, 500 MB/s, 25 GB of disk, 10 GB",
        ("workload", "models", "equation 11", "published", "the plan", "GB on disk", "groups"),
        rows,
    )
