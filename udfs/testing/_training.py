"""The contract of a whole framework, as tests: tracing as :class:`HandlerContract` has it, training, export, networks.

A project of its own subclasses :class:`FrameworkContract` in a test module, and pytest collects the rest::

    class TestMine(FrameworkContract):
        framework = FRAMEWORK
        samples = (Sample("chain", build_chain, (TensorSpec((3, 8, 8)),), ...), ...)
        refusals = (Refusal("no model", object, (TensorSpec((4,)),), "expected"),)
        training = TrainingSample(trainer_fn, Tensors((inputs,), (labels,), rows), weights)
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from udfs.handlers import (
    DeviceError,
    ModelTrainer,
    apply_random,
    framework_of,
    open_session,
    take_random,
    train_in_steps,
)
from udfs.inference import PortableNetwork
from udfs.packing import StateError, pack, unpack
from udfs.testing._frameworks import HandlerContract, Sample, assert_same_bits
from udfs.training import TrainerError, batch_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.shards import Tensors
    from udfs.training import Session

__all__ = ["FrameworkContract", "TrainingSample"]


@dataclass(frozen=True)
class TrainingSample:
    """A model to train.

    Parameters
    ----------
    trainer_fn : callable
        Function of params that returns a :class:`udfs.handlers.ModelTrainer`, with a new model each time whose weights
        are drawn from the framework's or numpy's generator. It gets ``{}``; ``{"lr": 0.0}``, for an optimizer with this
        rate and no decay; and ``{"hidden": 5}``, for a model with other shapes than that of ``{}``.
    data : Tensors
        Rows to train on, at least two batches of them.
    weights : callable
        Function of a model that returns copies of the arrays that its optimizer changes, by name.
    """

    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    data: Tensors
    weights: Callable[[Any], Mapping[str, NDArray[Any]]]


class FrameworkContract(HandlerContract):
    """The contract of a framework. Subclass it with the four class attributes; a method is a test."""

    training: ClassVar[TrainingSample]

    def session(self, seed: int = 3, **params: Any) -> Session:
        """Open the training sample."""
        return open_session(self.training.trainer_fn, params, seed, device=self.device)

    def unit(self, session: Session) -> None:
        """Train one unit in a fixed order."""
        data = self.training.data
        session.train(data, np.random.default_rng(0).permutation(data.rows), ends_epoch=True)

    def test_own_models_are_recognised_and_no_others(self) -> None:
        assert framework_of(self.session().model) is self.framework
        assert not self.framework.recognises(object())
        assert not self.framework.recognises(None)

    def test_devices_that_are_not_there_are_refused(self) -> None:
        for device in ("cuda:99", "no such device"):
            try:
                self.framework.device(device)
            except DeviceError:
                continue
            raise AssertionError(f"{device} was taken")
        for device in ("auto", "cpu"):
            resolved = self.framework.device(device)
            assert self.framework.device(resolved) == resolved

    def test_one_seed_gives_one_model_and_one_training(self) -> None:
        first, other, another = self.session(), self.session(), self.session(4)
        assert first.checkpoint() == other.checkpoint() != another.checkpoint()
        self.unit(first)
        self.unit(other)
        assert first.checkpoint() == other.checkpoint()

    def test_restored_training_continues_bit_for_bit(self) -> None:
        stays, hops = self.session(), self.session(5)
        self.unit(stays)
        state = stays.checkpoint()
        self.unit(stays)
        hops.restore(state)
        assert hops.checkpoint() == state
        random.random()  # noqa: S311 - whatever another configuration draws in between
        self.unit(hops)
        assert hops.checkpoint() == stays.checkpoint() != state

    def test_units_in_turn_are_units_one_after_the_other_bit_for_bit(self) -> None:
        data, order = self.training.data, np.random.default_rng(0).permutation(self.training.data.rows)
        size = len(order) // 3

        def run_seeded(session: Session, part: Callable[[], Any]) -> Any:
            apply_random(session.random)
            result = part()
            session.random = take_random()
            return result

        sessions = [self.session(seed) for seed in (3, 5)]
        for session in sessions:
            run_seeded(session, session.begin)
        for start in range(0, len(order), size):
            picked = order[start : start + size]
            inputs, labels = (tuple(array[picked] for array in arrays) for arrays in (data.inputs, data.labels))
            weights = batch_weights(data, picked, len(picked))
            for session in sessions:
                run_seeded(session, partial(session.step, inputs, labels, weights))
        for session, seed in zip(sessions, (3, 5), strict=True):
            alone = self.session(seed)
            expected = train_in_steps(alone, data, order, size, ends_epoch=True)
            assert_same_bits(
                run_seeded(session, partial(session.end, ends_epoch=True))["loss"], expected["loss"], "loss"
            )
            assert session.checkpoint() == alone.checkpoint()

    def test_drop_last_leaves_out_a_short_last_batch_bit_for_bit(self) -> None:
        def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
            made = self.training.trainer_fn({key: value for key, value in params.items() if key != "drop_last"})
            return replace(made, batch_size=size, drop_last=params["drop_last"])

        rows = self.training.data.rows
        size = next(size for size in (3, 4, 5, 7) if rows % size)
        for order in (np.arange(rows), np.arange(rows - rows % size)):
            dropping, plain = (
                open_session(trainer_fn, {"drop_last": drop_last}, 3, device=self.device) for drop_last in (True, False)
            )
            dropping.train(self.training.data, order, ends_epoch=True)
            plain.train(self.training.data, np.arange(rows - rows % size), ends_epoch=True)
            assert dropping.checkpoint() == plain.checkpoint(), len(order)

    def test_a_clone_has_the_weights_of_its_source_and_random_numbers_of_its_own(self) -> None:
        source, clone, twin, other = self.session(), self.session(5), self.session(5), self.session(6)
        self.unit(source)
        state = source.checkpoint()
        for session in (clone, twin, other):
            session.adopt(state)
        assert source.checkpoint() == state
        self.assert_predicts_as(clone, source)
        assert clone.checkpoint() == twin.checkpoint() != other.checkpoint(), "random numbers of its own seed"
        for session in (clone, twin):
            self.unit(session)
        assert clone.checkpoint() == twin.checkpoint() != state

    def test_a_clone_with_a_rate_of_zero_does_not_move(self) -> None:
        source, still = self.session(), self.session(5, lr=0.0)
        self.unit(source)
        still.adopt(source.checkpoint())
        before = self.training.weights(still.model)
        self.unit(still)
        for name, value in self.training.weights(still.model).items():
            assert_same_bits(value, before[name], name)

    def test_a_warm_start_has_the_weights_of_its_source_and_a_new_optimizer(self) -> None:
        source, clone, warm = self.session(), self.session(5), self.session(5)
        new = _entries(warm)
        self.unit(source)
        state = source.checkpoint()
        clone.adopt(state)
        warm.adopt(state, optimizer=False)
        self.assert_predicts_as(warm, source)
        inherited = [
            {name for name, entry in _entries(session).items() if entry != new[name]} for session in (warm, clone)
        ]
        assert inherited[0] < inherited[1], "the optimizer's slots were taken too"
        self.unit(clone)
        self.unit(warm)
        assert warm.checkpoint() != clone.checkpoint()

    def test_a_child_has_the_part_of_the_weights_that_fits(self) -> None:
        source, same, child = self.session(), self.session(5), self.session(5, hidden=5)
        self.unit(source)
        state = source.checkpoint()
        parents = self.training.weights(source.model).values()
        initial = self.training.weights(child.model).values()
        same.inherit(state)
        self.assert_predicts_as(same, source)
        assert "in part" not in same.inherited
        child.inherit(state)
        assert "in part" in child.inherited
        for parent, old, new in zip(parents, initial, self.training.weights(child.model).values(), strict=True):
            for place in np.ndindex(*new.shape):
                both = all(index < size for index, size in zip(place, parent.shape, strict=True))
                assert new[place] == (parent if both else old)[place]
        self.unit(child)
        assert source.checkpoint() == state

    def test_a_clone_of_other_shapes_is_refused(self) -> None:
        source, session = self.session(), self.session(5, hidden=5)
        self.unit(source)
        before = session.checkpoint()
        for optimizer in (True, False):
            try:
                session.adopt(source.checkpoint(), optimizer=optimizer)
            except StateError:
                continue
            raise AssertionError("another model's state was taken")
        assert session.checkpoint() == before

    def test_damaged_checkpoints_are_refused(self) -> None:
        session = self.session()
        before = session.checkpoint()
        for take in (session.restore, session.adopt):
            for damaged in (b"", b"no checkpoint at all", before[: len(before) // 2]):
                try:
                    take(damaged)
                except StateError:
                    continue
                raise AssertionError(f"{len(damaged)} bytes were taken")
        assert session.checkpoint() == before

    def assert_predicts_as(self, session: Session, other: Session) -> None:
        """Compare the predictions of two sessions bit for bit."""
        inputs = self.training.data.inputs
        for place, pair in enumerate(zip(session.predict(inputs), other.predict(inputs), strict=True)):
            assert_same_bits(*pair, f"output {place}")

    def test_evaluation_learns_nothing_and_training_does(self) -> None:
        session, data = self.session(), self.training.data
        before = session.checkpoint()
        first = session.sums.results(session.evaluate(data))
        assert session.checkpoint() == before
        for _ in range(5):
            self.unit(session)
        assert session.sums.results(session.evaluate(data))["loss"] < first["loss"]

    def weighted(self, weights: Sequence[float]) -> Tensors:
        """Return weights for the first rows, equal to 1."""
        return self.repeated([1] * len(weights), np.array(weights, np.float32))

    def repeated(self, times: Sequence[int], weights: NDArray[np.float32] | None = None) -> Tensors:
        """Repeat each of the first rows a number of times."""
        places, data = np.repeat(np.arange(len(times)), times), self.training.data
        inputs, labels = (tuple(array[places] for array in arrays) for arrays in (data.inputs, data.labels))
        return replace(data, inputs=inputs, labels=labels, rows=len(places), weights=weights)

    def trained_on(self, data: Tensors) -> tuple[Session, dict[str, float]]:
        """Train a new session on all rows, in their order; give it and the metrics of training and evaluation."""
        session = self.session()
        trained = session.sums.results(session.train(data, np.arange(data.rows), ends_epoch=True))
        evaluated = session.sums.results(session.evaluate(data))
        return session, trained | {f"val_{name}": value for name, value in evaluated.items()}

    def test_equal_weights_are_no_weights_bit_for_bit(self) -> None:
        if not self.framework.sample_weights:
            return
        data = self.training.data
        plain, measures = self.trained_on(data)
        for weight in (1.0, 0.3, 1e30):
            equal, actual = self.trained_on(replace(data, weights=np.full(data.rows, weight, np.float32)))
            assert equal.checkpoint() == plain.checkpoint(), weight
            for name, value in measures.items():
                assert abs(actual[name] - value) <= 1e-12 * abs(value), (weight, name)

    def test_doubled_weights_change_nothing(self) -> None:
        if not self.framework.sample_weights:
            return
        data = self.training.data
        weights = np.random.default_rng(1).uniform(0.1, 3, data.rows).astype(np.float32)
        once, measures = self.trained_on(replace(data, weights=weights))
        twice, actual = self.trained_on(replace(data, weights=2 * weights))
        assert (once.checkpoint(), measures) == (twice.checkpoint(), actual)
        assert self.trained_on(data)[0].checkpoint() != once.checkpoint()

    def test_a_row_of_weight_three_is_evaluated_as_three_rows(self) -> None:
        if not self.framework.sample_weights:
            return
        session = self.session()
        weighted, repeated, plain = (
            session.sums.results(session.evaluate(data))
            for data in (self.weighted([3, 1, 2]), self.repeated([3, 1, 2]), self.repeated([1, 1, 1]))
        )
        for name, value in repeated.items():
            np.testing.assert_allclose(weighted[name], value, rtol=1e-5, atol=1e-6)
        assert weighted["loss"] != plain["loss"]

    def test_rows_without_weight_are_refused_and_so_are_weights_where_there_are_none(self) -> None:
        if not self.framework.sample_weights:
            try:
                open_session(self.training.trainer_fn, {}, 3, weighted=True)
            except TrainerError:
                return
            raise AssertionError("a framework without weights took them")
        for weight in (0.0, -1.0, float("nan")):
            try:
                self.trained_on(self.weighted([1, weight, 2]))
            except TrainerError:
                continue
            raise AssertionError(f"a row of weight {weight} was taken")

    def test_frozen_block_leaves_the_model_as_it_was(self) -> None:
        frozen, free = self.session(), self.session()
        with self.framework.frozen(frozen.model):
            frozen.predict(frozen.read(self.training.data.inputs))  # type: ignore[arg-type] # a list will do
        self.unit(frozen)
        self.unit(free)
        assert frozen.checkpoint() == free.checkpoint()

    def test_export_opens_to_the_same_predictions(self) -> None:
        session, inputs = self.session(), self.training.data.inputs
        self.unit(session)
        network = PortableNetwork.of(session.model, session.read(inputs))
        assert network.file_name.endswith(self.framework.suffix)
        opened = PortableNetwork(self.framework.name, network.data).open()
        for rows in (1, len(inputs[0])):
            part = tuple(array[:rows] for array in inputs)
            for exported, predicted in zip(opened(session.read(part)), session.predict(part), strict=True):
                np.testing.assert_allclose(exported, predicted, rtol=1e-5, atol=1e-6)

    def test_measures_are_those_of_the_weights(self) -> None:
        session = self.session()
        assert session.weight_bytes >= 4 * self.framework.parameters(session.model) > 0
        assert self.framework.accelerator_bytes() >= 0

    def test_networks_are_built_from_a_seed_and_generators_put_back(self, sample: Sample) -> None:
        before = random.getstate()
        first, other = (self.framework.build(sample.build, sample.inputs, 7) for _ in range(2))
        assert random.getstate() == before
        assert self.framework.trace(first, sample.inputs).graph == self.framework.trace(other, sample.inputs).graph

    def test_named_layers_are_those_of_the_graph(self, sample: Sample) -> None:
        traced = self.trace(sample)
        paths = self.framework.paths(self.framework.skeleton(sample.build, sample.inputs), sample.inputs)
        for path in sample.modules:
            assert path in paths
            assert traced.layer(path) in traced.graph


def _entries(session: Session) -> dict[str, bytes]:
    """Return the parts of a checkpoint by name."""
    saved = unpack(session.checkpoint(), lambda array, _kind: array)
    arrays = partial(pack, as_array=lambda value: (value, "numpy") if isinstance(value, np.ndarray) else None)
    return {name: arrays({name: value}) for name, value in saved.items()}
