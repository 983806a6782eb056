"""Batched training of small models against training them one by one.

``python -m benchmarks.stacking`` trains perceptrons with two hidden layers by Adam, one thread, one process: 1, 2, 4, 8
and 16 models of widths 32, 128 and 512, one by one and as a forced stack. Then a mixed grid, with 8 configurations of
each width, trains in the way that :class:`udfs.stacking.Stack` chooses by measurement, which is in its time. Both sides
train from the same weights, in the same row orders; the losses of both are compared. Ratios are one by one / stack:
larger is better. Times are those of the CPU, which a busy machine disturbs less. It ends within five minutes.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.harness.report import Report, load_average
from udfs.handlers import ModelTrainer, open_session
from udfs.shards import Tensors
from udfs.stacking import Stack
from udfs.training import row_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.training import Session

_WIDTHS, _MODELS = (32, 128, 512), (1, 2, 4, 8, 16)
_INPUTS, _BATCH = 16, 32


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=640, help="rows of a unit")
    parser.add_argument("--repeats", type=int, default=5, help="units of each side, in turn; the fastest counts")
    parser.add_argument("--grid-units", type=int, default=20, help="units of each architecture of the mixed grid")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    started, load = time.perf_counter(), load_average()
    report = Report("Batched training of small models: one by one against a stack")
    _widths(report, options.rows, options.repeats)
    _mixed_grid(report, options.rows, options.grid_units)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


def _widths(report: Report, rows: int, repeats: int) -> None:
    """Compare both ways by width and number of models."""
    data, steps = _rows(rows), -(-rows // _BATCH)
    table = []
    for width in _WIDTHS:
        for count in _MODELS:
            alone, together = _sessions(width, count), _sessions(width, count)
            stack: Any = Stack(together, mode="always") if count > 1 else None
            times: dict[str, list[float]] = {"alone": [], "stack": []}
            for unit in range(repeats):
                orders = _orders(count, unit, rows)
                ways: dict[str, Callable[[], Any]] = {
                    "alone": lambda alone=alone, orders=orders: _train_alone(alone, data, orders),
                    "stack": lambda stack=stack, together=together, orders=orders: (
                        _train_alone(together, data, orders)
                        if stack is None
                        else stack.train([data] * len(orders), orders, ends_epoch=True)
                    ),
                }
                sums = {}
                for name in ways if unit % 2 else reversed(ways):
                    begun = time.thread_time()
                    sums[name] = ways[name]()
                    times[name].append(time.thread_time() - begun)
                _check(sums["alone"], sums["stack"])
            one, stacked = (1000 * min(times[name]) / steps / count for name in ("alone", "stack"))
            table.append([str(width), str(count), f"{one:.3f}", f"{stacked:.3f}", f"{one / stacked:.2f}"])
            if count > 1:
                report.ratio(f"width_{width}_models_{count}", one / stacked, "one by one / forced stack")
    columns = ["hidden units", "models", "ms a step, one by one", "ms a step, stack", "one by one / stack"]
    report.table("A stack without a choice", columns, table)


def _mixed_grid(report: Report, rows: int, units: int) -> None:
    """Compare a grid of several widths, with the choice by measurement, which the time includes."""
    data, count, table, totals = _rows(rows), 8, [], [0.0, 0.0]
    for width in _WIDTHS:
        alone, together = _sessions(width, count), _sessions(width, count)
        stack = Stack(together)
        _train_alone(alone, data, _orders(count, units, rows))  # loads code
        alone = _sessions(width, count)
        seconds = [0.0, 0.0]
        for unit in range(units):
            orders = _orders(count, unit, rows)
            begun = time.thread_time()
            sums = _train_alone(alone, data, orders)
            middle = time.thread_time()
            _check(sums, stack.train([data] * count, orders, ends_epoch=True))
            seconds[0] += middle - begun
            seconds[1] += time.thread_time() - middle
        totals = [total + part for total, part in zip(totals, seconds, strict=True)]
        table.append([str(width), *(f"{part:.2f}" for part in seconds), f"{seconds[0] / seconds[1]:.2f}"])
        report.note(f"Width {width}: {stack.decision.explain()}.")
    table.append(["all", *(f"{part:.2f}" for part in totals), f"{totals[0] / totals[1]:.2f}"])
    report.table(
        f"Mixed grid, {count} models of each width, with the choice by measurement",
        ["hidden units", "s one by one", "s with the choice", "one by one / choice"],
        table,
    )
    report.ratio("mixed_grid", totals[0] / totals[1], "one by one / choice by measurement", target=0.98)


def _sessions(width: int, count: int) -> list[Session]:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        layers = (torch.nn.Linear(_INPUTS, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU())
        net = torch.nn.Sequential(*layers, torch.nn.Linear(width, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=_BATCH)

    return [open_session(trainer_fn, {"lr": 1e-4 * (number + 1)}, number) for number in range(count)]


def _rows(count: int) -> Tensors:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(count, _INPUTS)).astype(np.float32)
    return Tensors((inputs,), ((inputs.sum(1) > 0).astype(np.int64),), count)


def _orders(count: int, unit: int, rows: int) -> list[Any]:
    return [row_order(0, f"c{number:03d}", unit, 0, rows) for number in range(count)]


def _train_alone(sessions: Sequence[Session], data: Tensors, orders: Sequence[Any]) -> list[Any]:
    return [session.train(data, order, ends_epoch=True) for session, order in zip(sessions, orders, strict=True)]


def _check(alone: Sequence[Any], together: Sequence[Any]) -> None:
    """Raise AssertionError if both ways learn other things: a time of another model is no time."""
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one["loss"], other["loss"], rtol=1e-3)


if __name__ == "__main__":
    main()
