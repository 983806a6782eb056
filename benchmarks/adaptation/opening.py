"""CPU seconds of opening a candidate of an adaptation, next to those of the user's own function.

``python -m benchmarks.adaptation.opening`` opens candidates of FTR-2 (MiniLM), FTU (MobileNetV2) and, where
``transformers`` is installed, of a BERT of two small blocks, which goes by way of ``torch.export``: the first of the
process, the same again with another seed, and another head over the same trunk. One thread; medians. It ends within
two minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.adaptation._workloads import Scale, workload
from benchmarks.harness.report import Report, load_average
from udfs.handlers import ModelTrainer, TensorSpec, open_adapted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_AGAIN = 0.1
_OTHER = 0.3


@dataclass(frozen=True)
class Case:
    """Candidates of one network.

    Parameters
    ----------
    name : str
    trainer : callable
    params, other : dict
        Of a candidate, and of one with another head over the same trunk.
    inputs : sequence of TensorSpec
    """

    name: str
    trainer: Callable[[dict[str, Any]], ModelTrainer]
    params: dict[str, Any]
    other: dict[str, Any]
    inputs: Sequence[TensorSpec]

    def made(self, params: dict[str, Any]) -> float:
        """CPU seconds of the user's function alone."""
        began = time.process_time()
        self.trainer(params)
        return time.process_time() - began

    def opened(self, params: dict[str, Any], seed: int) -> float:
        """CPU seconds of opening, with the user's function."""
        columns = [f"column {place}" for place in range(len(self.inputs))]
        began = time.process_time()
        open_adapted(self.trainer, params, seed, inputs=self.inputs, columns=columns)
        return time.process_time() - began


def _workload(name: str) -> Case:
    work = workload(name, Scale(cycles=1, records=20, tokens=32, pixels=96))
    other = next(params for params in work.space if params["scheme"] != work.space[0]["scheme"])
    return Case(name, work.trainer, work.space[0], other, work.inputs)


def _bert() -> Case | None:
    try:
        from transformers import BertConfig, BertModel  # optional
    except ImportError:
        return None

    class Classifier(torch.nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            drawn = torch.random.get_rng_state()
            torch.manual_seed(0)
            settings = BertConfig(
                vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
            )
            self.encoder = BertModel(settings).requires_grad_(requires_grad=False)
            torch.random.set_rng_state(drawn)
            self.head = torch.nn.Linear(16, classes)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.encoder(input_ids=tokens).last_hidden_state[:, 0])

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = Classifier(params["classes"])
        solver = torch.optim.Adam(net.head.parameters())
        return ModelTrainer(model=net, optimizer=solver, loss=torch.nn.CrossEntropyLoss(), batch_size=8)

    return Case("BertModel", trainer, {"classes": 2}, {"classes": 3}, [TensorSpec((8,), "int64")])


def main(arguments: Sequence[str] | None = None) -> None:
    """Open the candidates and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="openings of each kind but the first")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    torch.set_num_threads(1)
    report = Report(
        f"Opening candidates, CPU seconds at one thread; medians of {options.repeats}; load {load_average()}"
    )
    rows = []
    for case in (_workload("FTR-2"), _workload("FTU"), _bert()):
        if case is None:
            report.note("transformers is not installed: no BertModel.")
            continue
        case.made(case.params)  # what is imported and read once
        alone = statistics.median(case.made(case.params) for _ in range(options.repeats))
        first = case.opened(case.params, 0)
        again = statistics.median(case.opened(case.params, seed) for seed in range(1, options.repeats + 1))
        other = case.opened(case.other, 0)
        rows.append((case.name, *(f"{seconds:.2f}" for seconds in (alone, first, again, other)), ""))
        report.ratio(f"again.{case.name}", _AGAIN / max(again - alone, 1e-3), "0.1 s / the same again, alone", 1.0)
        report.ratio(f"other.{case.name}", _OTHER / max(other - alone, 1e-3), "0.3 s / another head, alone", 1.0)
    columns = ("network", "the user's function", "the first", "the same again", "another head", "")
    report.table("CPU seconds; those of opening include the user's function", columns, rows)
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
