"""The rules of an exported program's JSON: what each of its texts may say."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers._archives import UnsafeArchiveError, parsed
from udfs.handlers.torch._symbolic_sizes import checked_expression

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["checked_payload", "checked_program"]

# Torch pastes names into Python source, which it runs.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,511}")
# Names of tensors and modules, of dots and of what people call modules; torch pastes them between quotes.
_PATH = re.compile(r"[A-Za-z0-9_.:/@#+\- ]{0,1024}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_EQUATION = re.compile(r"[A-Za-z,.> -]{1,256}")
_SHORT = re.compile(r"[A-Za-z0-9_.+<>= -]{1,64}")
_STACK = re.compile(r"[A-Za-z0-9_.,;:@#/+<>\[\](){}'\"|= -]{0,65536}")
_DEVICE = re.compile(r"[a-z]{1,16}")

_OPERATOR = re.compile(r"torch\.ops\.([a-z_0-9]+)\.([A-Za-z_0-9]+)\.([A-Za-z_0-9]+)")
_NAMESPACES = ("aten", "prims", "torchvision")
_HIGHER_ORDER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in ("cond", "wrap_with_set_grad_enabled", "wrap_with_autocast", "map_impl", "scan", "while_loop")
)
_ON_SIZES = frozenset(
    (
        *(f"_operator.{name}" for name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "pos")),
        *(f"_operator.{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "getitem")),
        *(f"math.{name}" for name in ("ceil", "floor", "trunc", "sqrt")),
        *(f"torch.sym_{name}" for name in ("int", "float", "max", "min", "not", "ite", "sum", "sqrt")),
        "torch._sym_sqrt",
    )
)
# Arguments of operators that take a word. No other text is given to an operator: aten.from_file opens a file.
_WORDED = frozenset(
    (
        *("approximate", "rounding_mode", "mode", "padding", "padding_mode", "equation", "interpolation", "indexing"),
        *("reduce", "side", "UPLO", "norm", "ord", "driver", "interpolation_mode", "reduction"),
    )
)
_SPOKEN = frozenset(("assert_msg", "msg"))
_LONGEST_MESSAGE = 2000
_NUMBERS = frozenset(("Infinity", "-Infinity", "NaN"))

# Dicts whose keys are names, and the rule of the keys.
_KEYED = {
    "tensor_values": _NAME,
    "sym_int_values": _NAME,
    "sym_bool_values": _NAME,
    "sym_float_values": _NAME,
    "range_constraints": re.compile(r"[a-z]{1,4}[0-9]{1,9}"),
    "opset_version": re.compile(r"[a-z_]{1,32}"),
    "config": _PATH,
}
# Left out, because a trained network runs without them: code that guards it, traces with paths of the author's machine,
# objects of foreign classes.
_EMPTIED: dict[str, Any] = {"guards_code": [], "custom_obj_values": {}, "treespec_namedtuple_fields": {}}
_KEPT_METADATA = ("nn_module_stack", "torch_fn")

_PLAIN_TREES = frozenset(("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"))
_TREE = re.compile(r"transformers\.[A-Za-z0-9_.]{1,200}")  # outputs with names; the class has to be registered here
_DEEPEST_TREE = 32


def checked_program(data: bytes) -> bytes:
    """Check the JSON of an exported program, and write it anew without what a network does not need.

    ``data`` is the content of ``models/model.json``. Raise UnsafeArchiveError, with both in its message, if a text is
    none that its field may have.
    """
    program = parsed(data)
    if not isinstance(program, dict):
        raise UnsafeArchiveError("it is not a program")
    return json.dumps(_checked(program, "program")).encode()


def checked_payload(data: bytes) -> bytes:
    """Check the JSON that names a program's tensors: each in a member of raw numbers, none a pickle.

    Raises
    ------
    UnsafeArchiveError
        A tensor is a pickle or an object, or a text is none that its field may have.
    """
    payload = parsed(data)
    entries = payload.get("config") if isinstance(payload, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UnsafeArchiveError("it is not a list of tensors")
    for name, entry in entries.items():
        if entry.get("use_pickle") is not False:
            raise UnsafeArchiveError(f"the tensor {name[:120]!r} is a pickle")
    return json.dumps(_checked(payload, "payload")).encode()


def _checked(value: Any, field: str) -> Any:
    """Check a value of a field, and all that is in it."""
    if isinstance(value, dict):
        return _checked_dict(value, field)
    if isinstance(value, list):
        if field in _TEXTS and field not in _LISTS:
            raise _refused(field, value)
        return [_checked(entry, field) for entry in value]
    if isinstance(value, str):
        rule = _TEXTS.get(field)
        if rule is None:
            raise _refused(field, value)
        return rule(value)
    if field in _TEXTS and field not in _NUMERIC and value is not None:
        raise _refused(field, value)
    return value


def _checked_dict(value: dict[str, Any], field: str) -> dict[str, Any]:
    if field == "metadata":
        return {key: value[key] for key in _KEPT_METADATA if _STACK.fullmatch(str(value.get(key, "\n")))}
    keys = _KEYED.get(field, _FIELD)
    for key in value:
        if keys.fullmatch(key) is None or "__" in key[:2]:
            raise _refused(field, key)
    if "as_string_to_argument" in value:
        raise _refused("as_string_to_argument", value)
    if field in _KEYED:
        return {key: _checked(inner, "entry") for key, inner in value.items()}
    if field == "nodes":
        _check_texts(value)
    return {
        key: _EMPTIED[key] if key in _EMPTIED else _words(inner) if key in _GIVEN else _checked(inner, key)
        for key, inner in value.items()
    }


def _check_texts(node: dict[str, Any]) -> None:
    """Check which arguments of an operator are texts."""
    for argument in node.get("inputs") or ():
        arg = argument.get("arg") if isinstance(argument, dict) else None
        text = arg.get("as_string") if isinstance(arg, dict) else None
        if text is None:
            continue
        name = argument.get("name")
        worded = node.get("target") in _HIGHER_ORDER or name in _WORDED
        if not worded and not (name in _SPOKEN and len(str(text)) <= _LONGEST_MESSAGE):
            raise UnsafeArchiveError(f"the operator {node.get('target')!r} is given the text {str(text)[:80]!r}")
        if worded and not (_WORD.fullmatch(str(text)) or _EQUATION.fullmatch(str(text))):
            raise _refused(str(name), text)


# Texts that _check_texts has seen.
_GIVEN = frozenset(("as_string",))


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise _refused("as_string", value)
    return value


def _operator(text: str) -> str:
    named = _OPERATOR.fullmatch(text)
    if named is not None and named[1] in _NAMESPACES:
        namespace, name, overload = named.groups()
        full = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        if full in _dispatched() and name != "from_file":
            return text
    if text in _HIGHER_ORDER or text in _ON_SIZES:
        return text
    raise UnsafeArchiveError(f"{text[:120]!r} is not an operator on tensors that torch {torch.__version__} has")


@functools.cache
def _dispatched() -> frozenset[str]:
    """List torch's operators on tensors; those that torch.jit alone has, such as aten::save, are not among them."""
    return frozenset(torch._C._dispatch_get_all_op_names())  # torch has no public list


def _tree(keys: re.Pattern[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        tree = parsed(text)
        if not isinstance(tree, list) or len(tree) != 2 or not isinstance(tree[0], int):  # version, tree
            raise UnsafeArchiveError(f"{text[:80]!r} does not say how inputs or outputs are nested")
        _check_tree(tree[1], keys, 0)
        return json.dumps(tree)

    return check


def _check_tree(node: Any, names: re.Pattern[str], depth: int) -> None:
    if not isinstance(node, dict) or depth > _DEEPEST_TREE or set(node) - {"type", "context", "children_spec"}:
        raise UnsafeArchiveError("inputs or outputs are nested in an unknown way")
    kind, context = node.get("type"), node.get("context")
    if kind is not None and kind not in _PLAIN_TREES and not (isinstance(kind, str) and _TREE.fullmatch(kind)):
        raise UnsafeArchiveError(f"inputs or outputs are nested in a {str(kind)[:120]!r}, which is not plain data")
    keys = parsed(context) if isinstance(context, str) else context
    if keys is not None and not (
        isinstance(keys, list)
        and all(isinstance(key, int) or (isinstance(key, str) and names.fullmatch(key)) for key in keys)
    ):
        raise UnsafeArchiveError(f"inputs or outputs have the names {str(context)[:120]!r}")
    for child in node.get("children_spec") or ():
        _check_tree(child, names, depth + 1)


def _match(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise UnsafeArchiveError(f"the text {text[:120]!r}")
        return text

    return check


def _path(text: str) -> str:
    if _PATH.fullmatch(text) is None or any(part.startswith("__") for part in text.split(".")):
        raise UnsafeArchiveError(f"{text[:120]!r} is no name of a tensor or a module")
    return text


def _number(text: str) -> str:
    if text not in _NUMBERS:
        raise UnsafeArchiveError(f"{text[:80]!r} is not a number")
    return text


def _refused(field: str, value: object) -> UnsafeArchiveError:
    return UnsafeArchiveError(f"its field {field!r} holds {str(value)[:120]!r}, which no network needs")


_TEXTS: dict[str, Callable[[str], str]] = {
    "name": lambda text: text if text == "" else _match(_NAME)(text),
    "as_name": _match(_NAME),
    "forward_arg_names": _match(_NAME),
    "user_input_name": _match(_NAME),
    "parameter_name": _path,
    "buffer_name": _path,
    "tensor_constant_name": _path,
    "fqn": _path,
    "path_name": _match(re.compile(r"(weight|tensor)_[0-9]{1,9}")),
    "target": _operator,
    "expr_str": checked_expression,
    "in_spec": _tree(_NAME),
    "out_spec": _tree(_PATH),
    "type": _match(_DEVICE),
    "as_float": _number,
    "as_floats": _number,
    "as_float_lists": _number,
    "real": _number,
    "imag": _number,
    "verifiers": _match(_WORD),
    "torch_version": _match(_SHORT),
}
# Fields of numbers, where JSON has no number for infinity.
_NUMERIC = frozenset(("as_float", "as_floats", "as_float_lists", "real", "imag"))
_LISTS = frozenset(("forward_arg_names", "verifiers", "as_floats", "as_float_lists"))
