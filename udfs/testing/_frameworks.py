"""The contract of a framework handler, as tests: a new framework is one handler that passes them.

A project of its own subclasses :class:`HandlerContract` in a test module, and pytest collects the rest::

    class TestMyHandler(HandlerContract):
        framework = FRAMEWORK
        samples = (Sample("chain", build_chain, (TensorSpec((3, 8, 8)),), ...), ...)
        refusals = (Refusal("branch on a value", build_branchy, (TensorSpec((4,)),), "branch"),)

The samples should be a chain, a residual and a dense block, a model of two inputs, one of several outputs, and one that
calls a module twice; small, since each is cut at each of its layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from optimizer.errors import CerebroError, GraphError, UnknownLayerError
from udfs.handlers import Framework, TensorSpec, TracedModel, UnknownOutputError, UntraceableModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["HandlerContract", "Refusal", "Sample", "assert_same_bits", "records"]

Arrays = dict[str, "NDArray[np.generic]"]

_BATCH = 4


@dataclass(frozen=True)
class Sample:
    """A model that the handler opens, and what is known of it.

    Parameters
    ----------
    name : str
        Name of the case.
    build : callable
        Returns the model in inference mode: a new object with the same weights each time.
    inputs : tuple of TensorSpec
        Inputs of the model.
    call : callable
        ``call(model, arrays)`` is the model's own answer: its outputs as a list of arrays, in the memory layout that
        the framework gives them.
    state : callable
        ``state(model)`` is a snapshot that compares equal as long as the model is not touched: values and memory layout
        of weights, training flag, in-place flags.
    output_shapes : tuple of tuple of int
        Shapes of the outputs of one record.
    flops, param_bytes : int
        Counts of the whole graph, by hand. FLOPs are those of convolutions and matrix products, a multiply-add being
        2; where several layers share parameters, their bytes count for each.
    perturb : callable, optional
        Changes a weight of a model in place.
    modules : mapping of str to tuple of int
        Paths of modules, and the shape of what each returns for one record. The first is the one that ``perturb``
        changes.
    variants : tuple of callable
        Functions like ``build``, with the same weights and another configuration: models of another meaning.
    output_keys : tuple of str or int
        Keys under which the model returns its outputs, in the order of ``output_shapes``; empty for a single tensor.
    """

    name: str
    build: Callable[[], Any]
    inputs: tuple[TensorSpec, ...]
    call: Callable[[Any, Sequence[NDArray[np.generic]]], Sequence[NDArray[np.generic]]]
    state: Callable[[Any], object]
    output_shapes: tuple[tuple[int, ...], ...]
    flops: int
    param_bytes: int
    perturb: Callable[[Any], None] | None = None
    modules: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    variants: tuple[Callable[[], Any], ...] = ()
    output_keys: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A model that the handler refuses, and what the message has to say (a part of it, in lower case)."""

    name: str
    build: Callable[[], Any]
    inputs: tuple[TensorSpec, ...]
    reason: str


class HandlerContract:
    """The contract of a handler. Subclass it with the three class attributes; a method is a test.

    ``device`` is the framework's name of what models run on: the CPU, unless a subclass has another. The bit-for-bit
    comparisons hold within one device.
    """

    device: ClassVar[str] = "cpu"
    framework: ClassVar[Framework]
    samples: ClassVar[Sequence[Sample]]
    refusals: ClassVar[Sequence[Refusal]]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each test for each sample or refusal (called by pytest)."""
        for argument, values in (("sample", self.samples), ("refusal", self.refusals)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, values, ids=[value.name for value in values])

    def trace(self, sample: Sample) -> TracedModel:
        """Trace a new model of the sample."""
        return self.framework.trace(sample.build(), sample.inputs, device=self.device)

    def test_framework_is_found_by_its_name(self) -> None:
        from udfs.handlers import framework  # the name belongs to the class above

        assert framework(self.framework.name) is self.framework

    def test_traced_model_follows_the_protocol(self, sample: Sample) -> None:
        traced = self.trace(sample)
        assert isinstance(traced, TracedModel)
        assert traced.prepare(1) is traced

    def test_graph_has_the_inputs_and_outputs_of_the_model(self, sample: Sample) -> None:
        graph = self.trace(sample).graph
        assert [TensorSpec(graph[name].output_shape, graph[name].dtype) for name in graph.inputs] == list(sample.inputs)
        assert [graph[name].output_shape for name in graph.outputs] == list(sample.output_shapes)

    def test_outputs_have_the_keys_of_the_model(self, sample: Sample) -> None:
        traced = self.trace(sample)
        assert list(traced.output_keys) == list(sample.output_keys)
        layers = [traced.output_layer(key) for key in traced.output_keys]
        assert layers == list(traced.graph.outputs if sample.output_keys else ())
        error = _raised(UnknownOutputError, lambda: traced.output_layer("no such output"))
        assert all(repr(key) in str(error) for key in sample.output_keys)

    def test_flops_and_parameters_are_those_counted_by_hand(self, sample: Sample) -> None:
        graph = self.trace(sample).graph
        assert (graph.flops(), graph.param_bytes()) == (sample.flops, sample.param_bytes)

    def test_each_layer_has_the_shape_and_type_that_a_run_gives(self, sample: Sample) -> None:
        traced = self.trace(sample)
        fed = _fed(traced, sample)
        for layer in traced.graph:
            outputs = traced.run(fed, [layer.name])[layer.name]
            assert outputs.shape == (_BATCH, *layer.output_shape), layer.name
            assert outputs.dtype == np.dtype(layer.dtype), layer.name

    def test_whole_is_the_models_own_call_bit_for_bit(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        expected = sample.call(sample.build(), list(fed.values()))
        for name, array in zip(traced.graph.outputs, expected, strict=True):
            assert_same_bits(traced.run(fed, [name])[name], array, name)

    def test_prepared_model_gives_the_same_within_rounding(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        whole = _whole(traced, fed)
        prepared = _whole(traced.prepare(1), fed)
        for name, array in whole.items():
            _assert_close(prepared[name], array, name)

    def test_records_do_not_see_each_other(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        whole = _whole(traced, fed)
        alone = _whole(traced, {name: array[1:2] for name, array in fed.items()})
        for name, array in whole.items():
            _assert_close(alone[name], array[1:2], name)

    def test_cut_anywhere_and_continued_is_the_whole_bit_for_bit(self, sample: Sample) -> None:
        for traced, fed in (_opened(self, sample), _opened(self, sample, prepared=True)):
            whole = _whole(traced, fed)
            for name in traced.graph.names:
                outputs = _whole(traced, _below(traced, fed, [name]))
                for output, array in whole.items():
                    assert_same_bits(outputs[output], array, f"{output} after a cut at {name}")

    def test_chain_of_single_layers_is_the_whole_bit_for_bit(self, sample: Sample) -> None:
        for traced, fed in (_opened(self, sample), _opened(self, sample, prepared=True)):
            whole = _whole(traced, fed)
            at_hand: Arrays = fed
            for i in range(len(traced.graph)):
                at_hand = _below(traced, at_hand, traced.graph.names[: i + 1])
            for output, array in whole.items():
                assert_same_bits(at_hand[output], array, output)

    def test_what_lies_below_a_cut_is_not_read(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        whole = _whole(traced, fed)
        for name in traced.graph.names:
            above = _below(traced, fed, [name])
            poison = {other: _poison(array) for other, array in fed.items() if other not in above}
            outputs = _whole(traced, {**poison, **above})
            for output, array in whole.items():
                assert_same_bits(outputs[output], array, f"{output} after a cut at {name}")

    def test_fed_tensor_wins_over_what_would_be_computed(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        for output in traced.graph.outputs:
            fed_output = np.full_like(traced.run(fed, [output])[output], 7)
            assert_same_bits(traced.run({**fed, output: fed_output}, [output])[output], fed_output, output)

    def test_feeds_are_left_as_they_are(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        for name in traced.graph.names:
            at_hand = {key: array.copy() for key, array in _below(traced, fed, [name]).items()}
            before = {key: array.tobytes() for key, array in at_hand.items()}
            _whole(traced, at_hand)
            assert {key: array.tobytes() for key, array in at_hand.items()} == before, name

    def test_missing_feed_and_unknown_names_are_refused(self, sample: Sample) -> None:
        traced, fed = _opened(self, sample)
        outputs = list(traced.graph.outputs)
        assert "cannot be computed" in str(_raised(GraphError, lambda: traced.run({}, outputs)))
        _raised(UnknownLayerError, lambda: traced.run(fed, ["no such layer"]))
        _raised(UnknownLayerError, lambda: traced.run({**fed, "no such layer": np.zeros(_BATCH)}, outputs))
        _raised(UnknownLayerError, lambda: traced.layer("no such layer"))

    def test_layer_resolves_layers_and_module_paths(self, sample: Sample) -> None:
        traced = self.trace(sample)
        assert [traced.layer(name) for name in traced.graph.names] == list(traced.graph.names)
        for path, shape in sample.modules.items():
            assert traced.graph[traced.layer(path)].output_shape == shape, path

    def test_equal_models_have_equal_fingerprints(self, sample: Sample) -> None:
        first, second = self.trace(sample), self.trace(sample).prepare(1)
        assert first.graph == second.graph

    def test_changed_weight_changes_the_layers_that_hold_it_and_no_other(self, sample: Sample) -> None:
        if sample.perturb is None:
            return
        model = sample.build()
        sample.perturb(model)
        before, traced = self.trace(sample), self.framework.trace(model, sample.inputs)
        changed = {layer.name for layer in traced.graph if layer.fingerprint != before.graph[layer.name].fingerprint}
        assert changed
        assert len({before.graph[name].param_bytes for name in changed}) == 1
        assert traced.layer(next(iter(sample.modules))) in changed
        assert _expressions(traced) != _expressions(before)

    def test_changed_configuration_changes_the_expression(self, sample: Sample) -> None:
        expression = _expressions(self.trace(sample))
        for i, build in enumerate(sample.variants):
            assert _expressions(self.framework.trace(build(), sample.inputs)) != expression, f"variant {i}"

    def test_users_model_is_left_untouched(self, sample: Sample) -> None:
        model = sample.build()
        before = sample.state(model)
        traced = self.framework.trace(model, sample.inputs)
        fed = _fed(traced, sample)
        _whole(traced, fed)
        _whole(traced.prepare(1), fed)
        assert sample.state(model) == before

    def test_refusal_names_the_reason(self, refusal: Refusal) -> None:
        error = _raised(UntraceableModelError, lambda: self.framework.trace(refusal.build(), refusal.inputs).graph)
        assert refusal.reason in str(error).lower(), error


def records(spec: TensorSpec, batch: int = _BATCH, seed: int = 0) -> NDArray[np.generic]:
    """Make seeded random records: small integers, or floats of a standard normal distribution."""
    random = np.random.default_rng(seed)
    shape = (batch, *spec.shape)
    floating = np.issubdtype(spec.dtype, np.floating)
    return (random.standard_normal(shape) if floating else random.integers(0, 2, shape)).astype(spec.dtype)


def assert_same_bits(actual: NDArray[np.generic], expected: NDArray[np.generic], what: str) -> None:
    """Compare two arrays by their bytes, whatever their memory layout."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), what
    if actual.tobytes() != expected.tobytes():
        worst = np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max()
        raise AssertionError(f"{what} must be equal bit for bit, got a difference of {worst:.3g}")


def _assert_close(actual: NDArray[np.generic], expected: NDArray[np.generic], what: str) -> None:
    assert np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1e-5), what


def _opened(contract: HandlerContract, sample: Sample, *, prepared: bool = False) -> tuple[TracedModel, Arrays]:
    traced = contract.trace(sample)
    return (traced.prepare(1) if prepared else traced), _fed(traced, sample)


def _fed(traced: TracedModel, sample: Sample) -> Arrays:
    inputs = zip(traced.graph.inputs, sample.inputs, strict=True)
    return {name: records(spec, seed=i) for i, (name, spec) in enumerate(inputs)}


def _whole(traced: TracedModel, fed: Arrays) -> Arrays:
    return traced.run(fed, traced.graph.outputs)


def _below(traced: TracedModel, fed: Arrays, at: Sequence[str]) -> Arrays:
    """Run what a cut keeps, as it comes back from a table: in C order and read-only."""
    cut = traced.graph.cut(at)
    kept = traced.run(fed, cut.live)
    # The cut leaves out an input that only the layers above it read.
    kept |= {name: fed[name] for name in cut.above if name in fed}
    stored = {name: np.array(array, order="C") for name, array in kept.items()}
    for array in stored.values():
        array.flags.writeable = False
    return stored


def _poison(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return np.full_like(array, np.nan if np.issubdtype(array.dtype, np.floating) else 99)


def _expressions(traced: TracedModel) -> list[str]:
    return [traced.graph.expression(name) for name in traced.graph.outputs]


def _raised(kind: type[CerebroError], call: Callable[[], object]) -> CerebroError:
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")
