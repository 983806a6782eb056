"""Inputs of a plan: a cluster, the footprint of a model, a downstream model, a workload."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["ClusterSpec", "Downstream", "LayerSize", "ModelFootprint", "TransferWorkload", "not_negative"]

_FLOAT32 = 4
_FLOAT64 = 8

# A trained float32 parameter with its gradient and Adam's two moments.
_TRAINED = 4 * _FLOAT32

# L-BFGS keeps ten pairs of vectors, and about five for the present step.
_LBFGS_VECTORS = 25


def not_negative(value: Any, *, least: Mapping[str, int] | None = None) -> None:
    """Validate that the numbers of a dataclass are not negative and not below their minimum in ``least``."""
    for field in fields(value):
        number = getattr(value, field.name)
        floor = (least or {}).get(field.name, 0)
        if isinstance(number, int | float) and not isinstance(number, bool) and not floor <= number < math.inf:
            raise CerebroError(
                f"{field.name} of {type(value).__name__} must be finite and at least {floor}, got {number!r}."
            )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Machines of a cluster (Vista, Table 1A).

    Parameters
    ----------
    nodes : int
        Worker nodes; one executor runs on each.
    cores : int
        Cores of one worker node (``cpu_sys``).
    memory_bytes : int
        Memory of one worker node (``mem_sys``), or its limit in a container or cgroup.
    gpu_memory_bytes : int
        Memory of the GPU of a worker node (``mem_GPU``); 0 without a GPU.
    driver_memory_bytes : int, optional
        Memory of the machine of the driver; by default that of a worker node. Unused if ``local``.
    local : bool
        Driver and executor are one JVM, Spark's ``local[*]``: the driver's memory comes out of the node's.

    Raises
    ------
    CerebroError
        No node, no core, a negative size, several nodes in one JVM.

    Examples
    --------
    >>> ClusterSpec(nodes=8, cores=8, memory_bytes=32_000_000_000).cores
    8
    """

    nodes: int
    cores: int
    memory_bytes: int
    gpu_memory_bytes: int = 0
    driver_memory_bytes: int | None = None
    local: bool = False

    def __post_init__(self) -> None:
        not_negative(self, least={"nodes": 1, "cores": 1})
        if self.local and self.nodes > 1:
            raise CerebroError(f"nodes must be 1 for a local cluster, which is one JVM, got {self.nodes}.")


@dataclass(frozen=True, slots=True)
class ModelFootprint:
    """Memory of a network, as ``vista profile`` measures it (Vista, section 4.3).

    Parameters
    ----------
    serialized_bytes : int
        Size of the stored weights (``|f|_ser``).
    runtime_bytes : int
        Resident bytes that running one batch adds to a worker (``|f|_mem``): framework, weights, activations.
    runtime_gpu_bytes : int
        The same on a GPU (``|f|_mem_gpu``).
    shared_bytes : int
        The part of ``runtime_bytes`` that is resident once per node, whatever the number of workers: memory-mapped
        weights. 0 gives the paper's equation 11.
    batch_size : int
        Records of the batch that was measured.

    Raises
    ------
    CerebroError
        A negative size, or more shared bytes than runtime bytes.

    Examples
    --------
    >>> alexnet = ModelFootprint(serialized_bytes=300_000_000, runtime_bytes=2_000_000_000)
    >>> alexnet.resident_bytes(workers=7)
    14000000000
    """

    serialized_bytes: int
    runtime_bytes: int
    runtime_gpu_bytes: int = 0
    shared_bytes: int = 0
    batch_size: int = 1

    def __post_init__(self) -> None:
        not_negative(self, least={"batch_size": 1})
        if self.shared_bytes > self.runtime_bytes:
            raise CerebroError(
                f"shared_bytes must be at most runtime_bytes={self.runtime_bytes}, got {self.shared_bytes}."
            )

    def resident_bytes(self, workers: int) -> int:
        """Return the bytes on a node with that many workers (equation 11; the shared part counts once)."""
        return self.shared_bytes + workers * (self.runtime_bytes - self.shared_bytes)


@dataclass(frozen=True, slots=True)
class Downstream:
    """Memory of the downstream model ``M``; its size grows with the features it reads (Vista, section 4.3).

    Parameters
    ----------
    name : str
            Name of the estimator.
        For :meth:`TransferPlan.explain`.
    place : {"user", "dl"}
        Place of the training: in the dataflow system's User Memory, case (a) of equations 10 and 11, or by a deep
        learning framework in DL Execution Memory, case (b).
    bytes_per_feature, fixed_bytes : int
        ``|M|_mem`` of one worker is ``bytes_per_feature * features + fixed_bytes``, within ``most_bytes``.
    runtime_gpu_bytes : int
        ``|M|_mem_gpu``.
    driver_bytes_per_feature : int
        Bytes that the driver keeps during training for the vectors of the optimizer.
    most_bytes : int, optional
        Bound that the trainer keeps to by working in groups, as Spark's trees do; none by default.
    group_bytes_per_feature : int
        The smallest group, which is worked on even where it exceeds ``most_bytes``.
    summed_on_driver : bool
        Whether the driver receives workers' sums of the size of ``|M|_mem`` (``treeAggregate``).

    Raises
    ------
    CerebroError
        A negative size, or an unknown place.

    Examples
    --------
    >>> Downstream.logistic_regression().memory_bytes(features=9216 + 130)
    149552
    >>> Downstream.mlp(hidden=(1024, 1024, 1024)).place
    'dl'
    """

    name: str = "a downstream model of no size"
    place: Literal["user", "dl"] = "user"
    bytes_per_feature: int = 0
    fixed_bytes: int = 0
    runtime_gpu_bytes: int = 0
    driver_bytes_per_feature: int = 0
    most_bytes: int | None = None
    group_bytes_per_feature: int = 0
    summed_on_driver: bool = True

    def __post_init__(self) -> None:
        not_negative(self)
        if self.place not in {"user", "dl"}:
            raise CerebroError(f'place must be "user" or "dl", got {self.place!r}.')

    def memory_bytes(self, features: int) -> int:
        """Return ``|M|_mem``, the bytes of one worker."""
        wanted = self.bytes_per_feature * features + self.fixed_bytes
        if self.most_bytes is None:
            return wanted
        return min(wanted, max(self.most_bytes, self.group_bytes_per_feature * features))

    @classmethod
    def logistic_regression(cls, classes: int = 2) -> Downstream:
        """Size Spark ML's logistic regression: float64 coefficients and gradient on a worker, L-BFGS on the driver."""
        outputs = 1 if classes <= 2 else classes
        size = outputs * _FLOAT64
        return cls("logistic regression", "user", 2 * size, 2 * size, 0, _LBFGS_VECTORS * size)

    @classmethod
    def trees(
        cls, name: str, classes: int, *, nodes: int = 16, bins: int = 32, most_bytes: int = 256 * 2**20
    ) -> Downstream:
        """Size Spark ML's decision trees, boosted or in a forest, by the histograms of the nodes that are split.

        Parameters
        ----------
        name : str
            Name of the estimator.
        classes : int
            The largest label + 1; 0 for a regression, and for boosted trees, which are regressions.
        nodes : int
            Split at a time, each on all features.
        bins, most_bytes : int
            ``maxBins``, and ``maxMemoryInMB`` in bytes: nodes beyond it wait for the next pass.

        Examples
        --------
        A price has as many labels as rows, but three sums and a count for each bin:

        >>> Downstream.trees("RandomForestRegressor", classes=0).bytes_per_feature == 16 * 32 * 4 * 8
        True
        """
        # Of a bin Spark keeps a weight for each class and a count, or sums of 1, y and y * y and a count.
        statistics = classes + 1 if classes else 4
        node = bins * statistics * _FLOAT64
        return cls(
            name,
            bytes_per_feature=nodes * node,
            most_bytes=most_bytes,
            group_bytes_per_feature=node,
            summed_on_driver=False,
        )

    @classmethod
    def mlp(cls, hidden: Sequence[int], classes: int = 2) -> Downstream:
        """Size a perceptron of a framework: float32 parameters, their gradients and Adam's two moments."""
        widths = [*hidden, classes]
        rest = sum(widths) + sum(a * b for a, b in itertools.pairwise(widths))
        return cls(f"an MLP of {len(hidden)} hidden layers", "dl", _TRAINED * widths[0], _TRAINED * rest)


@dataclass(frozen=True, slots=True)
class LayerSize:
    """Sizes of one layer of interest in its table, for one record.

    Parameters
    ----------
    name : str
            Name of the estimator.
    tensor_bytes : int
        Bytes of the feature tensor that is kept for the downstream model. FlattenOp keeps every element: the length
        of its vector is the *product* of the shape (Vista's definition 3.5 prints a sum).
    features : int, optional
        Length of the vector that the downstream model reads, where pooling makes it shorter; by default as many
        float32 as ``tensor_bytes`` holds.
    carried_bytes : int
        Bytes of the tensors that a staged plan keeps beside it for its next stage. 0 where the feature tensor
        itself is what the next stage reads, as in the paper.
    same_pass : bool
        Whether a staged plan delivers it in the same pass, and table, as the layer before it.

    Raises
    ------
    CerebroError
        A negative size.

    Examples
    --------
    >>> LayerSize("conv5", tensor_bytes=4 * 256 * 13 * 13)
    LayerSize(name='conv5', tensor_bytes=173056, features=43264, carried_bytes=0, same_pass=False)
    """

    name: str
    tensor_bytes: int
    # None is only an argument, as in Layer.activation_bytes.
    features: int = None  # type: ignore[assignment]
    carried_bytes: int = 0
    same_pass: bool = False

    def __post_init__(self) -> None:
        features: Any = self.features
        if features is None:
            object.__setattr__(self, "features", self.tensor_bytes // _FLOAT32)
        not_negative(self)


@dataclass(frozen=True, slots=True)
class TransferWorkload:
    """Workload of a feature transfer (Vista, section 3.2 and Table 1A).

    Parameters
    ----------
    structured_rows : int
        Records.
    structured_features : int
        Columns of the structured table beside the id, the label included (``d_s``).
    layers : tuple of LayerSize
        The layers of interest, from the bottom to the top (``L``).
    image_bytes : int
        Mean size of the encoded images of one record (a JPEG).
    model : ModelFootprint
        Memory of the network.
    downstream : Downstream
        Memory of the downstream model.
    image_tensor_bytes : int
        Size of the decoded images of one record, as the network reads them: the paper's first intermediate.

    Raises
    ------
    CerebroError
        No layer, no row, a negative size.

    Examples
    --------
    Foods with the top of AlexNet, as in the paper's section 5:

    >>> foods = TransferWorkload(
    ...     structured_rows=20_000,
    ...     structured_features=130,
    ...     layers=tuple(
    ...         LayerSize(name, 4 * elements)
    ...         for name, elements in [("conv5", 13 * 13 * 256), ("fc6", 4096), ("fc7", 4096), ("fc8", 1000)]
    ...     ),
    ...     image_bytes=14_000,
    ...     model=ModelFootprint(serialized_bytes=300_000_000, runtime_bytes=2_000_000_000),
    ...     downstream=Downstream.logistic_regression(),
    ...     image_tensor_bytes=4 * 227 * 227 * 3,
    ... )
    >>> foods.features
    43394
    """

    structured_rows: int
    structured_features: int
    layers: tuple[LayerSize, ...]
    image_bytes: int
    model: ModelFootprint
    downstream: Downstream = Downstream()
    image_tensor_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        not_negative(self, least={"structured_rows": 1})
        if not self.layers:
            raise CerebroError("layers must have at least one layer to transfer, got none.")

    @property
    def features(self) -> int:
        """The most features that the downstream model reads: the structured ones and the widest layer's."""
        return self.structured_features + max(layer.features for layer in self.layers)
