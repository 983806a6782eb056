"""Freezing schedules: a session that hops does as a plain loop that switches requires_grad when an epoch begins."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn

from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.packing import unpack
from udfs.shards import Tensors
from udfs.testing import assert_same_bits
from udfs.training import TrainerError, initial_seed, row_order

ROWS, WIDTH, BATCH, PARTITIONS, EPOCHS = 40, 6, 16, 2, 4
SEED = 5

UNFREEZING = {0: "trunk.1", 2: "trunk.0", 3: None}
FREEZING = {1: "trunk.0", 2: "trunk.1"}


class Net(nn.Module):
    """Registered from the head down, with one module beside the trunk: the order does not say what lies below."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.side = nn.Linear(WIDTH, 8)
        self.trunk = nn.ModuleList([block(8, 8), block(8, 8)])
        self.stem = nn.Linear(WIDTH, 8)

    def forward(self, x: Any) -> Any:
        below = self.trunk[1](self.trunk[0](torch.relu(self.stem(x))))
        return self.head(below + self.side(x))


def block(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(0.3))


# Parameters that begin with these do not learn in a phase, and modules of these names are in eval mode.
BELOW = {None: (), "trunk.0": ("stem", "trunk.0"), "trunk.1": ("stem", "trunk.0", "trunk.1", "trunk")}


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.1)
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=nn.CrossEntropyLoss(),
        batch_size=BATCH,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7),
        freeze_until=params["phases"],
    )


def shard(number: int) -> Tensors:
    draw = np.random.default_rng(number)
    inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return Tensors((inputs,), (inputs[:, :3].argmax(axis=1).astype(np.int64),), ROWS)


def visits() -> list[tuple[int, int]]:
    return [(epoch, part) for epoch in range(EPOCHS) for part in ((0, 1) if epoch % 2 else (1, 0))]


def plain(layers: list[str | None]) -> tuple[Any, Any]:
    """Train by an ordinary loop; ``layers`` says by epoch up to where all is frozen."""
    torch.manual_seed(initial_seed(SEED, "c"))
    made = trainer({"phases": {}})
    net, optimizer, scheduler = made.model, made.optimizer, made.scheduler
    for epoch, part in visits():
        data, below = shard(part), BELOW[layers[epoch]]
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(not name.startswith(below))
        net.train()
        for name in below:
            net.get_submodule(name).eval()
        order = row_order(SEED, "c", epoch, part, data.rows)
        for start in range(0, data.rows, BATCH):
            picked = order[start : start + BATCH]
            optimizer.zero_grad()
            made.loss(
                net(torch.from_numpy(data.inputs[0][picked])), torch.from_numpy(data.labels[0][picked])
            ).backward()
            optimizer.step()
        if part == visits()[2 * epoch + 1][1]:
            scheduler.step()
    return net.state_dict(), optimizer.state_dict()["state"]


def above(opened: Any, number: int) -> Tensors:
    """What the part above the cut reads, computed in the batches of training."""
    (name,), data = opened.graph.inputs, shard(number)
    return Tensors(tuple(Feed(opened, name, feed, data.inputs[0]) for feed in opened.feeds), data.labels, data.rows)


class Feed:
    """Computes a layer's rows as they are asked for."""

    def __init__(self, opened: Any, name: str, feed: str, rows: Any) -> None:
        self.opened, self.name, self.feed, self.rows = opened, name, feed, rows

    def __getitem__(self, picked: Any) -> Any:
        return self.opened.trunk({self.name: self.rows[picked]}, [self.feed])[self.feed]


def unit(session: Any, epoch: int, part: int, rows: Any = shard) -> None:
    data = rows(part)
    order = row_order(SEED, "c", epoch, part, data.rows)
    session.train(data, order, ends_epoch=part == visits()[2 * epoch + 1][1])


def hopped(phases: dict[int, str | None], *, adapted: bool = False) -> dict[str, Any]:
    """A session a unit, each from the bytes of the one before."""
    state = None
    for epoch, part in visits():
        seed = initial_seed(SEED, "c")
        if adapted:
            opened = open_adapted(
                trainer, {"phases": phases}, seed, inputs=[TensorSpec((WIDTH,))], columns=["features"]
            )
            assert not opened.whole
            assert len(opened.cuts) == len({0, *phases})
            session = opened.session
        else:
            session = open_session(trainer, {"phases": phases}, seed)
        if state is not None:
            torch.rand(3)
            session.restore(state)
        if adapted:
            opened.follow()
        rows = partial(above, opened) if adapted else shard
        unit(session, epoch, part, rows)
        assert all(parameter.requires_grad for parameter in session.model.parameters())
        session.evaluate(rows(0))
        state = session.checkpoint()
    assert state is not None
    saved: dict[str, Any] = unpack(state, lambda array, _: array.copy())
    return saved


@pytest.mark.parametrize(
    ("phases", "layers"),
    [
        (UNFREEZING, ["trunk.1", "trunk.1", "trunk.0", None]),
        (FREEZING, [None, "trunk.0", "trunk.1", "trunk.1"]),
        ({}, [None] * EPOCHS),
    ],
)
@pytest.mark.parametrize("adapted", [False, True])
def test_a_schedule_that_hops_is_a_plain_loop_bit_for_bit(
    phases: dict[int, str | None], layers: list[str | None], *, adapted: bool
) -> None:
    if adapted and not phases:
        pytest.skip("a trainer without a schedule is opened where it is frozen")
    weights, slots = plain(layers)
    saved = hopped(phases, adapted=adapted)
    assert set(saved["model"]) == set(weights)
    for name, value in weights.items():
        assert_same_bits(saved["model"][name], value.numpy(), name)
    assert set(saved["optimizer"]["state"]) == set(slots)
    for place, own in slots.items():
        for name, value in own.items():
            assert_same_bits(saved["optimizer"]["state"][place][name], value.numpy(), f"{name} of {place}")


def opened_for(phases: dict[int, str | None], seed: int = 0) -> Any:
    return open_adapted(trainer, {"phases": phases}, seed, inputs=[TensorSpec((WIDTH,))], columns=["features"])


def test_each_phase_is_cut_where_ends_what_was_frozen_so_far() -> None:
    """What learned once is never below a cut again, however it is frozen later; nor is a buffer that moved."""
    opened = opened_for(UNFREEZING)
    inputs = opened.graph.inputs
    (stem,) = inputs
    deepest, middle, last = (cut.feeds for cut in opened.cuts)
    assert [cut.start for cut in opened.cuts] == [0, 2, 3]
    assert len({deepest, middle, last}) == 3
    assert last == inputs
    assert all(stem in feeds for feeds in (deepest, middle))
    below = [opened.cuts[place].graph.ancestors(feeds[-1]) for place, feeds in enumerate((deepest, middle))]
    assert len(below[0]) > len(below[1])
    assert all(cut.feeds == inputs for cut in opened_for(FREEZING).cuts)
    refrozen = opened_for({0: "trunk.1", 1: "trunk.0", 2: "trunk.1"})
    assert refrozen.cuts[2].feeds == refrozen.cuts[1].feeds != refrozen.cuts[0].feeds


def test_a_session_with_weights_from_elsewhere_is_cut_at_the_last_phase() -> None:
    """Warm starts and clones: what they have learned may be what is frozen here so far. It hops with them."""
    source = opened_for({0: "trunk.0", 2: None})
    deep, shallow = (cut.feeds for cut in source.cuts)
    assert deep != shallow
    for warm in (False, True):
        clone = opened_for({0: "trunk.0", 2: None}, 1)
        clone.follow()
        assert clone.feeds == deep
        clone.session.adopt(source.session.checkpoint(), optimizer=not warm)
        clone.follow()
        assert clone.feeds == shallow
        hopped_to = opened_for({0: "trunk.0", 2: None}, 1)
        hopped_to.session.restore(clone.session.checkpoint())
        hopped_to.follow()
        assert hopped_to.feeds == shallow
        hopped_to.session.restore(source.session.checkpoint())
        hopped_to.follow()
        assert hopped_to.feeds == deep


def test_evaluation_is_of_the_epoch_that_is_over() -> None:
    opened = opened_for({0: "trunk.0", 1: None})
    for part in (0, 1):
        opened.follow()
        unit(opened.session, 0, part, partial(above, opened))
    state = opened.session.checkpoint()
    again = opened_for({0: "trunk.0", 1: None})
    again.session.restore(state)
    again.follow(trained=True)
    assert again.feeds == again.cuts[0].feeds
    truth = open_session(trainer, {"phases": {0: "trunk.0", 1: None}}, 0)
    for part in (0, 1):
        unit(truth, 0, part)
    expected = truth.evaluate(shard(0))["loss"]
    np.testing.assert_allclose(again.session.evaluate(above(again, 0))["loss"], expected, rtol=1e-6)
    again.follow()
    assert again.feeds == again.cuts[1].feeds
    np.testing.assert_allclose(again.session.evaluate(above(again, 0))["loss"], expected, rtol=1e-6)


def test_a_norm_that_moves_before_it_is_frozen_is_below_no_cut() -> None:
    """Nothing of it learns, but its statistics are others in each run."""

    def moving(params: dict[str, Any]) -> ModelTrainer:
        moved = nn.Sequential(nn.BatchNorm1d(WIDTH, affine=False), nn.Linear(WIDTH, 4))
        net = nn.Sequential(moved, nn.Linear(4, 3))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        return ModelTrainer(
            model=net, optimizer=optimizer, loss=nn.CrossEntropyLoss(), batch_size=BATCH, freeze_until=params
        )

    opened = open_adapted(moving, {1: "0"}, 0, inputs=[TensorSpec((WIDTH,))], columns=["features"])
    assert not opened.whole
    assert [cut.feeds for cut in opened.cuts] == [opened.graph.inputs] * 2


def test_weights_of_a_norm_that_learns_before_it_is_frozen_train_whole() -> None:
    """A graph of its frozen phase would have the weights of the day on which it was opened."""

    def normed(params: dict[str, Any]) -> ModelTrainer:
        trunk = nn.Linear(WIDTH, 5).requires_grad_(False)
        net = nn.Sequential(trunk, nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Linear(4, 3))
        optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], 0.1)
        return ModelTrainer(
            model=net, optimizer=optimizer, loss=nn.CrossEntropyLoss(), batch_size=BATCH, freeze_until=params
        )

    for phases, whole in (({1: "1"}, "freezes what has learned"), ({0: "1", 1: None}, ""), ({0: "1"}, "")):
        opened = open_adapted(normed, phases, 0, inputs=[TensorSpec((WIDTH,))], columns=["features"])
        assert whole in opened.whole, phases
        assert bool(opened.whole) == bool(whole), opened.whole


def test_slots_of_a_layer_stay_while_it_is_frozen() -> None:
    session = open_session(trainer, {"phases": FREEZING}, 0)
    names = [name for name, _ in session.model.named_parameters()]

    def slots() -> dict[str, Any]:
        state = unpack(session.checkpoint(), lambda array, _: array.copy())["optimizer"]["state"]
        return {names[place]: own for place, own in state.items()}

    unit(session, 0, 1)
    unit(session, 0, 0)
    before = slots()
    unit(session, 1, 0)
    after = slots()
    for name in names:
        frozen = name.startswith(("stem", "trunk.0"))
        for slot in ("step", "exp_avg", "exp_avg_sq"):
            assert np.array_equal(before[name][slot], after[name][slot]) == frozen, (name, slot)


def test_a_clone_goes_on_in_the_phase_of_its_source() -> None:
    source = open_session(trainer, {"phases": FREEZING}, 0)
    for epoch, part in visits()[:4]:
        unit(source, epoch, part)
    clone = open_session(trainer, {"phases": FREEZING}, 1)
    clone.adopt(source.checkpoint())
    before = {name: value.clone() for name, value in clone.model.named_parameters()}
    unit(clone, 2, 1)
    kept = {name for name, value in clone.model.named_parameters() if torch.equal(value, before[name])}
    assert kept == {name for name in before if name.startswith(("stem", "trunk"))}


def test_a_seed_gives_the_numbers_that_it_gives_without_a_look_below() -> None:
    class Drawing(nn.Module):
        """Draws in evaluation too."""

        def __init__(self) -> None:
            super().__init__()
            self.low, self.high = nn.Linear(WIDTH, 4), nn.Linear(4, 3)
            self.drawn: list[float] = []

        def forward(self, x: Any) -> Any:
            noise = torch.rand(1)
            self.drawn.append(float(noise))
            return self.high(self.low(x) + noise)

    def made(params: dict[str, Any]) -> ModelTrainer:
        net = Drawing()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        return ModelTrainer(
            model=net, optimizer=optimizer, loss=nn.CrossEntropyLoss(), batch_size=BATCH, freeze_until=params["phases"]
        )

    drawn = []
    for phases in ({}, {0: "low"}):
        session = open_session(made, {"phases": phases}, 0)
        unit(session, 0, 0)
        drawn.append(session.model.drawn[-3:])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ({-1: "stem"}, "got -1"),
        ({0.5: "stem"}, "got 0.5"),
        ({True: "stem"}, "got True"),
        ({0: 3}, r"freeze_until\[0\]=3 is no layer"),
        ({0: ""}, r"freeze_until\[0\]='' is no layer"),
        ({1: "trunc.0"}, r"freeze_until\[1\]: the model has no module 'trunc.0': do you mean 'trunk\.0'"),
    ],
)
def test_what_is_no_schedule_is_refused_when_it_is_opened(phases: dict[Any, Any], said: str) -> None:
    with pytest.raises(TrainerError, match=said):
        open_session(trainer, {"phases": phases}, 0)


def test_a_phase_after_the_last_epoch_is_refused() -> None:
    net = Net()
    with pytest.raises(TrainerError, match="below epochs=3, got 3"):
        ModelTrainer(
            model=net,
            optimizer=torch.optim.SGD(net.parameters()),
            loss=nn.CrossEntropyLoss(),
            epochs=3,
            freeze_until={0: "stem", 3: None},
        )


def opened(net: nn.Module, parameters: Any, phases: dict[int, str | None]) -> Any:
    optimizer = torch.optim.SGD(parameters, 0.1)
    return open_session(
        lambda _: ModelTrainer(model=net, optimizer=optimizer, loss=nn.CrossEntropyLoss(), freeze_until=phases), {}, 0
    )


def test_an_optimizer_that_lacks_what_is_freed_later_is_refused() -> None:
    net = Net()
    with pytest.raises(TrainerError, match=r"the optimizer does not hold stem\.weight"):
        opened(net, [*net.head.parameters(), *net.side.parameters(), *net.trunk.parameters()], UNFREEZING)


def test_a_layer_that_the_user_froze_is_refused() -> None:
    net = Net()
    net.trunk.requires_grad_(False)
    with pytest.raises(TrainerError, match=r"'trunk\.1' does not learn as the model is built"):
        opened(net, net.parameters(), {0: "trunk.1"})


def test_what_the_user_froze_stays_frozen() -> None:
    net = Net()
    net.stem.requires_grad_(False)
    before = net.stem.weight.clone()
    session = opened(net, net.parameters(), {0: "trunk.0", 1: None})
    for epoch, part in visits()[:4]:
        unit(session, epoch, part)
    assert torch.equal(net.stem.weight, before)
    assert not net.stem.weight.requires_grad


def test_a_phase_in_which_nothing_learns_is_an_error() -> None:
    net = nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, 3))
    with pytest.raises(TrainerError, match="nothing that learns in epoch 0: all that does lies at or below '1'"):
        unit(opened(net, net.parameters(), {0: "1"}), 0, 0)


def test_a_layer_that_is_never_called_is_an_error() -> None:
    with pytest.raises(TrainerError, match="names 'trunk', which the model never calls"):
        unit(opened(net := Net(), net.parameters(), {0: "trunk"}), 0, 0)
