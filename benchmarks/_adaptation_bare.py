"""Model selection without this project: processes that train each candidate alone, in bare torch or Keras.

*Current practice* trains whole models on all labels of the cycle. Each begins from the whole checkpoint that was
written when the search began, and ends by writing another one; records stay in memory. *Time optimal* trains the
branches alone: the frozen part's outputs are in memory already, and no second is counted for that. Both evaluate every
epoch, as the arms on Spark do. Of the project they take the user's function, which builds a model and its optimizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from _adaptation_meter import Meter, forget
from _adaptation_outcome import Cycle, Measured

from udfs.node import keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from _adaptation_workloads import Workload
    from numpy.typing import NDArray

__all__ = ["Arrangement", "Fleet", "Mode", "Trained", "Trainee", "best_arrangement", "measure"]

Mode = Literal["whole", "branch"]

_EVALUATED = 256
_PROBED = 24


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How candidates are laid out on the cores.

    Parameters
    ----------
    processes, threads : int
        Each process trains one candidate at a time, with so many threads within an operation.
    layout : {"NCHW", "NHWC"}
        Of images in memory, for torch.
    """

    processes: int
    threads: int
    layout: str = "NCHW"

    def __str__(self) -> str:
        layout = f", {self.layout}" if self.layout == "NHWC" else ""
        return f"{self.processes} x {self.threads} thread{'s'[: self.threads > 1]}{layout}"


@dataclass(frozen=True, slots=True)
class Trained:
    """One candidate in one cycle: its last validation metric, and its losses by epoch."""

    metric: float
    losses: tuple[float, ...]


class Trainee(Protocol):
    """A framework's side of a process: one workload, candidate by candidate."""

    def initial(self, number: int) -> None:
        """Write a candidate's initial checkpoint."""

    def features(self, number: int, path: Path) -> None:
        """Write the branch's inputs of all records."""

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        """Train a candidate on the labels of a cycle."""


class Fleet:
    """Processes of one arrangement, started as programs: threads of torch and a JVM's gateway do not survive a fork.

    Parameters
    ----------
    processes, threads : int
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self._links: list[Connection] = []
        self._homes: dict[tuple[Any, ...], Connection] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
        for _ in range(processes):
            here, there = Pipe()
            command = [sys.executable, __file__, str(there.fileno()), str(threads)]
            self._started.append(subprocess.Popen(command, pass_fds=[there.fileno()], env=environment))
            there.close()
            self._links.append(here)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Ids of the processes."""
        return [process.pid for process in self._started]

    def close(self) -> None:
        """End the processes."""
        for link in self._links:
            link.close()
        for process in self._started:
            process.wait()

    def open(self, work: Workload, folder: Path, layout: str) -> None:
        """Give every process the records, as if it had read them from its own disk."""
        self._homes.clear()
        for link in self._links:
            link.send(("open", work, folder, layout))
        for link in self._links:
            _received(link)

    def map(self, orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run orders, the first ones first, each by whoever is idle; gives the results in their order.

        A process takes first what it had before: Keras has compiled that candidate there.
        """
        waiting = list(enumerate(orders))
        found: dict[int, Any] = {}
        lock = threading.Lock()

        def feed(link: Connection) -> None:
            while True:
                with lock:
                    if not waiting:
                        return
                    homes = [self._homes.get(order[:2], link) for _, order in waiting]
                    place, order = waiting.pop(homes.index(link) if link in homes else 0)
                    self._homes[order[:2]] = link
                link.send(order)
                found[place] = _received(link)

        with ThreadPoolExecutor(len(self._links)) as feeders:
            list(feeders.map(feed, self._links))
        return [found[place] for place in range(len(orders))]


def _received(link: Connection) -> Any:
    answer = link.recv()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def best_arrangement(
    work: Workload, fleets: Sequence[Fleet], layouts: Sequence[str], mode: Mode, flops: Sequence[float]
) -> tuple[Fleet, Arrangement, dict[str, float]]:
    """Let each arrangement train two candidates for an epoch of few records, and choose the fastest.

    Returns
    -------
    Fleet, Arrangement
        The fleet has the workload open, but without checkpoints or features.
    dict of str to float
        Seconds of each.
    """
    few = replace(work, scale=replace(work.scale, cycles=1, records=min(_PROBED, work.scale.total)))
    order = sorted(range(len(work.space)), key=lambda number: flops[number])
    probed = [order[-1], order[len(order) // 2]]
    seconds: dict[Arrangement, tuple[float, Fleet]] = {}
    for fleet in fleets:
        for layout in layouts:
            with tempfile.TemporaryDirectory() as folder:
                fleet.open(few, Path(folder), layout)
                _prepare(few, fleet, Path(folder), mode, probed)
                orders = [("train", number, mode, 0, 1) for number in probed]
                # The first turn pays for what is made once.
                fleet.map(orders)
                started = time.perf_counter()
                fleet.map(orders)
                taken = time.perf_counter() - started
            seconds[Arrangement(fleet.processes, fleet.threads, layout)] = taken, fleet
    chosen = min(seconds, key=lambda each: seconds[each][0])
    return seconds[chosen][1], chosen, {str(each): taken for each, (taken, _) in seconds.items()}


def _prepare(work: Workload, fleet: Fleet, folder: Path, mode: Mode, numbers: Sequence[int]) -> None:
    """Write what training begins from."""
    if mode == "whole":
        fleet.map([("initial", number) for number in numbers])
        return
    first = {work.space[number]["scheme"]: number for number in reversed(numbers)}
    fleet.map([("features", number, folder / _stem(scheme)) for scheme, number in first.items()])


def measure(
    arm: str,
    work: Workload,
    fleet: Fleet,
    arrangement: Arrangement,
    mode: Mode,
    flops: Sequence[float],
    *,
    cold: bool = False,
) -> Measured:
    """Run all cycles of an arm.

    Parameters
    ----------
    arm : str
        Its name in tables.
    work : Workload
    fleet : Fleet
    arrangement : Arrangement
        Of the fleet.
    mode : {"whole", "branch"}
    flops : sequence of float
        Of each candidate: the longest ones come first, so that no process waits long at the end.
    cold : bool
        Whether the page cache has no file when a cycle begins.
    """
    order = sorted(range(len(work.space)), key=lambda number: -flops[number])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fleet.open(work, folder, arrangement.layout)
        started = time.perf_counter()
        with Meter(fleet.pids) as meter:
            _prepare(work, fleet, folder, mode, order)
        # Features are there already: nothing of this arm goes to them.
        initial = (time.perf_counter() - started, meter.used.written) if mode == "whole" else (0.0, 0)
        cycles = []
        for cycle in range(work.scale.cycles):
            if cold:
                forget(folder)
            started = time.perf_counter()
            with Meter(fleet.pids) as meter:
                trained: list[Trained] = fleet.map([("train", number, mode, cycle) for number in order])
            seconds, used = time.perf_counter() - started, meter.used
            best = max(each.metric for each in trained)
            cycles.append(Cycle(seconds, used.cpu, used.written, used.read, best))
    return Measured(arm, str(arrangement), *initial, tuple(cycles))


def _stem(scheme: Any) -> str:
    return f"features-{str(scheme).replace(' ', '-')}"


class _Rows:
    """Rows of a cycle: those that train, and those that validate."""

    def __init__(self, work: Workload, cycle: int) -> None:
        until = work.until(cycle)
        train = work.records.train(until)
        self.train, self.held = np.flatnonzero(train), np.flatnonzero(~train)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Rows in an epoch's order."""
        return self.train[np.random.default_rng([0, epoch]).permutation(len(self.train))]


class _TorchTrainee:
    """Bare torch."""

    def __init__(self, work: Workload, folder: Path, layout: str, threads: int) -> None:
        import torch  # noqa: PLC0415 - not beside TensorFlow

        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        self._torch, self._work, self._folder = torch, work, folder
        self._last = torch.channels_last if layout == "NHWC" else None
        self._inputs = [torch.from_numpy(array) for array in work.records.inputs.values()]
        self._labels = torch.from_numpy(work.records.labels)
        self._metric: Callable[[Any, Any], Any] = _accuracy
        if work.labels_are_sequences:
            from _adaptation_nets import entity_accuracy  # noqa: PLC0415

            self._metric = entity_accuracy

    def _made(self, number: int) -> Any:
        self._torch.manual_seed(number)
        trainer = self._work.trainer(self._work.space[number])
        if self._last is not None:
            trainer.model.to(memory_format=self._last)
        return trainer

    def initial(self, number: int) -> None:
        self._torch.save(self._made(number).model.state_dict(), self._folder / f"initial-{number}.pt")

    def features(self, number: int, path: Path) -> None:
        torch, net = self._torch, self._made(number).model
        parts = []
        with torch.inference_mode():
            net.eval()
            for start in range(0, len(self._labels), 32):
                outputs = net.frozen(*self._batch(self._inputs, slice(start, start + 32)))
                parts.append([each.numpy() for each in outputs])
        for place, arrays in enumerate(zip(*parts, strict=True)):
            np.save(f"{path}.{place}.npy", np.concatenate(arrays))

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        torch, params, rows = self._torch, self._work.space[number], _Rows(self._work, cycle)
        trainer = self._made(number)
        net, solver = trainer.model, trainer.optimizer
        inputs, forward = self._inputs, net
        if mode == "whole":
            _put(net, torch.load(self._folder / f"initial-{number}.pt", weights_only=True))
        else:
            paths = sorted(self._folder.glob(f"{_stem(params['scheme'])}.*.npy"))
            inputs = [torch.from_numpy(np.load(each, mmap_mode="c")) for each in paths]
            forward = net.branch
        losses = []
        for epoch in range(epochs or params["epochs"]):
            net.train()
            order, total = rows.order(epoch), 0.0
            for start in range(0, len(order), params["batch"]):
                picked = torch.from_numpy(order[start : start + params["batch"]])
                solver.zero_grad(set_to_none=True)
                loss = trainer.loss(forward(*self._batch(inputs, picked)), self._labels[picked])
                loss.backward()
                solver.step()
                total += float(loss.detach()) * len(picked)
            losses.append(total / max(1, len(order)))
            metric = self._evaluated(net, forward, inputs, rows.held)
        if mode == "whole":
            state = {"model": net.state_dict(), "optimizer": solver.state_dict()}
            torch.save(state, self._folder / f"trained-{number}.pt")
        return Trained(metric, tuple(losses))

    def _evaluated(self, net: Any, forward: Any, inputs: Sequence[Any], held: NDArray[np.int64]) -> float:
        net.eval()
        found = []
        with self._torch.inference_mode():
            for start in range(0, len(held), _EVALUATED):
                picked = self._torch.from_numpy(held[start : start + _EVALUATED])
                scores = forward(*self._batch(inputs, picked))
                found.append(self._metric(scores.numpy(), self._labels[picked].numpy()))
        return float(np.concatenate(found).mean()) if found else 0.0

    def _batch(self, inputs: Sequence[Any], picked: Any) -> list[Any]:
        taken = [each[picked] for each in inputs]
        taken = [each.float() / 255.0 if each.dtype == self._torch.uint8 else each for each in taken]
        if self._last is None:
            return taken
        return [each.contiguous(memory_format=self._last) if each.dim() == 4 else each for each in taken]


def _put(net: Any, state: Mapping[str, Any]) -> None:
    """Take a checkpoint's tensors as they are: the model's own may be pages of a file, which are not to be written."""
    for path, tensor in net.named_parameters():
        tensor.data = state[path]
    for path, tensor in net.named_buffers():
        if path in state:
            tensor.data = state[path]


def _accuracy(scores: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    right: NDArray[np.float64] = (scores.argmax(-1) == labels).astype(np.float64)
    return right


class _KerasTrainee:
    """Bare Keras. A candidate's model stays open, for Keras compiles it anew otherwise."""

    def __init__(self, work: Workload, folder: Path, layout: str, threads: int) -> None:  # noqa: ARG002 - of torch alone
        import keras  # noqa: PLC0415 - not beside torch
        import tensorflow as tf  # noqa: PLC0415

        if tf.config.threading.get_intra_op_parallelism_threads() != threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.get_logger().setLevel("ERROR")
        self._keras, self._work, self._folder = keras, work, folder
        self._inputs = [_scaled(array) for array in work.records.inputs.values()]
        self._open: dict[tuple[int, Mode], tuple[Any, list[Any], list[Any]]] = {}

    def _made(self, number: int, mode: Mode) -> tuple[Any, list[Any], list[Any]]:
        if (number, mode) not in self._open:
            from _adaptation_keras import fine_tuned  # noqa: PLC0415 - imports Keras

            self._keras.utils.set_random_seed(number)
            params, trainer = self._work.space[number], self._work.trainer
            if mode == "whole":
                made = trainer(params)
                model, solver, loss = made.model, made.optimizer, made.loss
            else:
                model = fine_tuned(trainer.weights, params["scheme"], trainer.classes).branch
                solver = self._keras.optimizers.Adam(params["lr"])
                loss = self._keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(optimizer=solver, loss=loss, metrics=["accuracy"], jit_compile=False)
            solver.build(model.trainable_variables)
            self._open[number, mode] = model, model.get_weights(), [each.numpy() for each in solver.variables]
        return self._open[number, mode]

    def initial(self, number: int) -> None:
        self._made(number, "whole")[0].save_weights(self._folder / f"initial-{number}.weights.h5")

    def features(self, number: int, path: Path) -> None:
        from _adaptation_keras import fine_tuned  # noqa: PLC0415 - imports Keras

        trainer = self._work.trainer
        frozen = fine_tuned(trainer.weights, self._work.space[number]["scheme"], trainer.classes).frozen
        np.save(f"{path}.0.npy", frozen.predict(self._inputs[0], batch_size=_EVALUATED, verbose=0))

    def train(self, number: int, mode: Mode, cycle: int, epochs: int | None = None) -> Trained:
        params, rows = self._work.space[number], _Rows(self._work, cycle)
        model, first, slots = self._made(number, mode)
        inputs = self._inputs
        for variable, value in zip(model.optimizer.variables, slots, strict=True):
            variable.assign(value)
        if mode == "whole":
            model.load_weights(self._folder / f"initial-{number}.weights.h5")
        else:
            model.set_weights(first)
            inputs = [np.load(f"{self._folder / _stem(params['scheme'])}.0.npy", mmap_mode="r")]
        labels = self._work.records.labels
        course = model.fit(
            inputs[0][rows.train],
            labels[rows.train],
            batch_size=params["batch"],
            epochs=epochs or params["epochs"],
            validation_data=(inputs[0][rows.held], labels[rows.held]),
            validation_batch_size=_EVALUATED,
            verbose=0,
        ).history
        if mode == "whole":
            model.save(self._folder / f"trained-{number}.keras")
        return Trained(float(course["val_accuracy"][-1]), tuple(map(float, course["loss"])))


def _scaled(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) / 255.0 if array.dtype == np.uint8 else array


def _serve(link: Connection, threads: int) -> None:
    """Work until the other end closes."""
    # glibc maps every large tensor anew otherwise, which costs the bare loop more than anything else in it.
    keep_freed_memory()
    trainee: Any = None
    while True:
        try:
            what, *given = link.recv()
        except EOFError:
            return
        try:
            if what == "open":
                work, folder, layout = given
                kind = _KerasTrainee if work.framework == "keras" else _TorchTrainee
                trainee = kind(work, folder, layout, threads)
                answer = None
            else:
                answer = getattr(trainee, what)(*given)
        except Exception as error:  # noqa: BLE001 - raised again at the other end
            answer = RuntimeError(f"{what}: {type(error).__name__}: {error}")
        link.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
