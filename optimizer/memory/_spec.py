"""The inputs of a plan: a cluster, a model's footprint, a downstream model, a feature transfer workload."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.graph import LayerGraph
    from optimizer.logical import LogicalPlan

__all__ = ["ClusterSpec", "Downstream", "LayerSize", "ModelFootprint", "TransferWorkload", "not_negative"]

_FLOAT32 = 4
_FLOAT64 = 8

# A trained float32 parameter with its gradient and Adam's two moments.
_TRAINED = 4 * _FLOAT32

# L-BFGS keeps ten pairs of vectors, and about five for the present step.
_LBFGS_VECTORS = 25


def not_negative(value: Any, *, least: Mapping[str, int] | None = None) -> None:
    """Refuse a dataclass with a negative number, or with one below its minimum in ``least``."""
    for field in fields(value):
        number = getattr(value, field.name)
        floor = (least or {}).get(field.name, 0)
        if isinstance(number, int | float) and not isinstance(number, bool) and not floor <= number < math.inf:
            raise CerebroError(f"{type(value).__name__}: {field.name}={number!r}; it is at least {floor}, and finite")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The machines (Vista, Table 1A).

    Parameters
    ----------
    nodes : int
        Worker nodes; one executor runs on each.
    cores : int
        Of one worker node (``cpu_sys``).
    memory_bytes : int
        Of one worker node, the whole of it (``mem_sys``), or of what limits it: a container, a cgroup.
    gpu_memory_bytes : int
        Of the one GPU of a worker node (``mem_GPU``); 0 where there is none.
    driver_memory_bytes : int, optional
        Of the machine that the driver runs on; by default it equals a worker node. Unused if ``local``.
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
            raise CerebroError(f"{self.nodes} nodes in one JVM: a local cluster has nodes=1")


@dataclass(frozen=True, slots=True)
class ModelFootprint:
    """The memory of a network, as ``vista profile`` measures it (Vista, section 4.3).

    Parameters
    ----------
    serialized_bytes : int
        Of the stored weights (``|f|_ser``).
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
            raise CerebroError(f"shared_bytes={self.shared_bytes} is a part of runtime_bytes={self.runtime_bytes}")

    def resident_bytes(self, workers: int) -> int:
        """Bytes on a node with that many workers (equation 11; the shared part counts once)."""
        return self.shared_bytes + workers * (self.runtime_bytes - self.shared_bytes)


@dataclass(frozen=True, slots=True)
class Downstream:
    """The downstream model ``M``; its size grows with the features it reads (Vista, section 4.3).

    Parameters
    ----------
    name : str
        For :meth:`TransferPlan.explain`.
    place : {"user", "dl"}
        Where it is trained: in the dataflow system's User Memory, case (a) of equations 10 and 11, or by a deep
        learning framework in DL Execution Memory, case (b).
    bytes_per_feature, fixed_bytes : int
        ``|M|_mem`` of one worker is ``bytes_per_feature * features + fixed_bytes``, within ``most_bytes``.
    runtime_gpu_bytes : int
        ``|M|_mem_gpu``.
    driver_bytes_per_feature : int
        What the driver keeps while it trains: the optimiser's vectors.
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
            raise CerebroError(f'place={self.place!r}: a downstream model is trained in "user" or in "dl" memory')

    def memory_bytes(self, features: int) -> int:
        """``|M|_mem``: bytes of one worker."""
        wanted = self.bytes_per_feature * features + self.fixed_bytes
        if self.most_bytes is None:
            return wanted
        return min(wanted, max(self.most_bytes, self.group_bytes_per_feature * features))

    @classmethod
    def logistic_regression(cls, classes: int = 2) -> Downstream:
        """Spark ML's logistic regression: coefficients and a gradient, float64, on a worker; L-BFGS on the driver."""
        outputs = 1 if classes <= 2 else classes  # a binary model has one row of coefficients
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
        """A perceptron in a deep learning framework: float32 parameters, their gradients and Adam's two moments."""
        widths = [*hidden, classes]
        rest = sum(widths) + sum(a * b for a, b in itertools.pairwise(widths))
        return cls(f"an MLP of {len(hidden)} hidden layers", "dl", _TRAINED * widths[0], _TRAINED * rest)


@dataclass(frozen=True, slots=True)
class LayerSize:
    """The sizes of one layer of interest in its table, for one record.

    Parameters
    ----------
    name : str
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
    >>> LayerSize.of_shape("conv5", (256, 13, 13))
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

    @classmethod
    def of_shape(cls, name: str, shape: Sequence[int], features: int | None = None) -> LayerSize:
        """A layer whose whole float32 output is kept."""
        return cls(name, _FLOAT32 * math.prod(shape), features)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class TransferWorkload:
    """A feature transfer workload (Vista, section 3.2 and Table 1A).

    Parameters
    ----------
    structured_rows : int
        Records.
    structured_features : int
        Columns of the structured table beside the id, the label included (``d_s``).
    layers : tuple of LayerSize
        The layers of interest, from the bottom to the top (``L``).
    image_bytes : int
        Of the encoded images of one record (a JPEG), on average.
    model : ModelFootprint
    downstream : Downstream
    image_tensor_bytes : int
        Of the decoded images of one record, as the network is fed: the paper's first intermediate.

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
    ...         LayerSize.of_shape(name, shape)
    ...         for name, shape in [("conv5", (13, 13, 256)), ("fc6", (4096,)), ("fc7", (4096,)), ("fc8", (1000,))]
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
            raise CerebroError("no layer to transfer: name at least one")

    @property
    def features(self) -> int:
        """The most features that the downstream model reads: the structured ones and the widest layer's."""
        return self.structured_features + max(layer.features for layer in self.layers)

    @classmethod
    def from_plan(
        cls,
        graph: LayerGraph,
        plan: LogicalPlan,
        model: ModelFootprint,
        downstream: Downstream,
        *,
        structured_rows: int,
        structured_features: int,
        image_bytes: int,
        features: Mapping[str, int] | None = None,
    ) -> TransferWorkload:
        """Make the workload of a traced network.

        Parameters
        ----------
        graph : LayerGraph
        plan : LogicalPlan
            Of :func:`optimizer.logical.plan_layers`. Its targets are the layers, and what a staged plan writes is
            what it carries from one stage to the next; give :func:`plan_transfer` the same ``logical``.
        model, downstream, structured_rows, structured_features, image_bytes
            As for the class.
        features : mapping of str to int, optional
            Lengths of the vectors after pooling, by target: float32, and all of the tensor that is kept for the
            downstream model. A target that is not named keeps its whole output.

        Raises
        ------
        optimizer.errors.UnknownLayerError
            A target that the graph does not have.

        Examples
        --------
        >>> from optimizer.graph import Layer, LayerGraph
        >>> from optimizer.logical import plan_layers
        >>> graph = LayerGraph(
        ...     [
        ...         Layer("image", "input", output_shape=(3, 8, 8)),
        ...         Layer("conv", "conv2d", ("image",), (4, 8, 8)),
        ...         Layer("fc", "Linear", ("conv",), (10,)),
        ...     ],
        ...     ["fc"],
        ... )
        >>> workload = TransferWorkload.from_plan(
        ...     graph,
        ...     plan_layers(graph, ["conv", "fc"], "staged"),
        ...     ModelFootprint(4000, 100_000),
        ...     Downstream.logistic_regression(),
        ...     structured_rows=100,
        ...     structured_features=5,
        ...     image_bytes=300,
        ...     features={"conv": 16},
        ... )
        >>> for layer in workload.layers:
        ...     print(layer)
        LayerSize(name='conv', tensor_bytes=64, features=16, carried_bytes=1024, same_pass=False)
        LayerSize(name='fc', tensor_bytes=40, features=10, carried_bytes=0, same_pass=False)
        """
        pooled = features or {}
        layers = []
        for stage in plan.stages:
            for place, target in enumerate(stage.targets):
                whole = graph[target]
                length = pooled.get(target, math.prod(whole.output_shape))
                kept = _FLOAT32 * length if target in pooled else whole.activation_bytes
                # What a stage writes is carried once, however many layers it delivers.
                carried = 0 if place else stage.write_bytes
                layers.append(LayerSize(plan.names.get(target, target), kept, length, carried, place > 0))
        return cls(
            structured_rows,
            structured_features,
            tuple(layers),
            image_bytes,
            model,
            downstream,
            sum(graph[name].activation_bytes for name in graph.inputs),
        )
