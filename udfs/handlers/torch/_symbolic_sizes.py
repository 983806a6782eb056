"""The grammar of a program's symbolic sizes: torch hands their text to a parser that evaluates Python."""

from __future__ import annotations

import ast
import re
from typing import Any

from udfs.handlers._archives import UnsafeArchiveError

__all__ = ["checked_expression"]

_LONGEST = 4096
_LARGEST = 2**63

# What torch calls the sizes that it does not know: s0, s77, u1, zf2.
_SYMBOL = re.compile(r"(s|u|f|zf|zuf)[0-9]{1,9}")
_FUNCTIONS = frozenset(
    (
        *("Add", "Mul", "Mod", "PythonMod", "Max", "Min", "FloorDiv", "CeilDiv", "CleanDiv", "ModularIndexing"),
        *("Integer", "Rational", "Abs", "Identity", "Where", "ToFloat", "IntTrueDiv", "FloatTrueDiv"),
        *("FloorToInt", "CeilToInt", "TruncToInt", "RoundToInt", "TruncToFloat", "IsNonOverlappingAndDenseIndicator"),
        *("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Equality", "Unequality"),
        *("StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"),
    )
)
_POWERS = frozenset(("Pow", "PowByNatural"))
_HIGHEST_POWER = 8
_ASSUMPTIONS = frozenset(("positive", "integer", "nonnegative", "finite", "zero"))
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{0,40})?(e-?[0-9]{1,2})?")
_PRECISIONS = (24, 53)
_WORDS = frozenset(("true", "false"))
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def checked_expression(text: str) -> str:
    """Check a symbolic size, and write it anew.

    The grammar: symbols (``s0``, or ``Symbol('s0', integer=True)``), integers, ``+ - * //``, parentheses, and calls of
    the listed functions of sympy and torch. The expression is printed from its parsed form: what is opened is what was
    checked. Raise UnsafeArchiveError for anything else.

    Examples
    --------
    >>> checked_expression("Mul(Integer(256), Symbol('s77', positive=True, integer=True))")
    "Mul(Integer(256), Symbol('s77', positive=True, integer=True))"
    >>> checked_expression("__import__('os').system('id')")
    Traceback (most recent call last):
    udfs.handlers._archives.UnsafeArchiveError: "__import__('os').system('id')" is no symbolic size
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise UnsafeArchiveError(f"{str(text)[:80]!r} is no symbolic size")
    try:
        tree = ast.parse(text, mode="eval").body
        if _is_expression(tree):
            return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise UnsafeArchiveError(f"{text[:80]!r} is no symbolic size")


def _is_expression(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return _is_integer(node.value)
    if isinstance(node, ast.Name):
        return node.id in _WORDS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_expression(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _OPERATORS) and _is_expression(node.left) and _is_expression(node.right)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_call(node.func.id, node)


def _is_call(name: str, node: ast.Call) -> bool:
    if name == "Symbol":
        return _is_symbol(node)
    if name == "Float":
        return _is_float(node)
    if node.keywords:
        return False
    if name in _POWERS:
        # 9 to the power of 9 to the power of 9 would be computed.
        return len(node.args) == 2 and _is_expression(node.args[0]) and _is_power(node.args[1])
    return name in _FUNCTIONS and all(map(_is_expression, node.args))


def _is_symbol(node: ast.Call) -> bool:
    name = node.args[0] if len(node.args) == 1 else None
    return (
        isinstance(name, ast.Constant)
        and isinstance(name.value, str)
        and _SYMBOL.fullmatch(name.value) is not None
        and all(keyword.arg in _ASSUMPTIONS and _is_flag(keyword.value) for keyword in node.keywords)
    )


def _is_float(node: ast.Call) -> bool:
    number = node.args[0] if len(node.args) == 1 else None
    return (
        isinstance(number, ast.Constant)
        and isinstance(number.value, str)
        and _DECIMAL.fullmatch(number.value) is not None
        and [keyword.arg for keyword in node.keywords] in ([], ["precision"])
        and all(isinstance(part.value, ast.Constant) and part.value.value in _PRECISIONS for part in node.keywords)
    )


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _is_power(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Integer" and node.args:
        return not node.keywords and len(node.args) == 1 and _is_power(node.args[0])
    return isinstance(node, ast.Constant) and _is_integer(node.value, _HIGHEST_POWER)


def _is_integer(value: Any, largest: int = _LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= largest
