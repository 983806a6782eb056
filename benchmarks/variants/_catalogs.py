"""Example catalogs of the tasks of Table 4.1, from documented figures and a documented model of their variants.

The thesis prints its catalogs as figures without numbers. The full models here have published sizes; the compact ones
are those of Table B.1 with the accuracies of Table 5.1, and their operations and bytes follow from the table.
The other variants are derived: 16 and 8 bits store a half and a quarter of the bytes, a factorisation keeps .4 of the
bytes and half of the operations. Their losses of accuracy, 0.1, 1 and 3 points of 100, make VGG16's variant of a tenth
of the memory 4 points worse, as section 4.3.1 measures. Prices are those of :class:`CostCard`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.approximate import CostCard, Task, Variant, pareto

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["COMPACT", "SHARED_HEAD", "Network", "catalog", "table_4_1"]

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

# Full models: parameters of VGG16 and AlexNet with the outputs of each task; accuracies of Table 5.1, of section 4.4.1
# (VGG16), of the model's authors (AlexNet on ImageNet and Places), and assumed for the attributes, which have none.
_VGG16 = Network("VGG16", 0.69, 31.0, 553_000_000)
_ALEXNET = Network("AlexNet", 0.57, 1.43, 244_000_000)
_SCENES = Network("AlexNet", 0.50, 1.43, 231_000_000)
_FACES = Network("DeepFaceNet", 0.95, 1.5, 290_000_000)


def table_4_1(card: CostCard) -> tuple[Task, ...]:
    """Return the ten tasks of Table 4.1 with their catalogs."""
    scene, face = (COMPACT["S1"], COMPACT["S2"]), (COMPACT["F1"], COMPACT["F2"])
    tasks = {
        "V": (_VGG16, COMPACT["O1"], COMPACT["O2"]),
        "A": (_ALEXNET, COMPACT["O1"], COMPACT["O2"]),
        "S": (_SCENES, *scene),
        "D": (_FACES, *face),
    }
    for name, accuracy in {"M": 0.93, "L": 0.90, "H": 0.88}.items():
        tasks[name] = tuple(_at(network, accuracy - 0.2 * (0.50 - network.accuracy)) for network in (_SCENES, *scene))
    for name, accuracy in {"Y": 0.80, "G": 0.94, "R": 0.88}.items():
        tasks[name] = tuple(_at(network, accuracy - 0.5 * (0.95 - network.accuracy)) for network in (_FACES, *face))
    return tuple(Task(name, catalog(networks, card)) for name, networks in tasks.items())


def catalog(networks: Iterable[Network], card: CostCard, *, extra: Iterable[Variant] = ()) -> tuple[Variant, ...]:
    """Derive the variants of some networks and return the Pareto front."""
    variants = []
    for network in networks:
        for bits, bytes_share, loss in ((32, 1.0, 0.0), (16, 0.5, 0.001), (8, 0.25, 0.01)):
            for label, memory, work, harm in (("", 1.0, 1.0, 0.0), (" factored", 0.4, 0.5, 0.03)):
                variants.append(
                    card.variant(
                        f"{network.name}{label} {bits} bits",
                        accuracy=network.accuracy - loss - harm,
                        gflop=network.gflop * work,
                        memory_bytes=round(network.memory_bytes * bytes_share * memory),
                        sent_bytes=_SENT_BYTES,
                    )
                )
    return pareto([*variants, *extra])


def _at(network: Network, accuracy: float) -> Network:
    return Network(network.name, accuracy, network.gflop, network.memory_bytes)
