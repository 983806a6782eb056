"""The contract of a framework that opens trainers for adaptation, as tests: the branch trains as the whole model does.

A project of its own subclasses :class:`AdaptationContract` in a test module, and pytest collects the rest::

    class TestAdaptation(AdaptationContract):
        samples = (AdaptationSample("frozen trunk", trainer_fn, (TensorSpec((4,)),), tensors, weights),)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from optimizer.errors import GraphError
from optimizer.graph import frontier, materialisable
from udfs.handlers import ModelTrainer, apply_random, open_adapted, open_session, take_random, train_in_steps
from udfs.packing import StateError, unpack
from udfs.testing._frameworks import assert_same_bits
from udfs.training import batch_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import Adapted, TensorSpec
    from udfs.shards import Tensors
    from udfs.training import Session

__all__ = ["AdaptationContract", "AdaptationSample"]

_EPOCHS = 2
_SEED = 7

# Bytes of a small model's buffers that move, and of its optimizer's counts.
_MOVED = 400


@dataclass(frozen=True)
class AdaptationSample:
    """A trainer with frozen layers.

    Parameters
    ----------
    name : str
        Name of the case.
    trainer_fn : callable
        Function of ``{}`` that returns a :class:`udfs.handlers.ModelTrainer` with a new model with random weights.
    inputs : tuple of TensorSpec
        Inputs of the model.
    data : Tensors
        Rows to train on: a number of whole batches, for a tensor of a trunk has the bits of its batch.
    weights : callable
        Function of a model that returns copies of all its weights and buffers, by name.
    whole : str
        A part of the reason why the model trains whole, in lower case; empty for one that is opened.
    """

    name: str
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    inputs: tuple[TensorSpec, ...]
    data: Tensors
    weights: Callable[[Any], Mapping[str, NDArray[Any]]]
    whole: str = ""


class AdaptationContract:
    """The contract of :meth:`udfs.handlers.Framework.open_adapted`. Subclass it; a method is a test.

    ``device`` is the framework's name of what models train on: the CPU, unless a subclass has another.
    """

    device: ClassVar[str] = "cpu"
    samples: ClassVar[Sequence[AdaptationSample]]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each test for each sample (called by pytest)."""
        if "sample" in metafunc.fixturenames:
            metafunc.parametrize("sample", self.samples, ids=[sample.name for sample in self.samples])

    def test_it_is_opened_or_says_why_not(self, sample: AdaptationSample) -> None:
        adapted = self.opened(sample)
        assert sample.whole in adapted.whole.lower(), adapted.whole
        assert bool(adapted.whole) == bool(sample.whole), adapted.whole
        graph = adapted.graph
        assert adapted.feeds == (graph.inputs if adapted.whole else frontier(graph))
        assert [graph[name].dtype for name in graph.inputs] == [spec.dtype for spec in sample.inputs]
        assert any(not layer.frozen for layer in graph)
        assert self.opened(sample).graph == graph
        other = self.opened(sample, columns=[f"other {place}" for place in range(len(sample.inputs))]).graph
        assert all(graph.expression(name) != other.expression(name) for name in graph.inputs)

    def test_the_branch_trains_as_the_whole_model_bit_for_bit(self, sample: AdaptationSample) -> None:
        whole, adapted = open_session(sample.trainer_fn, {}, _SEED, device=self.device), self.opened(sample)
        data, fed = sample.data, fed_by(adapted, sample)
        for epoch in range(_EPOCHS):
            order = ordered(adapted, sample, epoch)
            for session, rows in ((whole, data), (adapted.session, fed)):
                session.sums.results(session.evaluate(rows))
            expected, actual = (
                session.train(rows, order, ends_epoch=True) for session, rows in ((whole, data), (adapted.session, fed))
            )
            assert_same_bits(actual["loss"], expected["loss"], f"loss of epoch {epoch}")
            self.assert_alike(sample, adapted.model, whole.model)
        for session, rows in ((adapted.session, fed), (whole, data)):
            assert_same_random(session, whole)
            assert session.sums.results(session.evaluate(rows)).keys() >= {"loss"}
        assert_same_bits(adapted.session.evaluate(fed)["loss"], whole.evaluate(data)["loss"], "loss of the evaluation")
        predicted, wanted = adapted.session.predict(fed.inputs)[0], whole.predict(data.inputs)[0]
        if self.device == "cpu":
            assert_same_bits(predicted, wanted, "predictions")
        else:  # of another batch size than the trunk's: an accelerator may take another kernel
            np.testing.assert_allclose(predicted, wanted, rtol=1e-5, atol=1e-6)

    def test_rows_with_weights_train_as_in_the_whole_model(self, sample: AdaptationSample) -> None:
        weights = np.random.default_rng(1).uniform(0.1, 3, sample.data.rows).astype(np.float32)
        whole, adapted = open_session(sample.trainer_fn, {}, _SEED, device=self.device), self.opened(sample)
        order = ordered(adapted, sample, 0)
        expected = whole.train(replace(sample.data, weights=weights), order, ends_epoch=True)
        fed = replace(fed_by(adapted, sample), weights=weights)
        assert_same_bits(adapted.session.train(fed, order, ends_epoch=True)["loss"], expected["loss"], "loss")
        self.assert_alike(sample, adapted.model, whole.model)

    def test_what_is_frozen_stays_as_it_was(self, sample: AdaptationSample) -> None:
        adapted = self.opened(sample)
        constant = materialisable(adapted.graph)
        fed = fed_by(adapted, sample)
        first = batch(adapted, sample, 0)
        want = adapted.feeds if adapted.whole else constant
        before = adapted.trunk(first, want)
        adapted.session.train(fed, np.arange(fed.rows), ends_epoch=True)
        for name, array in adapted.trunk(first, want).items():
            assert_same_bits(array, before[name], name)

    def test_the_trunk_goes_on_from_any_of_its_layers(self, sample: AdaptationSample) -> None:
        adapted = self.opened(sample)
        if adapted.whole:
            return
        inputs = batch(adapted, sample, 0)
        constant = materialisable(adapted.graph.subgraph(adapted.feeds))
        known = adapted.trunk(inputs, constant)
        for name, array in known.items():
            assert array.shape[1:] == adapted.graph[name].output_shape, name
            assert array.dtype == adapted.graph[name].dtype, name
            assert array.flags.c_contiguous, name
        for name in constant:
            cut = adapted.graph.cut([name], adapted.feeds)
            have = {live: known[live] for live in cut.live} | {
                other: known[other] for other in adapted.graph.inputs if other in cut.above
            }
            for array in have.values():
                array.flags.writeable = False
            if have:
                for feed, again in adapted.trunk(have, adapted.feeds).items():
                    assert_same_bits(again, known[feed], f"{feed} from {name}")
        try:
            adapted.trunk({}, adapted.feeds)
        except GraphError:
            return
        raise AssertionError("a trunk without inputs was run")

    def test_a_checkpoint_has_what_learns_and_continues_bit_for_bit(self, sample: AdaptationSample) -> None:
        stays, hops = self.opened(sample), self.opened(sample)
        fed, order = fed_by(stays, sample), np.arange(sample.data.rows)
        stays.session.train(fed, order, ends_epoch=True)
        state = stays.session.checkpoint()
        if not stays.whole:
            learned = sum(layer.param_bytes for layer in stays.graph if not layer.frozen)
            kept = unpack(state, lambda array, _kind: array)
            kept.pop("random")
            assert sum(map(_bytes, kept.values())) <= 1.02 * (1 + stays.slots) * learned + _MOVED
        stays.session.train(fed, order, ends_epoch=True)
        hops.session.restore(state)
        assert hops.session.checkpoint() == state
        hops.session.train(fed, order, ends_epoch=True)
        assert hops.session.checkpoint() == stays.session.checkpoint() != state
        assert_same_weights(sample, hops.model, stays.model)

    def test_a_clone_has_the_weights_of_its_source(self, sample: AdaptationSample) -> None:
        source, clone = self.opened(sample), self.opened(sample)
        fed = fed_by(source, sample)
        source.session.train(fed, np.arange(fed.rows), ends_epoch=True)
        clone.session.adopt(source.session.checkpoint())
        assert_same_weights(sample, clone.model, source.model)

    def test_a_checkpoint_over_other_frozen_weights_is_refused(self, sample: AdaptationSample) -> None:
        adapted, other = self.opened(sample), self.opened(sample, seed=_SEED + 1)
        if adapted.whole or not any(layer.frozen and layer.param_bytes for layer in adapted.graph):
            return
        before = other.session.checkpoint()
        for take in (other.session.restore, other.session.adopt):
            try:
                take(adapted.session.checkpoint())
            except StateError as error:
                assert "frozen" in str(error)  # noqa: PT017 - pytest is a guest here
            else:
                raise AssertionError("a checkpoint over other frozen weights was taken")
        assert other.session.checkpoint() == before

    def test_branches_in_turn_are_branches_one_after_the_other(self, sample: AdaptationSample) -> None:
        seeds = (_SEED, _SEED + 1)
        several = [self.opened(sample, seed=seed) for seed in seeds]
        rows = [fed_by(adapted, sample) for adapted in several]
        size = batch_size(sample)
        for adapted in several:
            run_seeded(adapted.session, adapted.session.begin)
        for start in range(0, sample.data.rows, size):
            picked = slice(start, start + size)
            for adapted, fed in zip(several, rows, strict=True):
                inputs, labels = (tuple(array[picked] for array in arrays) for arrays in (fed.inputs, fed.labels))
                weights = batch_weights(fed, picked, len(labels[0]))
                run_seeded(adapted.session, partial(adapted.session.step, inputs, labels, weights))
        for adapted, fed, seed in zip(several, rows, seeds, strict=True):
            run_seeded(adapted.session, partial(adapted.session.end, ends_epoch=True))
            alone = self.opened(sample, seed=seed)
            train_in_steps(alone.session, fed, np.arange(fed.rows), size, ends_epoch=True)
            assert adapted.session.checkpoint() == alone.session.checkpoint()

    def assert_alike(self, sample: AdaptationSample, model: Any, other: Any) -> None:
        """Compare the weights of a branch and of the whole model: bit for bit on the CPU."""
        if self.device == "cpu":
            assert_same_weights(sample, model, other)
            return
        expected = sample.weights(other)
        for name, array in sample.weights(model).items():  # an accelerator may sum a gradient in another order
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)

    def opened(self, sample: AdaptationSample, *, seed: int = _SEED, columns: Sequence[str] = ()) -> Adapted:
        """Open a sample, by default over columns ``c0``, ``c1`` and so on."""
        names = columns or [f"c{place}" for place in range(len(sample.inputs))]
        return open_adapted(sample.trainer_fn, {}, seed, inputs=sample.inputs, columns=names, device=self.device)


def batch_size(sample: AdaptationSample) -> int:
    """Ask the sample's trainer for its batch size, and leave the generators as they are."""
    before = take_random()
    size = sample.trainer_fn({}).batch_size
    apply_random(before)
    return size


def batch(adapted: Adapted, sample: AdaptationSample, place: int) -> dict[str, NDArray[Any]]:
    """Take one batch of the rows, by input."""
    size = batch_size(sample)
    picked = slice(place * size, (place + 1) * size)
    return dict(zip(adapted.graph.inputs, (array[picked] for array in sample.data.inputs), strict=True))


def fed_by(adapted: Adapted, sample: AdaptationSample) -> Tensors:
    """Run the trunk over all rows, batch by batch."""
    size = batch_size(sample)
    parts = [adapted.trunk(batch(adapted, sample, place), adapted.feeds) for place in range(sample.data.rows // size)]
    inputs = tuple(np.concatenate([part[name] for part in parts]) for name in adapted.feeds)
    return replace(sample.data, inputs=inputs)


def ordered(adapted: Adapted, sample: AdaptationSample, epoch: int) -> NDArray[np.int64]:
    """Order the rows anew in each epoch, whole batches at a time: their tensors keep their bits."""
    del adapted
    size = batch_size(sample)
    places = np.random.default_rng(epoch).permutation(sample.data.rows // size)
    return (places[:, None] * size + np.arange(size)).reshape(-1)


def _bytes(kept: Any) -> int:
    """Count the bytes of the arrays in a checkpoint."""
    if isinstance(kept, np.ndarray):
        return kept.nbytes
    if isinstance(kept, dict):
        return sum(map(_bytes, kept.values()))
    return sum(map(_bytes, kept)) if isinstance(kept, (list, tuple)) else 0


def run_seeded(session: Session, part: Callable[[], Any]) -> Any:
    """Run a part of a unit with the session's own random numbers."""
    apply_random(session.random)
    result = part()
    session.random = take_random()
    return result


def assert_same_weights(sample: AdaptationSample, model: Any, other: Any) -> None:
    """Compare all weights and buffers of two models bit for bit."""
    actual, expected = sample.weights(model), sample.weights(other)
    assert actual.keys() == expected.keys()
    for name, array in actual.items():
        assert_same_bits(array, expected[name], name)


def assert_same_random(session: Session, other: Session) -> None:
    """Compare the random numbers of two sessions."""
    for name in session.random.keys() - {"python", "numpy"}:
        np.testing.assert_equal(session.random[name], other.random[name])
