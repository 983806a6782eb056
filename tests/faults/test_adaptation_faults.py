"""Real processes of a cluster killed in the middle of a fused unit: the models are those of an undisturbed campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Search
    from standalone import StandaloneCluster

_DRIVER = Path(__file__).with_name("adapting.py")


def hung(search: Search, gate: Path) -> int:
    """Wait until a process is in the middle of a fused unit, and give its id."""
    search.wait_until(gate.exists)
    return int(gate.read_text())


def same(found: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    assert found["statuses"] == dict.fromkeys(found["statuses"], "finished")
    assert found["tracebacks"] == []
    assert found["digests"] == undisturbed["digests"]
    assert found["histories"] == undisturbed["histories"]


def split_and_tried_again(found: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    """Six configurations in two groups of three: who was killed trains alone, then in parts; the others as before."""
    assert undisturbed["members"] == {trial_id: [[3, 3]] * 3 for trial_id in undisturbed["members"]}
    last = {trial_id: epochs[-1] for trial_id, epochs in found["members"].items()}
    killed = {trial_id for trial_id in last if last[trial_id] != [3, 3]}
    assert found["victim"] in killed
    # Halves, if they enter the last epoch together: on a busy machine one may be there before the others.
    assert sorted(last[trial_id] for trial_id in killed) in ([[1, 1], [2, 2], [2, 2]], [[1, 1]] * 3), (
        "all together again"
    )
    for trial_id, (first, second, _) in found["members"].items():
        # What only the lost worker had is trained again, by all whose state it was.
        assert (1 in first + second) == (trial_id in killed), "the killed train alone until the epoch ends, no others"
    assert found["losses"]
    assert 3 <= found["redone"] <= 3 + 2 * 6, "the unit of the three, and a visit or two of each lost state"


def test_a_killed_worker(cluster: StandaloneCluster, searching: Callable[..., Search], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    search = searching("killed", driver=_DRIVER).start(gate=str(gate))
    cluster.kill(hung(search, gate))
    found = search.result()
    same(found["disturbed"], found["undisturbed"])
    split_and_tried_again(found["disturbed"], found["undisturbed"])


@pytest.mark.slow
def test_a_killed_executor(cluster: StandaloneCluster, searching: Callable[..., Search], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    search = searching("executor", driver=_DRIVER).start(gate=str(gate))
    above = {process.pid for process in psutil.Process(hung(search, gate)).parents()}
    (executor,) = [executor.pid for executor in cluster.executors() if executor.pid in above]
    cluster.kill(executor)
    found = search.result()
    same(found["disturbed"], found["undisturbed"])
    # Of the other group Spark may have lost a worker too, as it started the executor anew.
    first, second, last = found["disturbed"]["members"][found["disturbed"]["victim"]]
    assert 1 in first + second
    assert max(last) < 3
    assert found["disturbed"]["losses"]


@pytest.mark.slow
def test_a_killed_driver_is_resumed(searching: Callable[..., Search], tmp_path: Path) -> None:
    gate, store = tmp_path / "gate", tmp_path / "store"
    first = searching("driver", store, driver=_DRIVER).start(gate=str(gate))
    hung(first, gate)
    first.kill()
    found = searching("driver", store, driver=_DRIVER).start("resume").result()
    same(found["disturbed"], found["undisturbed"])
    assert found["disturbed"]["trunk_rows"] == 0, "records passed the frozen layers again"
