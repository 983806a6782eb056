"""Figures 3.8 to 3.11 by simulation and arithmetic, compared with the text's claims."""

from __future__ import annotations

import json

import pytest

from benchmarks.hopper import schedulers
from benchmarks.hopper._figures import (
    Absence,
    batch_traffic,
    epochs_with_losses,
    remote_reads,
    replicated_reads,
    speedup,
)


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_speedup_is_linear(workers: int) -> None:
    """Up to as many workers as there are configurations; no schedule does better than one worker each."""
    assert speedup(8, workers) == pytest.approx(workers, rel=0.001)
    assert speedup(8, 16) < 8
    assert speedup(8, workers, epoch_s=1.0, hop_s=0.125) == pytest.approx(workers / (1 + workers / 8 * (workers > 1)))


def test_lost_workers() -> None:
    """With three copies the others go on; with one the epoch ends only after the worker is back."""
    assert epochs_with_losses([], copies=1) == [1.0] * 5
    lost = [Absence(1, 1.4, 3.0), Absence(4, 2.3, 3.0)]
    with_copies = epochs_with_losses(lost, copies=3)
    # Never more than what six workers of eight need, rounded up to whole units, and the unit that was lost.
    assert max(with_copies) <= (-(-64 // 6) + 1) / 8
    assert with_copies[1] > 1
    alone = epochs_with_losses([Absence(1, 1.4, 3.0)], copies=1)
    assert alone[0] == alone[2] == 1.0
    assert sum(alone[:2]) > 3.0
    # No worker has the shard in an epoch that its worker misses entirely.
    assert epochs_with_losses([Absence(1, 0.0, 2.0)], copies=1, epochs=1)[0] > 2.0


def test_bytes() -> None:
    """Over ten times fewer than remote reads; of two magnitudes fewer with 1 to 4 copies, and more with a full one."""
    for scale in (0.25, 0.5, 1.0):
        ours, other = remote_reads(scale)
        assert other > 10 * ours
    assert remote_reads(1.0) == (250 * 10**9 + 8 * 41 * 293 * 10**6, 5 * 8 * 250 * 10**9 + 8 * 293 * 10**6)
    ratios = [other / ours for ours, other in map(replicated_reads, (1, 2, 4, 8))]
    assert [round(ratio) for ratio in ratios[:3]] == [91, 78, 52]
    assert ratios[3] < 1
    halves = [batch_traffic(batch)[1] for batch in (32, 64, 128)]
    assert halves[0] / halves[1] == pytest.approx(2, rel=0.001) == halves[1] / halves[2]
    assert len({batch_traffic(batch)[0] for batch in (32, 512)}) == 1


def test_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    schedulers.main(["--drill-down", "--json"])
    ratios = json.loads(capsys.readouterr().out.splitlines()[-1])["ratios"]
    assert set(ratios) == {"speedup_8_workers", "longest_epoch_with_losses", "remote_reads_over_hopping"}
    assert ratios["remote_reads_over_hopping"] > 10
