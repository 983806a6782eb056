"""The card of a model, known before its weights are read: framework, builder, preprocessing, named layers."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from udfs.handlers import framework, framework_of

if TYPE_CHECKING:
    from udfs.images import Preprocessing, Preprocessings
    from udfs.inference import Tokenization
    from udfs.roster._class_names import ClassNames

__all__ = ["FeatureLayer", "ModelCard"]


@dataclass(frozen=True, slots=True)
class FeatureLayer:
    """A layer whose output is a useful feature.

    Parameters
    ----------
    name : str
        The field's name for it: ``"conv5"``, ``"fc6"``.
    module : str
        Path, within the network, of the module whose output it is: after the nonlinearity, where there is one. The
        names of a path have dots between them in torch, slashes in Keras.
    """

    name: str
    module: str


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model of the roster.

    Parameters
    ----------
    name : str
        Key in the roster.
    builder : callable or model
        Makes a new network with each call, with any weights. It must be picklable. A builder for torch must run under
        ``torch.device("meta")``; one for Keras returns a built model, and where it takes an ``input_shape``, which is
        ``preprocessing.shape``, it serves every image size. A model, or a builder that hands out one and the same
        model, is copied with its current weights when it is used, and is not changed.
    preprocessing : Preprocessing, Preprocessings or Tokenization
        Turns an image, several images in a column each, or a text into the network's inputs.
    layers : sequence of FeatureLayer or str, optional
        Layers, from the bottom to the top; a string is a module's path, and the layer's name. By default found in the
        network, as :func:`vista_spark.roster.of` finds them.
    parameters : int, optional
        Number of scalars: in torch those of ``builder().parameters()``, without buffers; in Keras ``count_params()``.
        By default, 0, they are counted.
    reference : str
        The paper.
    framework : str
        Name of the network's framework: ``"torch"`` (default), ``"keras"``, or one that you added. Where the builder
        returns a model of another one, it is that model's.
    weights : str or path, optional
        Path or URI of the weights to use where the user names none. By default random ones.
    class_names : sequence, mapping or str, optional
        Names of the classes of the network's output, as :func:`vista_spark.roster.read_class_names` reads them; by
        default classes are numbers.
    assumed : str
        Assumptions where the user said nothing, such as the preprocessing; ``explain()`` shows them.

    Examples
    --------
    >>> from vista_spark import roster
    >>> [layer.name for layer in roster.card("alexnet").resolve(3)]
    ['fc6', 'fc7', 'fc8']
    """

    name: str
    builder: Any
    preprocessing: Preprocessing | Preprocessings | Tokenization
    layers: tuple[FeatureLayer, ...] = ()
    parameters: int = 0
    reference: str = ""
    framework: str = "torch"
    weights: str | None = None
    class_names: ClassNames | None = None
    assumed: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if ":" in self.name:
            raise InvalidArgumentError(f"name must have no colon, which package.module:function has, got {self.name!r}")
        listed: Any = self.layers
        listed = [listed] if isinstance(listed, str | FeatureLayer) else listed
        layers = tuple(FeatureLayer(layer, layer) if isinstance(layer, str) else layer for layer in listed)
        object.__setattr__(self, "layers", layers)
        if self.weights is not None:
            object.__setattr__(self, "weights", os.fspath(self.weights))
        # Those that ship name their framework, and importing them imports none.
        backend = None if type(self.builder).__module__.startswith("udfs.roster.") else framework_of(self.builder)
        if backend is not None:
            object.__setattr__(self, "framework", backend.name)

    @property
    def kind(self) -> str:
        """Kind of records that the model reads: ``"image"`` or ``"text"``."""
        return self.preprocessing.kind

    def skeleton(self) -> Any:
        """Build the network for its structure alone; in torch on the meta device, where it takes no memory."""
        return framework(self.framework).skeleton(self.builder, self.preprocessing.inputs)

    def resolve(
        self, layers: int | str | FeatureLayer | Sequence[int | str | FeatureLayer]
    ) -> tuple[FeatureLayer, ...]:
        """Find layers by number, name or module path.

        Parameters
        ----------
        layers : int, str, or sequence of them
            A bare integer ``k`` means the top ``k`` layers (the ``|L|`` of Vista's API, section 3.3 of the paper). In a
            sequence an integer ``n`` means the ``n``-th layer from the top, 1 the topmost. Below zero it is the same
            layer, counted as Python counts: ``-1`` is the topmost, in a sequence or alone. A string is a layer's name
            or the path of a module of the network.

        Returns
        -------
        tuple of FeatureLayer
            Layers from the bottom to the top, each once. A layer that is not on the card has its path as its name.

        Raises
        ------
        UnknownLayerError
            There is no such layer, or no such module that runs at inference; the message lists the layers and the
            nearest.
        InvalidArgumentError
            ``layers`` is empty, or has something that is neither integer nor string.

        Examples
        --------
        >>> from vista_spark import roster
        >>> roster.card("resnet50").resolve(["conv5_3", 1])
        (FeatureLayer(name='conv5_3', module='layer4.2'), FeatureLayer(name='fc6', module='fc'))
        """
        wanted: Any = layers
        if _is_number(wanted) and wanted >= 0:
            self._from_top(int(wanted))
            return self.layers[-int(wanted) :]
        wanted = [wanted] if _is_number(wanted) or isinstance(wanted, str | FeatureLayer) else wanted
        if not isinstance(wanted, Sequence) or not wanted:
            raise InvalidArgumentError(
                f"layers must be a number, a name or a non-empty sequence of them, not {layers!r}"
            )
        resolved = {layer.module: layer for layer in map(self._find, wanted)}
        order = [layer.module for layer in self.layers]
        if not resolved.keys() <= set(order):
            order = self._run_order()
        return tuple(sorted(resolved.values(), key=lambda layer: order.index(layer.module)))

    def _find(self, wanted: Any) -> FeatureLayer:
        if isinstance(wanted, FeatureLayer):
            wanted = wanted.module
        if _is_number(wanted):
            return self._from_top(int(wanted))
        if not isinstance(wanted, str):
            raise InvalidArgumentError(f"a layer is a number from the top or a name, not {wanted!r}")
        for layer in self.layers:
            if wanted in (layer.name, layer.module):
                return layer
        paths = self._run_order()
        if wanted in paths:
            return FeatureLayer(wanted, wanted)
        near = difflib.get_close_matches(wanted, paths, n=3)
        raise UnknownLayerError(wanted, [*(layer.name for layer in self.layers), *near], f"model {self.name!r}")

    def _from_top(self, number: int) -> FeatureLayer:
        if not 1 <= abs(number) <= len(self.layers):
            known = [layer.name for layer in self.layers]
            where = f"model {self.name!r}, which counts 1 to {len(known)} from the top"
            raise UnknownLayerError(str(number), known, where)
        return self.layers[-abs(number)]

    def _run_order(self) -> list[str]:
        return framework(self.framework).run_order(self.builder, self.preprocessing.inputs)


def _is_number(value: object) -> bool:
    """Return whether it is a whole number, numpy's included."""
    return isinstance(value, Integral) and not isinstance(value, bool)
