"""Programs compiled ahead of time by Inductor: machine code that the node builds for itself, and keeps by digest.

A saved pipeline never holds such code: it is data, and each node makes its own from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import threading
import time
import timeit
import warnings
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from optimizer.compiling import (
    INPUT,
    RULES,
    Finite,
    NarrowIntegers,
    Select,
    Trees,
    UnsupportedOperatorError,
    Within,
    make_plan,
)
from udfs.compiling.torch._compiler import own_folder
from udfs.compiling.torch._program import ProgramModule
from udfs.compiling.torch._threads import torch_threads
from udfs.compiling.torch._trees import TreesModule
from udfs.node import written_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Program

__all__ = ["Busy", "Kept", "Kernel", "build", "kept", "learned"]

_LOGGER = logging.getLogger(__name__)
_TOLERANCE = 1e-12
_HOSTILE = 0.1
_ONE_BUILD = threading.Lock()


class Busy(Exception):  # noqa: N818 - not a failure
    """Another process of this node builds the same kernel."""


class Kernel:
    """A program compiled for tables of one type and number of rows.

    Parameters
    ----------
    program : Program
    path : Path
        Of the package.
    """

    def __init__(self, program: Program, path: Path) -> None:
        self._names = (list(program.outputs), [node.name for node in program.nodes if isinstance(node.operator, RULES)])
        with _quiet():
            # One thread a kernel: it takes no lock.
            runner: Any = torch._inductor.aoti_load_package(str(path), run_single_threaded=True)  # noqa: SLF001
        self._run = runner.loader.boxed_run

    def __call__(self, table: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run on a table whose columns are contiguous; give what :class:`ProgramModule` gives."""
        values = self._run([table])
        outputs, rules = self._names
        return dict(zip(outputs, values, strict=False)), dict(zip(rules, values[len(outputs) :], strict=True))


class Kept(NamedTuple):
    """A kernel that this node has, and what was measured when it was built.

    Parameters
    ----------
    kernel : Kernel
    gains : bool
        Whether it was faster than the eager program.
    build_s : float
    """

    kernel: Kernel
    gains: bool
    build_s: float


def kept(program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype) -> Kept | None:
    """The kernel that this node built before, if there is one."""
    path = _path(program, strategies, rows, dtype)
    # Code is run only if it is this user's own.
    if not path.exists() or path.stat().st_uid != os.getuid():
        return None
    try:
        facts = json.loads(path.with_suffix(".json").read_text())
        return Kept(Kernel(program, path), bool(facts["gains"]), float(facts["build_s"]))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        _LOGGER.warning("%s cannot be loaded, and is left aside: %s", path, error)
        return None


def build(
    program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype, example: NDArray[Any]
) -> Kept:
    """Build the kernel for tables of `rows` rows, hold it to what the eager program gives, and keep it.

    Parameters
    ----------
    program, strategies, rows, dtype
    example : array of shape (any rows, columns)
        Real rows, on which the kernel is checked too.

    Raises
    ------
    Busy
        Another process of the node builds it at this moment.
    UnsupportedOperatorError
        Inductor cannot build it, or what it built gives other numbers.
    """
    path = _path(program, strategies, rows, dtype)
    with _one_build(path):
        known = kept(program, strategies, rows, dtype)
        if known is not None:
            return known
        began = time.perf_counter()
        module = _Flat(program, strategies).eval()
        samples = [*_samples(program, rows, dtype), _of_rows(example, rows, dtype)]
        try:
            with written_once(path) as partial, _quiet(), torch.no_grad():
                made = _compiled(module, samples[0], partial)
                build_s = time.perf_counter() - began
                kernel = Kernel(program, made)
                for sample in samples:
                    _check(kernel, module, sample)
                spent = _seconds(kernel, samples[-1])
                gains = spent < _seconds(module, samples[-1])
                facts = {"gains": gains, "build_s": build_s, "ratio": spent / make_plan(program).kernel_seconds(rows)}
                path.with_suffix(".json").write_text(json.dumps(facts))
                made.replace(partial)
        except UnsupportedOperatorError:
            raise
        except Exception as error:
            raise UnsupportedOperatorError(f"backend='inductor': {type(error).__name__}: {error}") from error
        return Kept(Kernel(program, path), gains, build_s)


def learned() -> list[tuple[float, float]]:
    """Of each kernel of this node: seconds that it takes over those of a typical machine, and seconds to build it."""
    known = []
    for path in own_folder().glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = json.loads(path.read_text())
            known.append((float(facts["ratio"]), float(facts["build_s"])))
    return known


def _compiled(module: torch.nn.Module, sample: torch.Tensor, partial: Path) -> Path:
    exported = torch.export.export(module, (sample,))
    made = torch._inductor.aoti_compile_and_package(  # noqa: SLF001 - public in its docs
        exported,
        package_path=f"{partial}.pt2",
        inductor_configs={
            "assert_indirect_indexing": False,  # each place comes from tables that were checked
            "cpp.threads": 1,  # threads in a kernel would add leaves up in another order
            "compile_threads": 1,
        },
    )
    return Path(made)


class _Flat(torch.nn.Module):
    """A program whose results come in one tuple."""

    def __init__(self, program: Program, strategies: Mapping[str, str]) -> None:
        super().__init__()
        self.inner = ProgramModule(program, strategies)
        for step in self.inner.steps:
            if isinstance(step, TreesModule):
                step.for_kernel()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run on a batch of shape (rows, columns)."""
        outputs, bad = self.inner(x)
        return (*outputs.values(), *bad.values())


def _check(kernel: Kernel, module: torch.nn.Module, sample: torch.Tensor) -> None:
    with torch.inference_mode():
        outputs, bad = kernel(sample)
        for (name, ours), truth in zip((outputs | bad).items(), module(sample), strict=True):
            rtol = 0.0 if not truth.is_floating_point() else _TOLERANCE if truth.dtype == torch.float64 else 1e-6
            if not torch.allclose(ours, truth, rtol=rtol, atol=rtol, equal_nan=True):
                raise UnsupportedOperatorError(f"backend='inductor': {name} differs from the eager program's")


def _seconds(run: Callable[[torch.Tensor], Any], sample: torch.Tensor) -> float:
    with torch_threads(1), torch.inference_mode():
        # Of this thread: what else the machine does is not measured.
        return max(min(timeit.repeat(lambda: run(sample), timer=time.thread_time, number=1, repeat=5)), 1e-7)


def _samples(program: Program, rows: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Numbers at the thresholds and beside them, then with those that hurt; columns contiguous."""
    draw = np.random.default_rng(0)
    table = draw.normal(size=(rows, program.width))
    places = {INPUT: np.arange(program.width)}  # columns of the input, for tables of some of them as they are
    for node in program.nodes:
        known = places.get(node.inputs[0]) if node.inputs else None
        if known is not None and isinstance(node.operator, Select):
            places[node.name] = known[node.operator.columns]
        elif known is not None and isinstance(node.operator, Finite | NarrowIntegers | Within):
            places[node.name] = known
        elif known is not None and isinstance(node.operator, Trees):
            for column, place in enumerate(known):
                own = node.operator.threshold[(node.operator.feature == column) & np.isfinite(node.operator.threshold)]
                if len(own):
                    table[:, place] = draw.choice(own, rows) + draw.choice([0.0, 1e-3, -1e-3], rows)
    hostile = np.where(draw.random(table.shape) < _HOSTILE, draw.choice([np.nan, np.inf, -np.inf, 1e39, -0.0]), table)
    return [_of_rows(one, rows, dtype) for one in (table, hostile)]


def _of_rows(table: NDArray[Any], rows: int, dtype: torch.dtype) -> torch.Tensor:
    """So many rows, again and again from the top, with columns contiguous."""
    with np.errstate(over="ignore"):
        turned = torch.from_numpy(np.ascontiguousarray(np.resize(table, (rows, table.shape[1])).T))
    return turned.to(dtype).t()


def _path(program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype) -> Path:
    ways = " ".join(f"{node}={way}" for node, way in sorted(strategies.items()))
    what = f"{program.digest} {ways} {rows} {dtype} {_here()}"
    return own_folder() / f"{hashlib.sha256(what.encode()).hexdigest()}.pt2"


@cache
def _here() -> str:
    """What else decides about the code: torch, the processor, and the modules that wrote it."""
    own = sorted(files(__package__).iterdir(), key=lambda one: one.name)
    sources = b"".join(one.read_bytes() for one in own if one.name.endswith(".py"))
    return f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()} {hashlib.sha256(sources).hexdigest()}"


@contextmanager
def _one_build(path: Path) -> Iterator[None]:
    with _ONE_BUILD, path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy from error
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
