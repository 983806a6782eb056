"""Placements of a run that a replay follows, also where units were trained again or their events are lost."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from cerebro_spark.hopper import Event, Trial
from cerebro_spark.tune._placements import on_workers, placements
from optimizer.hopper import Hopper, Placement, Unit
from optimizer.procedures import Source


def trained(trial_id: str, visit: tuple[int, int], worker: str, began: float) -> Event:
    epoch, partition = visit
    return Event(
        kind="train",
        trial_id=trial_id,
        worker=worker,
        epoch=epoch,
        partition=partition,
        began=began,
        ended=began + 1.0,
        seconds=0.9,
    )


def test_a_unit_that_was_trained_again_is_placed_where_it_was_last() -> None:
    trial = Trial("c0", {}, visits=[(0, 0), (0, 1)])
    events = [trained("c0", (0, 1), "w0", 0.0), trained("c0", (0, 0), "w1", 2.0), trained("c0", (0, 1), "w2", 4.0)]
    (found,) = placements([trial], events).values()
    assert [(each.unit.partition, each.worker, each.start) for each in found] == [(0, "w1", 2.0), (1, "w2", 4.0)]


def test_a_clones_units_come_after_those_of_its_source_also_where_these_were_trained_again() -> None:
    source, clone = Trial("c0", {}, visits=[(0, 0), (0, 1)]), Trial("c1", {}, visits=[(0, 1), (0, 0)])
    clone.source, later = Source("c0", 1), Trial("c2", {}, visits=[(0, 0)])
    events = [
        trained("c1", (0, 1), "w1", 2.0),
        trained("c1", (0, 0), "w0", 3.0),
        trained("c2", (0, 0), "w0", 4.0),
        trained("c0", (0, 0), "w0", 8.0),
        trained("c0", (0, 1), "w1", 9.0),
    ]
    (found,) = placements([source, clone, later], events).values()
    ordered = sorted(found, key=lambda each: (each.start, each.end))
    assert [each.unit.config for each in ordered[:2]] == ["c0", "c0"]
    assert [each.unit.partition for each in ordered if each.unit.config == "c1"] == [1, 0]
    # Ids follow from the order of starts: c2 does not begin before c1.
    assert {each.unit.config for each in ordered[2:]} == {"c1", "c2"}
    undisturbed = [trained("c0", (0, 0), "w0", 0.0), trained("c0", (0, 1), "w1", 1.0), *events[:3]]
    (found,) = placements([source, clone, later], undisturbed).values()
    assert [each.start for each in found] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_units_of_workers_that_a_backend_does_not_have_go_to_whoever_begins_with_the_shard() -> None:
    log = {0: (Placement(Unit("c0", 3), "w5", 1.0, 2.0), Placement(Unit("c0", 2), "w1", 2.0, 3.0))}
    assert [each.worker for each in on_workers(log, 2)[0]] == ["w1", "w1"]
    assert [each.worker for each in on_workers(log, 6)[0]] == ["w5", "w1"]


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 3), st.floats(0, 1))
def test_a_replay_has_every_visit_whatever_events_are_lost(seed: int, configs: int, epochs: int, lost: float) -> None:
    draw = random.Random(seed)
    trials = [Trial(f"c{number}", {}) for number in range(configs)]
    events: list[Event] = []
    for number in range(epochs * 3):
        for trial in trials:
            epoch, place = divmod(number, 3)
            order = random.Random(f"{trial.trial_id} {epoch}").sample(range(3), 3)
            visit = (epoch, order[place])
            trial.visits.append(visit)
            if draw.random() >= lost:
                events.append(trained(trial.trial_id, visit, f"w{visit[1]}", float(len(events))))
    hopper = Hopper.replay(placements(trials, events))
    done: dict[str, list[tuple[int, int]]] = {trial.trial_id: [] for trial in trials}
    for name in ("w0", "w1", "w2"):
        if name not in hopper.idle_workers:
            hopper.join(name, [0, 1, 2])
    for _ in range(epochs * 3 * configs * 4):
        for worker in hopper.idle_workers:
            unit = hopper.next_unit(worker)
            if unit is not None:
                visits = done[unit.config]
                visits.append((len(visits) // 3, unit.partition))
                hopper.finish(Unit(unit.config, unit.partition), 1.0)
                if len(visits) % 3 == 0 and len(visits) < epochs * 3:
                    hopper.enter(unit.config, len(visits) // 3)
    assert done == {trial.trial_id: trial.visits for trial in trials}
