"""Networks in files that need no code of their author: programs of ``torch.export``, opened into layers again."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from udfs.handlers._archives import UnsafeArchiveError, parsed
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._archive import check_program, load_program
from udfs.handlers.torch._exported_program import is_exported, opened, reexported
from udfs.handlers.torch._fx import baked, example, exported, private, unwrapped
from udfs.handlers.torch._hidden_modules import on_cpu
from udfs.handlers.torch._names import returned_by_stack
from udfs.handlers.torch._opened_program import is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import nn

    from udfs.tensors import TensorSpec

__all__ = ["open_network", "write_network"]

_FACTS = "layers.json"

# Records of the comparison. Two, for one would not show that records are mixed up.
_ROWS = 2

# Other kernels than the module's own may sum in another order.
_CLOSE = 1e-4


def write_network(model: nn.Module, inputs: Sequence[TensorSpec], path: Path) -> None:
    """Write a module as a ``.pt2`` archive for the CPU, weights and the paths of its modules included.

    The program runs beside the module, and what each module returns has to be there in it: a path of the archive never
    stands for another tensor. A path whose tensor the program does not have is left out. Raise UntraceableModelError if
    ``torch.export`` cannot follow its code, or gives other numbers.
    """
    if is_exported(model):
        program = reexported(model, inputs)
        facts = opened(model, inputs).meta
        _save(program, path, {"leaves": sorted(facts["leaves"]), "returned": list(facts["returned"].items())})
        return
    network = on_cpu(unwrapped(model))
    if is_program(network):
        raise UntraceableModelError("the network was opened from a file without its code: keep that file")
    leaves = {inner for inner, module in network.named_modules() if inner and not any(module.children())}
    try:
        program = exported(baked(network), inputs)
    except Exception as error:
        raise UntraceableModelError(
            f"{type(network).__name__} cannot be saved without its code: torch.export cannot follow it "
            f"({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})"
        ) from error
    returned = _returned(network, _module(program), inputs)
    _save(program, path, {"leaves": sorted(leaves), "returned": list(returned.items())})


def _save(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        torch.export.save(program, path, extra_files={_FACTS: json.dumps(facts)})
    check_program(path)


def open_network(path: Path) -> fx.GraphModule:
    """Open what :func:`write_network` wrote; UnsafeArchiveError for anything that could run code."""
    extra: dict[str, Any] = {_FACTS: ""}
    # Callers that need the structure alone ask for the meta device, onto which a file cannot be read.
    with torch.device("cpu"):
        module = _module(load_program(path, extra_files=extra))
    facts = parsed(extra[_FACTS])
    nodes = {node.name for node in module.graph.nodes}
    if not isinstance(facts, dict) or not nodes.issuperset(dict(facts.get("returned", {"": ""})).values()):
        raise UnsafeArchiveError(f"{_FACTS} does not name the program's layers")
    module.meta["leaves"], module.meta["returned"] = set(facts["leaves"]), dict(facts["returned"])
    return module.eval().requires_grad_(False)


def _module(program: torch.export.ExportedProgram) -> fx.GraphModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        module = program.module(check_guards=False)
    assert isinstance(module, fx.GraphModule)  # what the API returns, for the type checker
    # A class of its own: that of torch.export refuses eval(), which says nothing to a program.
    return fx.GraphModule(module, module.graph)


def _returned(network: nn.Module, module: fx.GraphModule, inputs: Sequence[TensorSpec]) -> dict[str, str]:
    """Find the node that holds what each module returns, in the order in which they return it.

    Raise UntraceableModelError if the program returns other numbers than the module.
    """
    sample = _sample(inputs, network)
    values: dict[str, torch.Tensor] = {}
    with torch.inference_mode():
        returned, whole = _watched(private(network), sample)
        again = _Recorder(module, values).run(*sample)
    pairs = list(zip(_flat(whole), _flat(again), strict=False))
    if not pairs or not all(_same(first, second) for first, second in pairs):
        raise UntraceableModelError(
            f"{type(network).__name__} cannot be saved without its code: what torch.export makes of it gives other "
            "numbers, so its forward is not a function of its inputs alone"
        )
    likely = returned_by_stack(module)
    chosen: dict[str, str] = {}
    for path, value in returned.items():
        guess = likely.get(path)
        candidates = ([guess] if guess in values else []) + list(values)
        node = next((name for name in candidates if _same(value, values[name])), None)
        if node is not None:
            chosen[path] = node
    return chosen


class _Recorder(fx.Interpreter):
    """Interpreter of a graph that records the tensors of its nodes."""

    def __init__(self, module: fx.GraphModule, values: dict[str, torch.Tensor]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values = values

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op != "get_attr":
            self.values[n.name] = value
        return value


def _watched(network: nn.Module, sample: Sequence[torch.Tensor]) -> tuple[dict[str, torch.Tensor], Any]:
    """Run a module, and keep what the modules within return, in that order; of a tuple the first tensor."""
    returned: dict[str, torch.Tensor] = {}

    def keep(path: str) -> Callable[[nn.Module, Any, object], None]:
        def hook(_module: nn.Module, _inputs: Any, output: object) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            if isinstance(first, torch.Tensor):
                # A later layer may write over it in place.
                returned.setdefault(path, first.clone())

        return hook

    for path, module in network.named_modules():
        if path:
            module.register_forward_hook(keep(path))
    return returned, network(*sample)


def _sample(inputs: Sequence[TensorSpec], network: nn.Module) -> tuple[torch.Tensor, ...]:
    """Random records: ones for whole numbers, which may be indices or a mask."""
    draw = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(zeros.shape, generator=draw).to(zeros.dtype)
        if zeros.is_floating_point()
        else torch.ones_like(zeros)
        for zeros in example(inputs, _ROWS, network)
    )


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in _flat(part)]


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    largest = float(first.abs().max()) if first.numel() and first.is_floating_point() else 1.0
    return torch.allclose(first, second, rtol=_CLOSE, atol=_CLOSE * largest, equal_nan=True)
