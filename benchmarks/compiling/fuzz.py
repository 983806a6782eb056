"""Pipelines that seeds draw, compiled and held to their libraries on rows that are to hurt.

``python -m benchmarks.compiling.fuzz --pipelines 2000 --seed 7`` (``make fuzz``) draws pipelines from every class that
has a parser, fits them on small tables, compiles them, and compares every output with the library's: on the training
rows, on numbers where an answer changes and the next floats, on zeros, denormals, infinities, NaN, numbers that float32
does not have, unseen and unicode texts, one row and none. It ends with 1 where anything is wrong, and names the case:
``--seed 7 --case 123`` runs it alone. A case stands for a draw as long as the classes that are compiled are the same.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.compiling._fuzz_case import Verdict, run_case
from benchmarks.harness.report import Report, load_average

if TYPE_CHECKING:
    from collections.abc import Sequence

# The project's aim for what is refused.
_REFUSED = 0.03


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=200, help="how many are drawn")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to run in parts")
    parser.add_argument("--seed", type=int, default=1, help="of the run")
    parser.add_argument("--case", type=int, action="append", help="this one alone, with all that is wrong")
    parser.add_argument("--seconds", type=int, default=60, help="a pipeline that takes longer is given up")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    import torch  # noqa: PLC0415 - `--help` is not to wait for it

    torch.set_num_threads(1)
    began = time.monotonic()
    verdicts = []
    for case in options.case or range(options.first, options.first + options.pipelines):
        verdict = run_case(options.seed, case, options.seconds)
        verdicts.append(verdict)
        if options.case:
            print("\n".join([f"case {case}: {verdict.kind}: {verdict.model}", verdict.text, *verdict.wrong]))
        elif verdict.kind == "wrong":
            print(f"WRONG --seed {options.seed} --case {case}: {verdict.text}", file=sys.stderr, flush=True)
    report(options.seed, verdicts, time.monotonic() - began).show(as_json=options.json)
    if any(verdict.kind == "wrong" for verdict in verdicts):
        raise SystemExit(1)


def report(seed: int, verdicts: Sequence[Verdict], seconds: float) -> Report:
    """Say what came of all cases."""
    kinds = Counter(verdict.kind for verdict in verdicts)
    fitted = [verdict for verdict in verdicts if verdict.kind in {"equal", "refused", "wrong"}]
    counts, alone = (sum((getattr(one, name) for one in verdicts), Counter()) for name in ("counts", "alone"))
    refused = Counter(_reason(verdict.text) for verdict in verdicts if verdict.kind == "refused")
    rows = [("drawn", len(verdicts), f"seed {seed}, cases {verdicts[0].case} to {verdicts[-1].case}")]
    rows += [(kind, kinds[kind], meaning) for kind, meaning in _MEANING.items()]
    rows += [("refused", number, why) for why, number in refused.most_common()]
    rows += [("answers", number, _ANSWERS.get(kind, kind)) for kind, number in counts.most_common()]
    rows += [("row refused", number, why) for why, number in alone.most_common(12)]
    found = Report(f"{len(verdicts)} pipelines in {seconds:.0f} s; load {load_average()}")
    found.table("Differential fuzz", ("what", "number", ""), [(what, f"{number:,}", why) for what, number, why in rows])
    for verdict in verdicts:
        if verdict.kind == "wrong":
            found.note(f"WRONG --seed {seed} --case {verdict.case}: {verdict.model}: {verdict.text}")
    found.ratio("clean", float(kinds["wrong"] == 0), "1: nothing is wrong", 1)
    compiled = 1 - kinds["refused"] / max(1, len(fitted))
    found.ratio("compiled", compiled, f"compiled of {len(fitted)} that were fitted", 1 - _REFUSED)
    for name, value in {
        "drawn": len(verdicts),
        **{kind: kinds[kind] for kind in _MEANING},
        "seconds": round(seconds, 1),
        "refusals": dict(refused),
        "answers": dict(counts),
        "refused_by_ours_alone": dict(alone),
        "operators": dict(Counter(operator for verdict in fitted for operator in verdict.operators)),
        "classes": dict(Counter(verdict.focus for verdict in fitted)),
        "wrong_cases": [verdict.case for verdict in verdicts if verdict.kind == "wrong"],
    }.items():
        found.fact(name, value)
    return found


_MEANING = {
    "equal": "every answer is the library's",
    "refused": "not compiled, for a reason below",
    "wrong": "an answer, an error or a shape that the library does not give",
    "not fitted": "the library would not fit what was drawn, in eight attempts",
    "given up": "took too long",
}
_ANSWERS = {
    "rows": "rows that were compared, by every method",
    "toss-up": "differ by what is shown to be the library's own rounding",
    "overflow": "the library has no number: its squares leave the range of floats",
    "refused as documented": "the library answers, and ours refuses the row, as docs/compiling.md says",
    "refused by ours alone": "the library answers, and ours refuses the row: wrong",
}


def _reason(text: str) -> str:
    """A refusal without its numbers: the operator and the option."""
    return re.sub(r"\d+(\.\d+)?", "#", text.partition(";")[0])[:110]


if __name__ == "__main__":
    main()
