"""A hash of the computation of each layer of a torch graph."""

from __future__ import annotations

import hashlib
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from udfs.handlers.torch._constants import attribute
from udfs.handlers.torch._names import operation
from udfs.handlers.torch._user_code import MODULE_ATTRIBUTES, closure_values, forward_hooks, python_function

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["describe_module", "describe_value", "fingerprint"]

# Told apart by the layer graph (the state), or without influence on the value of a model in inference mode.
_NOT_CONFIGURATION = frozenset({"training", "inplace"})

# Modules whose classes have one meaning each.
_KNOWN_CODE = ("torch.", "udfs.")

# Digests by description, and by Python's hash of 64 bits of each part of a tensor's bytes.
_FOUND: dict[tuple[object, ...], str] = {}
_MOST = 50_000

# Bytes of a part; Python hashes copies, which stay in the processor's cache.
_PART = 2**18


def fingerprint(
    module: fx.GraphModule, nodes: Sequence[fx.Node], inputs: Sequence[fx.Node], parameters: Sequence[torch.Tensor]
) -> str:
    """Hash operations, configuration, wiring and parameter values of one layer.

    The layer's node comes after the nodes folded into it. ``inputs`` are the layers that it reads: ``cat([a, b, a])``
    is not ``cat([a, b, b])``. Parameters are compared by value, whatever their memory layout; values on the meta device
    are unknown.
    """
    place = {id(tensor): i for i, tensor in enumerate(parameters)}
    known = {
        **{node: f"input {i}" for i, node in enumerate(inputs)},
        **{node: f"node {i}" for i, node in enumerate(nodes)},
    }
    lines = [line for node in nodes for line in _description(module, node, known, place)]
    # Whole tensors are read each time, by a hash that is five times as fast: what was changed in place is seen.
    contents = [(tensor, _content(tensor)) for tensor in parameters]
    key = (*lines, *((tensor.dtype, tensor.shape, _hashes(content)) for tensor, content in contents))
    digest = _FOUND.get(key)
    if digest is None:
        if len(_FOUND) >= _MOST:
            _FOUND.clear()
        digest = _FOUND[key] = _digest(lines, contents)
    return digest


def describe_module(module: nn.Module) -> list[str]:
    """Describe the structure of a module, its attributes and the code of users' classes, without values of tensors.

    Modules with equal descriptions compute the same function of their inputs, parameters and buffers.
    """
    place = {id(tensor): i for i, tensor in enumerate([*module.parameters(), *module.buffers()])}
    return list(_configuration(module, place))


def _hashes(content: memoryview | None) -> tuple[int, ...] | None:
    return (
        None
        if content is None
        else tuple(hash(bytes(content[at : at + _PART])) for at in range(0, len(content), _PART))
    )


def _content(tensor: torch.Tensor) -> memoryview | None:
    if tensor.is_meta:
        return None
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return data.data


def _digest(lines: Sequence[str], contents: Sequence[tuple[torch.Tensor, memoryview | None]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for line in lines:
        digest.update(f"{line}\n".encode())
    for tensor, content in contents:
        digest.update(f"{tensor.dtype}|{tuple(tensor.shape)}\n".encode())
        if content is not None:
            digest.update(content)
    return digest.hexdigest()


def _description(
    module: fx.GraphModule, node: fx.Node, known: dict[fx.Node, str], place: dict[int, int]
) -> Iterator[str]:
    if node.op == "placeholder":
        return
    arguments = fx.node.map_arg((node.args, node.kwargs), lambda argument: _Reference(known.get(argument, "batch")))
    if node.op == "call_module":
        yield f"{arguments!r}"
        yield from _configuration(module.get_submodule(str(node.target)), place)
    elif node.op == "get_attr":
        value = attribute(module, str(node.target))
        yield f"parameter {place[id(value)]}" if id(value) in place else f"graph {getattr(value, 'code', type(value))}"
    else:
        yield f"{operation(node)}|{arguments!r}"


class _Reference(str):
    """A string whose ``repr`` is not quoted, so that no constant of the user's reads like one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self}>"


def _configuration(inner: nn.Module, place: dict[int, int]) -> Iterator[str]:
    """Describe a module by its attributes: ``repr`` leaves out some that matter (``AvgPool2d.count_include_pad``).

    The code of a user's modules is a part of it.
    """
    for path, part in inner.named_modules():
        yield f"{path}|{type(part).__module__}.{type(part).__qualname__}|{part.extra_repr()}"
        tensors = {**part._parameters, **part._buffers}  # named_parameters() leaves out the empty ones
        yield repr([(name, place.get(id(tensor))) for name, tensor in sorted(tensors.items())])
        is_known = type(part).__module__.startswith(_KNOWN_CODE)
        for name, value in sorted(vars(part).items()):
            if name not in MODULE_ATTRIBUTES | _NOT_CONFIGURATION and not (is_known and name.startswith("_")):
                yield f"{name}={describe_value(value)}"
        if not is_known:
            yield from _code(type(part))
        for hook in forward_hooks(part):
            yield f"hook {describe_value(hook)} {_code_of(hook)} {describe_value(getattr(hook, '__dict__', None))}"


def _code(kind: type) -> Iterator[str]:
    """Describe the functions of a class that is not of a library: classes of one name may compute different things."""
    for base in kind.__mro__:
        if base is not object and not base.__module__.startswith(_KNOWN_CODE):
            for name, value in vars(base).items():
                if isinstance(value, (FunctionType, staticmethod, classmethod)):
                    yield f"{name}: {_code_of(value)}"


def _code_of(value: Any) -> str:
    """Describe a function by its code, its defaults and its closure, and the function that it decorates."""
    function = python_function(value)
    if function is None:
        return ""
    variables = [each for each in closure_values(function).values() if isinstance(each, (bool, int, float, str))]
    inner = getattr(function, "__wrapped__", None)
    parts = [function.__code__, function.__defaults__, *variables]
    return f"{describe_value(parts)} {'' if inner is None else _code_of(inner)}"


def describe_value(value: Any) -> str:
    """Describe a value in the same words in every process: by its content, never by its address."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype)):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return f"tensor {_digest([], [(value, _content(value))])}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(describe_value, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set[{', '.join(sorted(map(describe_value, value)))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{describe_value(key)}: {describe_value(entry)}' for key, entry in value.items())}}}"
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}{_body(value)}" if name else f"{type(value).__qualname__}{_body(value)}"


def _body(value: Any) -> str:
    """Distinguish functions of the same name, such as lambdas, by their code, defaults and closures."""
    if isinstance(value, partial):
        return describe_value([value.func, value.args, value.keywords])
    if isinstance(value, CodeType):
        return describe_value([value.co_code, value.co_names, value.co_consts])
    if isinstance(value, FunctionType) and "<" in value.__qualname__:
        # A function that calls itself closes over itself.
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        return describe_value([value.__code__, value.__defaults__, value.__kwdefaults__, cells])
    return ""
