"""Compiled pipelines beside other compilers of trees: hummingbird-ml, lleaves, and treelite with tl2cgen.

None of them is needed elsewhere here, and they want packages of their own versions, so they go into an environment of
their own that also sees this one's packages::

    python -m venv others
    echo "$PWD/.venv/lib/python3.11/site-packages" > others/lib/python3.11/site-packages/main.pth
    others/bin/pip install --no-deps hummingbird-ml==0.4.12 onnxconverter-common dill
    others/bin/pip install --no-deps lleaves "llvmlite<0.45" treelite tl2cgen
    PYTHONPATH=$PWD others/bin/python -m benchmarks.compiling.onnx_runtime_and_torch

All sides give the probabilities of the same 10,000 rows of float32 with the same number of threads; medians of five
warm calls. What is not installed, or refuses a model, is left out, with the reason. tl2cgen compiles for minutes:
``--compilers`` names some.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.harness.report import Report

_TARGETS = {"hummingbird": 3.0, "hummingbird jit": 3.0, "lleaves": 0.5}


def _hummingbird(model: Any, rows: NDArray[Any], threads: int, backend: str = "torch") -> Callable[[Any], Any]:
    del threads  # torch has been told
    import hummingbird.ml  # any of these may be missing

    given = (rows[:100],) if backend == "torch.jit" else ()
    converted: Callable[[Any], Any] = hummingbird.ml.convert(model, backend, *given).predict_proba
    return converted


def _jit(model: Any, rows: NDArray[Any], threads: int) -> Callable[[Any], Any]:
    return _hummingbird(model, rows, threads, "torch.jit")


def _lleaves(model: Any, rows: NDArray[Any], threads: int) -> Callable[[Any], Any]:
    del rows
    import lleaves

    if not hasattr(model, "booster_"):
        raise TypeError("lleaves takes LightGBM's models alone")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.txt"
        model.booster_.save_model(file)
        compiled = lleaves.Model(model_file=file)
        compiled.compile()
    return lambda rows: compiled.predict(rows, n_jobs=threads)


def _treelite(model: Any, rows: NDArray[Any], threads: int) -> Callable[[Any], Any]:
    del rows
    import tl2cgen
    import treelite

    if hasattr(model, "booster_"):
        parsed = treelite.frontend.from_lightgbm(model.booster_)
    elif hasattr(model, "get_booster"):
        parsed = treelite.frontend.from_xgboost(model.get_booster())
    else:
        parsed = treelite.sklearn.import_model(model)
    folder = tempfile.mkdtemp()
    library = Path(folder) / "model.so"
    tl2cgen.export_lib(parsed, toolchain="gcc", libpath=library, params={"parallel_comp": 16})
    predictor = tl2cgen.Predictor(library, nthread=threads)
    return lambda rows: predictor.predict(tl2cgen.DMatrix(rows))


_OTHERS: Mapping[str, Callable[[Any, Any, int], Callable[[Any], Any]]] = {
    "hummingbird": _hummingbird,
    "hummingbird jit": _jit,
    "lleaves": _lleaves,
    "tl2cgen": _treelite,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1, help="of each side")
    parser.add_argument("--compilers", default=",".join(_OTHERS), help="some of them, with commas")
    parser.add_argument("--models", help="some of them by name, with commas; all by default")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from benchmarks.harness.report import Report, load_average  # libraries read the variable when they are imported

    warnings.simplefilter("ignore")
    report = Report(f"compilers of trees, {options.rows:,} rows, {options.threads} thread(s), load {load_average()}")
    _compare(report, options)
    report.show(as_json=options.json)


def _compare(report: Report, options: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from benchmarks.compiling._models import CASES, drawn
    from benchmarks.compiling._times import spent
    from vista_spark import compile_pipeline

    torch.set_num_threads(options.threads)
    table, labels = drawn(2 * options.rows)
    given = np.ascontiguousarray(table[options.rows :])
    lines = []
    for case in CASES:
        if options.models and case.name not in options.models.split(","):
            continue
        model = case.model(options.threads).fit(table[: options.rows], labels[: options.rows])
        truth, ours = model.predict_proba(given), compile_pipeline(model, threads=options.threads).predict_proba
        taken = spent(lambda ours=ours: ours(given)).cpu
        lines.append((case.name, "ours", f"{taken * 1e3:.1f}", "", f"{np.abs(ours(given) - truth).max():.1e}"))
        for name in options.compilers.split(","):
            began = time.perf_counter()
            try:
                call = _OTHERS[name](model, given, options.threads)
                found = np.asarray(call(given))
            except Exception as error:  # of another project
                lines.append((case.name, name, "", "", f"{type(error).__name__}: {str(error)[:60]}"))
                continue
            built = time.perf_counter() - began
            cpu = spent(lambda call=call: call(given)).cpu
            found = found.reshape(len(given), -1)
            gap = np.abs(found - truth[:, -found.shape[1] :]).max()
            lines.append((case.name, name, f"{cpu * 1e3:.1f}", f"{built:.1f}", f"{gap:.1e}"))
            meaning = f"CPU seconds of {name} over ours"
            report.ratio(f"vs_{name.replace(' ', '_')}.{case.name}", cpu / taken, meaning, _TARGETS.get(name))
    report.table(
        f"Milliseconds of CPU for {options.rows:,} rows",
        ("model", "compiler", "ms", "seconds of compiling and a first call", "greatest gap to the library"),
        lines,
    )


if __name__ == "__main__":
    main()
