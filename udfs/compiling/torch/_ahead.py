"""Programs compiled ahead of time by Inductor: machine code that the node builds for itself, and keeps by digest.

A saved pipeline never holds such code: it is data, and each node makes its own from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import threading
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.compiling import Finite, Trees, UnsupportedOperatorError
from udfs.compiling.torch._program import ProgramModule
from udfs.node import node_folder, written_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optimizer.compiling import Program

__all__ = ["Busy", "Kernel", "build", "has_compiler", "kept"]

_LOGGER = logging.getLogger(__name__)
_COMPILERS = ("g++", "clang++", "c++")
_TOLERANCE = 1e-12
_ONE_BUILD = threading.Lock()


class Busy(Exception):  # noqa: N818 - not a failure
    """Another process of this node builds the same kernel."""


@cache
def has_compiler() -> bool:
    """Whether this node has a C++ compiler. Says so once where it has none."""
    named = os.environ.get("CXX")
    found = any(shutil.which(name) for name in ([named] if named else _COMPILERS))
    if not found:
        _LOGGER.warning("no C++ compiler on this node (CXX, %s): programs run eagerly", ", ".join(_COMPILERS))
    return found


class Kernel:
    """A program compiled for tables of one type and number of rows.

    Parameters
    ----------
    program : Program
    path : Path
        Of the package.
    """

    def __init__(self, program: Program, path: Path) -> None:
        self._names = (
            list(program.outputs),
            [node.name for node in program.nodes if isinstance(node.operator, Finite)],
        )
        with _quiet():
            # One thread a kernel: it takes no lock.
            runner: Any = torch._inductor.aoti_load_package(str(path), run_single_threaded=True)  # noqa: SLF001
        self._run = runner.loader.boxed_run

    def __call__(self, table: torch.Tensor) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Run on a table whose columns are contiguous; give what :class:`ProgramModule` gives."""
        values = self._run([table])
        outputs, rules = self._names
        return dict(zip(outputs, values, strict=False)), dict(zip(rules, values[len(outputs) :], strict=True))


def kept(program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype) -> Kernel | None:
    """The kernel that this node built before, if there is one."""
    path = _path(program, strategies, rows, dtype)
    # Code is run only if it is this user's own.
    return Kernel(program, path) if path.exists() and path.stat().st_uid == os.getuid() else None


def build(program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype) -> Kernel:
    """Build the kernel for tables of `rows` rows, hold it to what the eager program gives, and keep it.

    Raises
    ------
    Busy
        Another process of the node builds it at this moment.
    UnsupportedOperatorError
        Inductor cannot build it, or what it built gives other numbers.
    """
    path = _path(program, strategies, rows, dtype)
    with _one_build(path):
        if not path.exists():
            module = _Flat(program, strategies).eval()
            sample = _sample(program, rows, dtype)
            try:
                with written_once(path) as partial, _quiet(), torch.no_grad():
                    exported = torch.export.export(module, (sample,))
                    made = torch._inductor.aoti_compile_and_package(  # noqa: SLF001
                        exported,
                        package_path=f"{partial}.pt2",
                        inductor_configs={
                            "assert_indirect_indexing": False,  # each place comes from tables that were checked
                            "cpp.threads": 1,  # threads in a kernel would add leaves up in another order
                            "compile_threads": 1,
                        },
                    )
                    Path(made).replace(partial)
            except Exception as error:
                raise UnsupportedOperatorError(f"backend='inductor': {type(error).__name__}: {error}") from error
            try:
                _check(Kernel(program, path), module, sample)
            except UnsupportedOperatorError:
                path.unlink(missing_ok=True)
                raise
    return Kernel(program, path)


class _Flat(torch.nn.Module):
    """A program whose results come in one tuple."""

    def __init__(self, program: Program, strategies: Mapping[str, str]) -> None:
        super().__init__()
        self.inner = ProgramModule(program, strategies)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run on a batch of shape (rows, columns)."""
        outputs, bad = self.inner(x)
        return (*outputs.values(), *bad.values())


def _check(kernel: Kernel, module: torch.nn.Module, sample: torch.Tensor) -> None:
    with torch.inference_mode():
        outputs, bad = kernel(sample)
        for (name, ours), truth in zip((outputs | bad).items(), module(sample), strict=True):
            rtol = 0.0 if not truth.is_floating_point() else _TOLERANCE if truth.dtype == torch.float64 else 1e-6
            close = torch.allclose(ours, truth, rtol=rtol, atol=rtol, equal_nan=True)
            if not close:
                raise UnsupportedOperatorError(f"backend='inductor': {name} differs from the eager program's")


def _sample(program: Program, rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers around the thresholds, with columns contiguous."""
    draw = np.random.default_rng(0)
    table = draw.normal(size=(program.width, rows))
    for node in program.nodes:
        if isinstance(node.operator, Trees) and node.operator.features == program.width:
            for column in range(program.width):
                own = node.operator.threshold[(node.operator.feature == column) & np.isfinite(node.operator.threshold)]
                if len(own):
                    table[column] = draw.choice(own, rows) + draw.choice([0.0, 1e-3, -1e-3], rows)
    return torch.from_numpy(table).to(dtype).t()


def _path(program: Program, strategies: Mapping[str, str], rows: int, dtype: torch.dtype) -> Path:
    ways = " ".join(f"{node}={way}" for node, way in sorted(strategies.items()))
    what = f"{program.digest} {ways} {rows} {dtype} {_here()}"
    folder = node_folder(f"compiled-{os.getuid()}")
    folder.chmod(0o700)
    return folder / f"{hashlib.sha256(what.encode()).hexdigest()}.pt2"


@cache
def _here() -> str:
    """What else decides about the code: torch, the processor, and the modules that wrote it."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
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
