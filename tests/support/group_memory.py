"""The memory of a process that trains a fused group of MiniLM taggers, as a worker does, and what is predicted of it.

``python group_memory.py computed|stored`` prints both in bytes, as JSON: without and with the frozen layers on disk.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import torch
from real_inputs import minilm

from cerebro_spark import ModelTrainer
from cerebro_spark.adaptation import Adaptation
from cerebro_spark.schemes import TransformerHead, feature_transfer, token_loss
from optimizer.adaptation import Candidate, Costs, plan
from udfs.adaptation import Trunk
from udfs.handlers import TensorSpec, open_adapted
from udfs.node import keep_freed_memory, limit_threads, return_freed_memory
from udfs.training import BatchWeights
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph

TOKENS, BATCH, STEPS = 128, 16, 3
SPACE = [
    {"lr": rate, "layers": layers, "combine": combine}
    for rate in (1e-3, 1e-4)
    for layers, combine in ((["layer6"], "sum"), (["layer5", "layer6"], "concat"))
]


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    net = feature_transfer(
        roster.load("minilm_l6", str(minilm())),
        layers=roster.card("minilm_l6").resolve(params["layers"]),
        combine=params["combine"],
        head=TransformerHead(384, classes=9),
    )
    solver = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], lr=params["lr"])
    return ModelTrainer(model=net, optimizer=solver, loss=token_loss, batch_size=BATCH, epochs=5)


class Peak:
    """The largest proportional set of this process from now on."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.nbytes = max(self.nbytes, psutil.Process().memory_full_info().pss)

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self.nbytes


def batches() -> Iterator[tuple[list[Any], Any]]:
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        ids = random.integers(100, 20_000, (BATCH, TOKENS))
        yield [ids, np.ones_like(ids)], random.integers(0, 9, (BATCH, TOKENS))


def _drawn(graphs: list[LayerGraph], wants: list[str]) -> dict[str, NDArray[np.float32]]:
    layers = {graph.expression(name): graph[name] for graph in graphs for name in graph.names}
    random = np.random.default_rng(0)
    return {key: 0.1 * random.random((BATCH, *layers[key].output_shape), np.float32) for key in wants}


def main(*, stored: bool) -> None:
    keep_freed_memory()
    limit_threads(1)
    inputs = [TensorSpec((TOKENS,), "int64")] * 2
    members = []
    for params in SPACE:
        members.append(open_adapted(trainer_fn, params, 0, inputs=inputs, columns=["input_ids", "attention_mask"]))
        return_freed_memory()
    candidates = [Candidate(str(n), one.graph, 5, BATCH, one.slots) for n, one in enumerate(members)]
    (group,) = plan(
        candidates,
        records=1000,
        disk_bytes=1 << 50 if stored else 0,
        memory_bytes=1 << 40,
        workspace_bytes=Adaptation.workspace_bytes,
        costs=Costs(1e9, 1e12),
    ).groups
    raw = [members[0].graph.expression(name) for name in members[0].graph.inputs]
    feeds = [tuple(one.graph.expression(feed) for feed in one.feeds) for one in members]
    wants = list(dict.fromkeys(feed for own in feeds for feed in own))
    trunk = Trunk(members, raw, wants)
    # A worker that reads the layers does not run them.
    read = _drawn([one.graph for one in members], wants) if stored else {}
    weights = BatchWeights(BATCH)
    for one in members:
        one.session.begin()
    peak = Peak()
    for rows, labels in batches():
        known = {key: array.copy() for key, array in read.items()} or trunk(dict(zip(raw, rows, strict=True)))
        for one, own in zip(members, feeds, strict=True):
            one.session.step(tuple(known[feed] for feed in own), (labels,), weights)
    sys.stdout.write(json.dumps({"measured": peak.end(), "predicted": group.memory_bytes}) + "\n")


if __name__ == "__main__":
    main(stored=sys.argv[1] == "stored")
