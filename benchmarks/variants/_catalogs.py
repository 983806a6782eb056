"""Example catalogs of the tasks of Table 4.1, from documented figures and a documented model of their variants.

The thesis prints its catalogs as figures without numbers. The full models here have published sizes; the compact ones
are those of Table B.1 with the accuracies of Table 5.1, and their operations and bytes follow from the table.
The other variants are derived: 16 and 8 bits store a half and a quarter of the bytes, a factorisation keeps .4 of the
bytes and half of the operations. Their losses of accuracy, 0.1, 1 and 3 points of 100, make VGG16's variant of a tenth
of the memory 4 points worse, as section 4.3.1 measures. Prices are those of :class:`CostCard`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.approximate import CostCard, Task, Variant, pareto

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["COMPACT", "FULL", "SHARED_HEAD", "Network", "catalog", "measured_by_the_authors", "table_4_1"]

_SENT_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Network:
    """A network: accuracy, 10^9 operations of a run, and bytes of its weights in 32 bits."""

    name: str
    accuracy: float
    gflop: float
    memory_bytes: int


# Layers of Table B.1: (kernel, maps, stride, padding) of a convolution, (kernel, stride) of a pool, (outputs,).
_O = [(11, 96, 4, 0), (3, 2), (5, 256, 2, 2), (3, 2), (3, 384, 1, 1), (3, 384, 1, 1), (3, 256, 1, 1), (3, 2)]
_O2 = [(11, 64, 4, 0), (3, 2), (5, 256, 2, 2), (3, 2), (3, 256, 1, 1), (3, 256, 1, 1), (3, 256, 1, 1), (3, 2)]
_F1 = [(3, 64, 2, 1), (2, 2), (3, 128, 1, 1), (2, 2), (3, 256, 1, 1), (2, 2), (3, 256, 1, 1), (2, 2)]
_F2 = [(3, 64, 2, 1), (2, 2), (3, 128, 2, 1), (2, 2), (3, 128, 2, 1), (2, 2), (3, 256, 2, 1), (2, 2)]


def _compact(name: str, accuracy: float, side: int, layers: Sequence[tuple[int, ...]]) -> Network:
    """Count the operations, two for each multiply-accumulate, and the bytes of a network of Table B.1."""
    maps, operations, weights = 3, 0, 0
    for layer in layers:
        if len(layer) == 4:
            kernel, outputs, stride, padding = layer
            side = (side + 2 * padding - kernel) // stride + 1
            size = kernel * kernel * maps * outputs
            operations += 2 * size * side * side
        elif len(layer) == 2:
            kernel, stride = layer
            side = -(-(side - kernel) // stride) + 1
            continue
        else:
            size, outputs = maps * side * side * layer[0], layer[0]
            operations += 2 * size
            side = 1
        weights += size
        maps = outputs
    return Network(name, accuracy, operations / 1e9, 4 * weights)


COMPACT = {
    "O1": _compact("O1", 0.489, 227, [*_O, (4096,), (4096,), (1000,)]),
    "O2": _compact("O2", 0.470, 227, [*_O2, (1024,), (2048,), (1000,)]),
    "S1": _compact("S1", 0.489, 227, [*_O, (2048,), (2048,), (205,)]),
    "S2": _compact("S2", 0.408, 227, [*_O2, (1024,), (2048,), (205,)]),
    "F1": _compact("F1", 0.848, 152, [*_F1, (2048,), (2048,), (2622,)]),
    "F2": _compact("F2", 0.809, 152, [*_F2, (1024,), (1024,), (2622,)]),
}

# Last layer of a shared model: "tens of kilobytes", under a millisecond, about 0.1 J (section 4.4.1).
SHARED_HEAD = Network("shared", 0.85, 0.2, 40_000)

# Full models: parameters of VGG16 and AlexNet with the outputs of each task; accuracies of section 4.4.1 (VGG16), of
# the models' authors (AlexNet on ImageNet and Places), and assumed for faces and attributes, for which none is printed.
_SCENES = Network("AlexNet", 0.50, 1.43, 231_000_000)
_FACES = Network("DeepFaceNet", 0.95, 1.5, 290_000_000)
FULL = {
    "V": Network("VGG16", 0.69, 31.0, 553_000_000),
    "A": Network("AlexNet", 0.57, 1.43, 244_000_000),
    "S": _SCENES,
    "D": _FACES,
    **{name: replace(_SCENES, accuracy=accuracy) for name, accuracy in {"M": 0.93, "L": 0.90, "H": 0.88}.items()},
    **{name: replace(_FACES, accuracy=accuracy) for name, accuracy in {"Y": 0.80, "G": 0.94, "R": 0.88}.items()},
}
_COMPACT_OF = {
    "V": ("O1", "O2"),
    "A": ("O1", "O2"),
    **dict.fromkeys("SMLH", ("S1", "S2")),
    **dict.fromkeys("DYGR", ("F1", "F2")),
}
# An attribute with few classes loses less than the task whose network it shares.
_LOSS_SHARE = {**dict.fromkeys("VASD", 1.0), **dict.fromkeys("MLH", 0.2), **dict.fromkeys("YGR", 0.5)}


def measured_by_the_authors(folder: Path) -> tuple[Variant, ...]:
    """Read the variants A0 to A7 of AlexNet from a clone of the authors' code, https://github.com/haneul/mcdnn.

    ``model_as.prototxt`` has accuracy and energy; the memory there is the same for all, so that ``data/As.txt`` counts.
    """
    measured = (folder / "data/As.txt").read_text()
    sizes = dict(re.findall(r"^(A\d)\s+loading.*\s+memory \(MB\):\s+([\d.]+)", measured, re.MULTILINE))
    variants = []
    for block in (folder / "model_as.prototxt").read_text().split("models {"):
        fields = dict(re.findall(r'(\w+):\s*"?([\w.]+)', block))
        if (name := fields.get("name")) in sizes:
            accuracy, load, run = (float(fields[key]) for key in ("accuracy", "loading_energy", "compute_energy"))
            variants.append(Variant(name, accuracy / 100, round(float(sizes[name]) * 1e6), load, run))
    return pareto(variants)


def table_4_1(card: CostCard) -> tuple[Task, ...]:
    """Return the ten tasks of Table 4.1 with their catalogs."""
    tasks = []
    for name, full in FULL.items():
        base = {"M": "S", "L": "S", "H": "S", "Y": "D", "G": "D", "R": "D"}.get(name, name)
        compact = [COMPACT[each] for each in _COMPACT_OF[name]]
        networks = [full] + [
            replace(each, accuracy=full.accuracy - _LOSS_SHARE[name] * (FULL[base].accuracy - each.accuracy))
            for each in compact
        ]
        tasks.append(Task(name, catalog(networks, card)))
    return tuple(tasks)


def catalog(networks: Iterable[Network], card: CostCard, *, derived: bool = True) -> tuple[Variant, ...]:
    """Price some networks and, if wanted, the variants derived from them; return the Pareto front."""
    bits = ((32, 1.0, 0.0), (16, 0.5, 0.001), (8, 0.25, 0.01)) if derived else ((32, 1.0, 0.0),)
    ranks = (("", 1.0, 1.0, 0.0), (" factored", 0.4, 0.5, 0.03)) if derived else (("", 1.0, 1.0, 0.0),)
    return pareto(
        card.variant(
            f"{network.name}{label} {width} bits",
            accuracy=network.accuracy - loss - harm,
            gflop=network.gflop * work,
            memory_bytes=round(network.memory_bytes * share * memory),
            sent_bytes=_SENT_BYTES,
        )
        for network in networks
        for width, share, loss in bits
        for label, memory, work, harm in ranks
    )
