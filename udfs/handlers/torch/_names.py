"""Names for the nodes of a captured graph, after the modules that they come from."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch import fx

__all__ = ["node_names", "operation", "returned_by_stack", "returned_structure"]

_CALLS = ("call_module", "call_function", "call_method")


def node_names(module: fx.GraphModule) -> dict[str, str]:
    """Name each node readably and uniquely: by the module's path, or ``path.operation`` where a module has several.

    Return layer names by fx node names; the second use of a name gets ``_1``, the third ``_2``.
    """
    count: dict[str, int] = {}
    for node in module.graph.nodes:
        path = _leaf(node, module)
        count[path] = count.get(path, 0) + 1
    names: dict[str, str] = {}
    former: dict[str, str] = module.meta.get("names", {})  # of the graph that this one was made from
    used = set(former.values())
    for node in module.graph.nodes:
        if node.name in former:
            names[node.name] = former[node.name]
            continue
        path, stack = _leaf(node, module), _stack(node)
        if node.op not in _CALLS:
            wanted = str(node.name)
        elif path and (count[path] == 1 or node.op == "call_module"):
            wanted = path
        else:
            wanted = ".".join((*(list(stack.values())[-1:] or _module_of(node)), operation(node)))
        name, copies = wanted, 0
        while name in used:
            copies += 1
            name = f"{wanted}_{copies}"
        used.add(name)
        names[node.name] = name
    return names


def returned_by_stack(module: fx.GraphModule) -> dict[str, str]:
    """For each module path the node whose value leaves the module at its first call, where that is one node."""
    around = {node: _stack(node) for node in module.graph.nodes}
    leaving: dict[str, list[str]] = {}
    for node, calls in around.items():
        for call, path in calls.items():
            if "@" not in call and any(call not in around[user] for user in node.users):
                leaving.setdefault(path, []).append(node.name)
    return {path: names[0] for path, names in leaving.items() if len(names) == 1}


def returned_structure(module: fx.GraphModule, output: fx.Node) -> Any:
    """Put what a graph returns, which ``torch.export`` flattens, back into the model's own tuples and dictionaries."""
    returned = output.args[0]
    exported = getattr(module.graph._codegen, "pytree_info", None)
    if exported is None or exported.out_spec is None:
        return returned
    flat = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    return pytree.tree_unflatten(flat, exported.out_spec)


def operation(node: fx.Node) -> str:
    """Name what a node calls, without the overload."""
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", packet))


def _module_of(node: fx.Node) -> list[str]:
    """Return the path of the module whose tuple a node takes a value from."""
    source = node.args[0] if node.args and node.target is operator.getitem else None
    return [str(source.target)] if getattr(source, "op", "") == "call_module" else []  # type: ignore[union-attr]


def _leaf(node: fx.Node, module: fx.GraphModule) -> str:
    """Return the path of the childless module that a node comes from, or an empty string."""
    if node.op == "call_module":
        return str(node.target)
    innermost = list(_stack(node).values())[-1:]
    return innermost[0] if innermost and innermost[0] in module.meta["leaves"] else ""


def _stack(node: fx.Node) -> dict[str, str]:
    """Map the calls of the modules around a node to their paths, outermost first, the root left out.

    Export marks the second call of a module with ``@1``, the third with ``@2``.
    """
    stack = node.meta.get("nn_module_stack") or {}
    paths = {str(call): path.removeprefix("L['self']").removeprefix(".") for call, (path, _) in stack.items()}
    return {call: path.partition("@")[0] for call, path in paths.items() if path and not call.startswith("_empty")}
