"""The door for models: whatever a user calls one becomes a card."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError, UnknownLayerError
from udfs.handlers import framework as framework_named
from udfs.handlers import framework_of, frameworks
from udfs.inference import NetworkFile
from udfs.roster._assumed_preprocessing import assumed_preprocessing
from udfs.roster._card import FeatureLayer, ModelCard
from udfs.roster._model_files import is_model_file, model_name, read_model_file
from udfs.roster._numbering import numbered
from udfs.roster._registry import card, names
from udfs.roster._stated_preprocessing import as_preprocessing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.handlers import Framework
    from udfs.images import Preprocessing, Preprocessings
    from udfs.inference import Tokenization

    Inputs = Preprocessing | Preprocessings | Tokenization

__all__ = ["is_name", "of", "settle"]

_LOG = logging.getLogger(__name__)

# What the log has of assumptions about networks.
_STATED: set[tuple[str, str]] = set()

# Modules of the roster's own builders, which make a new network with each call.
_ROSTER = "udfs.roster."


def of(
    model: Any,
    *,
    framework: str | None = None,
    preprocessing: Any = None,
    layers: Sequence[str | FeatureLayer] | None = None,
    name: str | None = None,
    image_size: int | None = None,
) -> ModelCard:
    """Make a card of whatever names a model: what every ``model=`` of this project accepts.

    A model that is given itself is copied, with its weights of now: it stays as it is, in its mode and with its
    gradients and hooks, and may be trained further. The copy travels to Spark's workers and is saved with a stage.

    Parameters
    ----------
    model : torch.nn.Module, keras.Model, ExportedProgram, ModelCard, str, path or callable
        A model; a program of ``torch.export``; a file of one (``.pt2``), of Keras (``.keras``) or of ONNX (``.onnx``,
        with the extra ``onnx``); a card; a name of :func:`names`; ``"package.module:function"``, a function without
        arguments that returns a model or a card, or such a function itself.
    framework : str, optional
        Name of the model's framework; by default the one that recognises it.
    preprocessing : Preprocessing, Preprocessings, Tokenization or callable, optional
        Conversion of an image, several images or a text to the network's inputs. A ``pretrained_cfg`` of timm, a
        transform of torchvision (``weights.transforms()``) and an image processor of ``transformers`` are converted,
        and refused if they cannot be applied in full. By default what the model specifies
        (timm's ``pretrained_cfg``, Keras's input size and ``Rescaling`` layers), else that of ImageNet's networks: 224
        pixels, ImageNet's mean and standard deviation. What was assumed so is logged, and in :attr:`ModelCard.assumed`.
    layers : sequence of str or FeatureLayer, optional
        The layers that numbers stand for, from the bottom to the top; a string is a module's path. By default the
        network's top-level blocks in the order in which they run; of its only list of blocks, or of a network of few
        blocks, the blocks within. A norm or an activation stands for the layer before it, but not for a block.
    name : str, optional
        Name in columns and tables; by default that of the card, of the Keras model, or of the module's class.
    image_size : int, optional
        Height and width of the images, in pixels, where there is no `preprocessing`.

    Returns
    -------
    ModelCard
        Card with its layers and the number of its parameters.

    Raises
    ------
    UnknownModelError
        There is no such name.
    InvalidArgumentError
        It is no model; the function cannot be imported; the network does not run on such images; the message says what
        to give instead.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers, or not be sent to another process.
    UnknownLayerError
        One of `layers` is not there.

    Examples
    --------
    >>> import torch
    >>> from udfs.images import Preprocessing
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3))
    >>> mine = of(net, preprocessing=Preprocessing(crop=16), name="mine")
    >>> [layer.name for layer in mine.resolve([-1, "0"])], mine.parameters
    (['0', '2'], 808)
    """
    preprocessing = as_preprocessing(preprocessing)
    model_card = _card_of(model, framework, preprocessing, layers, name, image_size)
    changed: dict[str, Any] = {
        "preprocessing": preprocessing,
        "layers": None if layers is None else tuple(layers),
        "name": name,
    }
    changed = {field: value for field, value in changed.items() if value is not None}
    if isinstance(model, ModelCard | str) and changed:
        model_card = replace(model_card, **changed, assumed="" if preprocessing is not None else model_card.assumed)
    return settle(model_card)


def is_name(model: object) -> bool:
    """Return whether something is a name of the roster, or meant as one, rather than a model or the path of a function.

    Examples
    --------
    >>> is_name("resnet18"), is_name("package.module:function")
    (True, False)
    """
    return isinstance(model, str) and (model in names() or (":" not in model and not is_model_file(model)))


def _card_of(
    model: Any,
    framework: str | None,
    preprocessing: Inputs | None,
    layers: Sequence[str | FeatureLayer] | None,
    name: str | None,
    image_size: int | None,
) -> ModelCard:
    if isinstance(model, ModelCard):
        return model
    if isinstance(model, str) and is_name(model):
        return card(model)
    if is_model_file(model):
        network = read_model_file(model, image_size)
        return of(
            network, preprocessing=preprocessing, layers=layers, image_size=image_size, name=name or model_name(model)
        )
    if isinstance(model, str):
        function = _imported(model)
        returned = function() if callable(function) and framework_of(function) is None else function
        return of(
            returned, framework=framework, preprocessing=preprocessing, layers=layers, image_size=image_size,
            name=name or (None if isinstance(returned, str | ModelCard) else model.rpartition(":")[2]),
        )  # fmt: skip
    backend = framework_of(model) if framework is None else framework_named(framework)
    if backend is not None and backend.recognises(model):
        return _given(model, backend, preprocessing, layers, name, image_size)
    if callable(model):
        return of(
            model(), framework=framework, preprocessing=preprocessing, layers=layers, name=name, image_size=image_size
        )
    raise InvalidArgumentError(
        f"model must be a model of {', '.join(frameworks())}, a ModelCard, a name of roster.names(), or "
        f'"package.module:function"; got {model!r}'
    )


def _imported(text: str) -> Any:
    module, _, attribute = text.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(
            f"model={text!r} cannot be imported: {error}; it is read as package.module:function, and the package "
            "has to be on Python's path"
        ) from error


def _given(
    model: Any,
    backend: Framework,
    preprocessing: Inputs | None,
    layers: Sequence[str | FeatureLayer] | None,
    name: str | None,
    image_size: int | None,
) -> ModelCard:
    assumed = ""
    if preprocessing is None:
        preprocessing, assumed = assumed_preprocessing(model, backend, image_size)
    elif image_size is not None and preprocessing.kind == "image":
        preprocessing = preprocessing.with_size(image_size)
    named = name or _name(model)
    builder = NetworkFile.of(model, backend, preprocessing.inputs)
    if assumed and (builder.digest, assumed) not in _STATED:
        _STATED.add((builder.digest, assumed))
        _LOG.warning("model %s: nothing says how its images are prepared, so this assumes %s", named, assumed)
    return ModelCard(
        name=named,
        builder=builder,
        preprocessing=preprocessing,
        layers=() if layers is None else tuple(layers),  # type: ignore[arg-type]  # a card takes strings too
        reference=f"{type(model).__module__}.{type(model).__qualname__}, as it was given",
        framework=backend.name,
        assumed=assumed,
    )


def _name(model: Any) -> str:
    """Name a model: as its author did, without the number by which Keras tells models of a process apart."""
    named = getattr(model, "name", None)
    base = re.sub(r"_\d+$", "", named) if isinstance(named, str) else ""
    return re.sub(r"\W", "_", base) or type(model).__name__


def settle(model_card: ModelCard) -> ModelCard:
    """Copy a model that the card's builder hands out, and fill in what the card leaves open."""
    if model_card.framework != "torch":  # the default of cards that name none
        framework_named(model_card.framework)
    settled = _with_own_copy(model_card)
    if settled.layers and settled.parameters:
        return settled
    if isinstance(settled.builder, NetworkFile):
        layers, parameters = _counted(settled.builder, settled.preprocessing, settled.layers, settled.name)
    else:
        layers, parameters = _opened(settled)
    return replace(settled, layers=layers, parameters=parameters)


def _with_own_copy(model_card: ModelCard) -> ModelCard:
    builder = model_card.builder
    if isinstance(builder, NetworkFile) or _module_of(builder).startswith(_ROSTER):
        return model_card
    backend = framework_of(builder)
    if backend is not None:
        return replace(
            model_card,
            builder=NetworkFile.of(builder, backend, model_card.preprocessing.inputs),
            framework=backend.name,
        )
    made, hands_out = (_kind if isinstance(builder, Hashable) else _kind.__wrapped__)(builder)
    if not hands_out:
        return model_card if made in ("", model_card.framework) else replace(model_card, framework=made)
    backend = framework_named(made)
    return replace(
        model_card, builder=NetworkFile.of(builder(), backend, model_card.preprocessing.inputs), framework=made
    )


@lru_cache(maxsize=64)
def _kind(builder: Callable[..., Any]) -> tuple[str, bool]:
    """Name the framework of what a builder makes, and say whether it hands out one and the same model.

    The name is empty where the builder fails or makes no model: building the network raises the error.
    """
    if _takes_shape(builder):
        return "keras", False  # Keras's builders alone are given an argument, the shape of the input
    # In a thread of its own: Keras counts the names of layers by thread, and the user's own go on from where they were.
    with ThreadPoolExecutor(1) as apart:
        try:
            first, second = apart.submit(_two, builder).result()
        except Exception:  # noqa: BLE001 - the user's own function, which may need memory that it does not get here
            return "", False
    backend = framework_of(first)
    return ("", False) if backend is None else (backend.name, first is second)


def _two(builder: Callable[..., Any]) -> tuple[Any, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return builder(), builder()
    # A cached builder keeps the result of its first call, which must not be a network on the meta device.
    device = nullcontext() if hasattr(builder, "cache_info") else torch.device("meta")
    # Where torch can, without memory; and without drawing from the user's generator.
    with torch.random.fork_rng(devices=[]), device, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a state dict cannot be loaded into it
        return builder(), builder()


def _takes_shape(builder: Callable[..., Any]) -> bool:
    code = getattr(builder, "__code__", None)
    return code is not None and "input_shape" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _module_of(builder: Any) -> str:
    return str(getattr(getattr(builder, "func", builder), "__module__", ""))


# Opening a large network takes seconds, and a stage resolves its layers more than once.
@lru_cache(maxsize=16)
def _counted(
    builder: NetworkFile, preprocessing: Inputs, layers: tuple[FeatureLayer, ...], name: str
) -> tuple[tuple[FeatureLayer, ...], int]:
    return _opened(ModelCard(name, builder, preprocessing, layers, framework=builder.framework))


def _opened(model_card: ModelCard) -> tuple[tuple[FeatureLayer, ...], int]:
    """Find a network's layers, unless it has some, and count its parameters."""
    backend, inputs = framework_named(model_card.framework), model_card.preprocessing.inputs
    network = backend.build(model_card.builder, inputs, 0)
    try:
        paths = backend.paths(network, inputs)
    except Exception as error:
        raise InvalidArgumentError(
            f"model {model_card.name!r} does not run on {model_card.kind}s of {model_card.preprocessing.size} "
            f"({type(error).__name__}: {str(error).strip().partition(os.linesep)[0]}): say what it reads, as "
            "image_size= or roster.of(model, preprocessing=...)"
        ) from error
    traced = backend.trace(network, inputs)
    for layer in model_card.layers:
        try:
            traced.layer(layer.module)
        except UnknownLayerError as error:
            where = f"the network of model {model_card.name!r}, of what gives one tensor at inference"
            raise UnknownLayerError(layer.module, paths, where) from error
    layers = model_card.layers or numbered(paths, traced, channels_last=backend.channels_last)
    return layers, model_card.parameters or backend.parameters(network)
