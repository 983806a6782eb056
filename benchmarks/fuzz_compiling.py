"""Pipelines that seeds draw, compiled and held to their libraries on rows that are to hurt.

``python benchmarks/fuzz_compiling.py --pipelines 2000 --seed 7`` (``make fuzz``) draws pipelines from every class that
has a parser, fits them on small tables, compiles them, and compares every output with the library's: on the training
rows, on numbers where an answer changes and the next floats, on zeros, denormals, infinities, NaN, numbers that float32
does not have, unseen and unicode texts. It ends with 1 where anything is wrong, and prints the seed that shows it
alone: ``--only SEED`` runs it again and finds the smallest pipeline and the row. A seed stands for a draw as long as
the classes that are compiled are the same.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _fuzz_case import Verdict, run_seed, shrunk
from _report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

# The project's aim for what is refused.
_REFUSED = 0.03
_SEEDS = 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=200, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the run; each pipeline's own seed follows from it")
    parser.add_argument(
        "--only", type=int, action="append", metavar="SEED", help="pipelines by their own seeds, shrunk"
    )
    parser.add_argument("--seconds", type=int, default=60, help="a pipeline that takes longer is given up")
    parser.add_argument("--quiet", action="store_true", help="no line on standard error for each that is wrong")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    import torch  # noqa: PLC0415 - `--help` is not to wait for it

    torch.set_num_threads(1)
    seeds = options.only or [options.seed * _SEEDS + place for place in range(options.pipelines)]
    began = time.monotonic()
    verdicts = []
    for seed in seeds:
        verdict = run_seed(seed, options.seconds)
        verdicts.append(verdict)
        if options.only:
            print(f"{seed}: {verdict.kind}: {verdict.model}\n{verdict.text}\n{verdict.counts}")
            if verdict.kind == "wrong":
                print(f"the smallest that is wrong still: {shrunk(seed)}")
        elif verdict.kind == "wrong" and not options.quiet:
            print(f"WRONG --only {seed}: {verdict.model}: {verdict.text}", file=sys.stderr, flush=True)
    report(verdicts, time.monotonic() - began).show(as_json=options.json)
    if any(verdict.kind == "wrong" for verdict in verdicts):
        raise SystemExit(1)


def report(verdicts: Sequence[Verdict], seconds: float) -> Report:
    """Say what came of all seeds."""
    kinds = Counter(verdict.kind for verdict in verdicts)
    fitted = [verdict for verdict in verdicts if verdict.kind in {"equal", "refused", "wrong"}]
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts.update(verdict.counts)
    found = Report(f"{len(verdicts)} pipelines in {seconds:.0f} s; load {load_average()}")
    names = ("equal", "refused", "wrong", "unfitted", "late")
    found.table("Verdicts", ("verdict", "pipelines", ""), [(name, f"{kinds[name]}", _MEANING[name]) for name in names])
    found.table("Rows", ("what", "number", ""), [(name, f"{number:,}", "") for name, number in sorted(counts.items())])
    refused = Counter(_reason(verdict.text) for verdict in verdicts if verdict.kind == "refused")
    found.table("Refused", ("why", "pipelines", ""), [(why, f"{n}", "") for why, n in refused.most_common(40)])
    alone: Counter[str] = Counter()
    for verdict in verdicts:
        alone.update({_reason(text.partition("has ")[2] or text): rows for text, rows in verdict.alone.items()})
    found.table(
        "Refused by ours alone", ("why", "answers", ""), [(why, f"{n}", "") for why, n in alone.most_common(15)]
    )
    operators = Counter(operator for verdict in fitted for operator in verdict.operators)
    found.note("operators: " + ", ".join(f"{name} {number}" for name, number in operators.most_common()))
    for verdict in verdicts:
        if verdict.kind == "wrong":
            found.note(f"WRONG --only {verdict.seed}: {verdict.model}: {verdict.text}")
    of = max(1, len(fitted))
    found.ratio("clean", float(kinds["wrong"] == 0), "1: nothing is wrong", 1)
    found.ratio("compiled", 1 - kinds["refused"] / of, f"compiled of {len(fitted)} that were fitted", 1 - _REFUSED)
    for name in names:
        found.fact(name, kinds[name])
    found.fact("seconds", round(seconds, 1))
    found.fact("refusals", dict(refused))
    found.fact("counts", dict(counts))
    found.fact("refused_by_ours_alone", dict(alone))
    found.fact("operators", dict(operators))
    found.fact("focus", dict(Counter(verdict.focus for verdict in fitted)))
    found.fact("wrong_seeds", [verdict.seed for verdict in verdicts if verdict.kind == "wrong"])
    return found


_MEANING = {
    "equal": "every answer is the library's",
    "refused": "not compiled, with the reason",
    "wrong": "an answer, an error or a shape that the library does not give",
    "unfitted": "the library would not fit what was drawn",
    "late": "given up",
}


def _reason(text: str) -> str:
    """A refusal without its numbers: the operator and the option."""
    return re.sub(r"\d+(\.\d+)?", "#", text.partition(";")[0])[:110]


if __name__ == "__main__":
    main()
