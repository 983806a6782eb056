"""The Keras handler: the contract on small networks, and what Keras's own ways of writing a network make hard."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tensorflow")

import keras
from keras import layers, ops

from optimizer.graph import Window
from udfs.handlers import DeviceError, ModelTrainer, TensorSpec, framework
from udfs.handlers.keras import FRAMEWORK
from udfs.handlers.keras._variable_names import variable_names
from udfs.shards import Tensors
from udfs.testing import FrameworkContract, Refusal, Sample, TrainingSample, assert_same_bits, records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.handlers import TracedModel

IMAGE = TensorSpec((8, 8, 3))


def built(make: Callable[[], Any], seed: int = 0) -> Any:
    """The model with seeded weights, and batch-norm statistics that do something."""
    model = make()
    random = np.random.default_rng(seed)
    for variable in model.weights:
        spread = random.uniform(0.5, 2, variable.shape) if "variance" in variable.path else None
        variable.assign(random.standard_normal(variable.shape) if spread is None else spread)
    return model


def tensor(variable: Any) -> np.ndarray:
    return variable.value.numpy()


def own(model: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the model itself says."""
    result = model(arrays[0] if len(arrays) == 1 else list(arrays), training=False)
    return [found.numpy() for found in keras.tree.flatten(result)]


def state(model: Any) -> object:
    inner = [model, *model._flatten_layers(include_self=False)]
    nodes = [(layer.name, layer.trainable, len(layer._inbound_nodes), len(layer._outbound_nodes)) for layer in inner]
    return [(variable.path, tensor(variable).tobytes(), variable.trainable) for variable in model.variables], nodes


def nudge(path: str) -> Callable[[Any], None]:
    def perturb(model: Any) -> None:
        (variable,) = [found for found in model.weights if found.path.endswith(path)]
        array = np.array(tensor(variable))
        array.reshape(-1)[-1] += 0.5
        variable.assign(array)

    return perturb


def sample(
    name: str, make: Callable[[], Any], inputs: Sequence[TensorSpec], variants: Any = (), **known: Any
) -> Sample:
    return Sample(
        name=name,
        build=lambda: built(make),
        inputs=tuple(inputs),
        call=own,
        state=state,
        variants=tuple((lambda variant=variant: built(variant)) for variant in variants),
        **known,
    )


def chain(pool: Any = None, activation: Any = "swish") -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, padding="same", name="conv"),
            layers.BatchNormalization(name="bn"),
            layers.Activation(activation, name="act"),
            pool or layers.AveragePooling2D(3, 2, padding="same", name="pool"),
            layers.Dropout(0.5, name="drop"),
            layers.Flatten(name="flat"),
            layers.Dense(10, name="fc"),
        ]
    )


def residual() -> Any:
    """With a nested model for the branch, functions and operators."""
    inside = keras.Input((6, 6, 4), name="inside")
    y = layers.Conv2D(4, 3, padding="same", use_bias=False, name="conv1")(layers.ReLU(name="relu1")(inside))
    y = layers.DepthwiseConv2D(3, padding="same", name="conv2")(layers.BatchNormalization(name="bn")(y))
    branch = keras.Model(inside, y, name="branch")
    x = keras.Input((8, 8, 3), name="image")
    stem = layers.Conv2D(4, 3, activation="relu", name="stem")(x)
    out = ops.relu(branch(stem) + stem)
    return keras.Model(x, layers.Dense(2, name="head")(ops.mean(out, axis=(1, 2))))


def dense(order: str = "aba") -> Any:
    x = keras.Input((8, 8, 3), name="image")
    a = layers.Conv2D(2, 1, name="a")(x)
    b = layers.SeparableConv2D(2, 3, padding="same", activation="relu", name="b")(
        layers.Concatenate(name="cat1")([x, a])
    )
    both = layers.Concatenate(name="cat2")([{"a": a, "b": b}[key] for key in order])
    return keras.Model(x, layers.Conv2D(2, 1, name="c")(both))


class Twins(keras.Model):
    """A class of its own, with a weight of its own."""

    def __init__(self, sign: int = 1) -> None:
        super().__init__()
        self.sign = sign
        self.left, self.right = layers.Dense(3, name="left"), layers.Dense(3, name="right")
        self.join = layers.Dense(4, name="join")
        self.scale = self.add_weight(shape=(6,), name="scale")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        x, y = inputs
        both = ops.concatenate([self.left(x), self.right(y)], axis=1) * self.scale * self.sign
        return self.join(both, training=training) - x


def twins(sign: int = 1) -> Any:
    model = Twins(sign)
    model([np.zeros((1, 4), np.float32), np.zeros((1, 2), np.float32)])
    return model


def branches() -> Any:
    x = keras.Input((4,), name="x")
    low, high = ops.split(layers.Dense(6, name="body")(x), 2, axis=1)
    return keras.Model(x, [layers.Dense(2, name="one")(low), ops.sigmoid(high), low])


def twice() -> Any:
    x = keras.Input((4,), name="x")
    fc, relu = layers.Dense(4, name="fc"), layers.ReLU(name="relu")
    return keras.Model(x, fc(relu(fc(x))))


# FLOPs: 2 x kernel x channels in x channels out x positions. Bytes: 4 a float.
_BN = 4 * 4 * 4
SAMPLES = (
    sample(
        "chain",
        chain,
        [IMAGE],
        [
            lambda: chain(layers.AveragePooling2D(3, 2, padding="valid", name="pool"), "swish"),
            lambda: chain(layers.MaxPooling2D(3, 2, padding="same", name="pool")),
            lambda: chain(activation="gelu"),
            lambda: chain(activation=lambda x: x * 2),
        ][1:],
        output_shapes=((10,),),
        flops=2 * 27 * 4 * 64 + 2 * 64 * 10,
        param_bytes=4 * (27 * 4 + 4) + _BN + 4 * 650,
        perturb=nudge("conv/kernel"),
        modules={"conv": (8, 8, 4), "pool": (4, 4, 4), "fc": (10,)},
    ),
    sample(
        "residual, nested",
        residual,
        [IMAGE],
        output_shapes=((2,),),
        flops=2 * 27 * 4 * 36 + 2 * 36 * 4 * 36 + 2 * 9 * 4 * 36 + 2 * 4 * 2,
        param_bytes=4 * (27 * 4 + 4) + 36 * 4 * 4 + _BN + 4 * (9 * 4 + 4) + 4 * 10,
        perturb=nudge("stem/kernel"),
        modules={"stem": (6, 6, 4), "branch": (6, 6, 4), "branch/bn": (6, 6, 4), "head": (2,)},
    ),
    sample(
        "dense",
        dense,
        [IMAGE],
        [lambda: dense("abb"), lambda: dense("baa"), lambda: dense("bab")],
        output_shapes=((8, 8, 2),),
        flops=2 * 64 * (3 * 2 + 5 * 9 + 5 * 2 + 6 * 2),
        param_bytes=4 * (3 * 2 + 2 + 5 * 9 + 5 * 2 + 2 + 6 * 2 + 2),
        perturb=nudge("a/bias"),
        modules={"a": (8, 8, 2), "c": (8, 8, 2)},
    ),
    sample(
        "two inputs, a class of its own",
        twins,
        [TensorSpec((4,)), TensorSpec((2,))],
        [lambda: twins(-1)],
        output_shapes=((4,),),
        flops=2 * (12 + 6 + 24),
        param_bytes=4 * (15 + 9 + 6 + 28),
        perturb=nudge("right/kernel"),
        modules={"right": (3,), "left": (3,)},
    ),
    sample(
        "several outputs",
        branches,
        [TensorSpec((4,))],
        output_shapes=((2,), (3,), (3,)),
        output_keys=("one", "sigmoid", "split.0"),
        flops=2 * (24 + 6),
        param_bytes=4 * (30 + 8),
        perturb=nudge("one/kernel"),
        modules={"one": (2,), "body": (6,)},
    ),
    sample(
        "called twice",
        twice,
        [TensorSpec((4,))],
        output_shapes=((4,),),
        flops=2 * 32,
        param_bytes=2 * 80,
        perturb=nudge("fc/kernel"),
        modules={"fc": (4,), "relu": (4,)},
    ),
)


class Own(keras.Model):
    """Whatever a function of the model and its input says."""

    def __init__(self, function: Callable[..., Any], shape: tuple[int, ...] = (4,)) -> None:
        super().__init__()
        self.function = function
        self.fc = layers.Dense(4, name="fc")
        self.fc.build((None, shape[-1]))
        self.built = True

    def call(self, x: Any) -> Any:
        return self.function(self, x)


def functional(function: Callable[[Any], Any], shape: tuple[int, ...] = (4,), **options: Any) -> Any:
    x = keras.Input(shape, **options)
    return keras.Model(x, function(x))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(params.get("hidden", 8)),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Dropout(0.2),
            layers.Dense(2, "softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(params.get("lr", 0.02))
    return ModelTrainer(model=model, optimizer=optimizer, loss="sparse_categorical_crossentropy", batch_size=16)


def weights(model: Any) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in model.trainable_variables}


def tensors(rows: int = 72) -> Tensors:
    inputs = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    return Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), rows)


@pytest.mark.contract
class TestContract(FrameworkContract):
    framework = FRAMEWORK
    samples = SAMPLES
    refusals = (
        Refusal("not a model", lambda: "resnet50", (IMAGE,), "got str"),
        Refusal("not built", lambda: keras.Sequential([layers.Dense(2)]), (TensorSpec((4,)),), "not built"),
        Refusal(
            "branch on a value",
            lambda: Own(lambda m, x: m.fc(x) if ops.max(x) > 0 else x),
            (TensorSpec((4,)),),
            "ways out",
        ),
        Refusal(
            "training",
            lambda: functional(lambda x: layers.Dropout(0.5)(x, training=True)),
            (TensorSpec((4,)),),
            "training",
        ),
        Refusal("batch fixed", lambda: functional(lambda x: x * 2, batch_size=2), (TensorSpec((4,)),), "batch size"),
        Refusal(
            "batch in a reshape",
            lambda: functional(lambda x: ops.reshape(x, (2, -1))),
            (TensorSpec((4,)),),
            "leading axis",
        ),
        Refusal("too many inputs", lambda: built(twice), (TensorSpec((4,)),) * 2, "argument"),
        Refusal(
            "nothing a record", lambda: functional(lambda x: ops.mean(x, axis=0)), (TensorSpec((4,)),), "leading axis"
        ),
        Refusal("wrong shape", lambda: built(chain), (TensorSpec((8, 8, 5)),), "another shape"),
        Refusal("wrong type", lambda: built(chain), (TensorSpec((8, 8, 3), "float64"),), "another shape or type"),
        Refusal("returns no tensor", lambda: Own(lambda *_: 3), (TensorSpec((4,)),), "not tensors"),
    )
    training = TrainingSample(trainer, tensors(), weights)


def check(model: Any, inputs: Sequence[TensorSpec], cuts: Sequence[str] | None = None) -> TracedModel:
    """Trace; the whole equals the model's own call, and each cut continued equals the whole, bit for bit."""
    arrays = [records(spec, seed=i) for i, spec in enumerate(inputs)]
    expected = own(model, arrays)
    traced = FRAMEWORK.trace(model, inputs)
    graph = traced.graph
    fed = dict(zip(graph.inputs, arrays, strict=True))
    whole = traced.run(fed, graph.outputs)
    for name, array in zip(graph.outputs, expected, strict=True):
        assert_same_bits(whole[name], array, name)
    for name in graph.names if cuts is None else cuts:
        cut = graph.cut([name])
        kept = traced.run(fed, cut.live) | {key: fed[key] for key in cut.above if key in fed}
        stored = {key: np.array(array, order="C") for key, array in kept.items()}
        for output, array in traced.run(stored, graph.outputs).items():
            assert_same_bits(array, whole[output], f"{output} after a cut at {name}")
    return traced


def fingerprints(model: Any, inputs: Sequence[TensorSpec]) -> list[str]:
    return [layer.fingerprint for layer in FRAMEWORK.trace(model, inputs).graph]


def scaled(factor: float) -> Callable[[Any], Any]:
    """Functions of one name and one code: only what they close over differs."""

    def act(x: Any) -> Any:
        return x * factor

    return act


def test_names_do_not_enter_the_fingerprints() -> None:
    def make() -> Any:
        x = keras.Input((4,))
        inside = keras.Sequential([keras.Input((4,)), layers.Dense(4, activation="relu"), layers.Dropout(0.1)])
        return keras.Model(x, ops.tanh(layers.Dense(3)(inside(x) + x)))

    first, second = built(make), built(make)
    assert first.layers[1].name != second.layers[1].name
    assert fingerprints(first, [TensorSpec((4,))]) == fingerprints(second, [TensorSpec((4,))])
    one, other = (FRAMEWORK.trace(model, [TensorSpec((4,))]).graph for model in (first, second))
    assert one.expression(one.outputs[0]) == other.expression(other.outputs[0])
    assert fingerprints(built(make, 1), [TensorSpec((4,))])[1:2] != fingerprints(first, [TensorSpec((4,))])[1:2]


def test_initialisers_regularisers_and_freezing_do_not_enter_the_fingerprints() -> None:
    def make(**options: Any) -> Any:
        return functional(layers.Dense(3, **options))

    plain = fingerprints(built(make), [TensorSpec((4,))])
    trained = built(lambda: make(kernel_initializer="zeros", kernel_regularizer="l2"))
    assert fingerprints(trained, [TensorSpec((4,))]) == plain
    trained.trainable = False
    assert fingerprints(trained, [TensorSpec((4,))]) == plain
    assert FRAMEWORK.trace(trained, [TensorSpec((4,))]).graph.layers[1].frozen
    assert fingerprints(built(lambda: make(activation="relu")), [TensorSpec((4,))]) != plain


@pytest.mark.parametrize(
    "pair",
    [
        (lambda x: x[:, :2], lambda x: x[:, 2:]),
        (lambda x: x * 2.0, lambda x: x * 3.0),
        (lambda x: x * np.float32([1, 2, 3, 4]), lambda x: x * np.float32([1, 2, 3, 5])),
        (lambda x: ops.softmax(x, axis=0), lambda x: ops.softmax(x, axis=1)),
        (layers.Lambda(lambda y: y + 1), layers.Lambda(lambda y: y + 2)),
        (layers.LeakyReLU(0.1), layers.LeakyReLU(0.2)),
        (lambda x: ops.split(x, 2, axis=1)[0], lambda x: ops.split(x, 2, axis=1)[1]),
        (lambda x: x - ops.relu(x), lambda x: ops.relu(x) - x),
        (layers.Rescaling(2.0), layers.Rescaling(2.0, offset=1.0)),
        (layers.Activation(scaled(2.0)), layers.Activation(scaled(3.0))),
    ],
)
def test_constants_functions_and_order_are_part_of_the_expression(pair: Any) -> None:
    def expression(function: Any) -> str:
        graph = FRAMEWORK.trace(functional(function), [TensorSpec((4,))]).graph
        return graph.expression(graph.outputs[0])

    one, other = pair
    assert expression(one) == expression(one) != expression(other)


def test_second_calls_never_take_the_name_of_another_layer() -> None:
    def build(x: Any) -> Any:
        first, second = layers.Dense(4, name="fc"), layers.Dense(4, name="fc_1")
        return second(first(first(x)))

    model = built(lambda: functional(build))
    traced = check(model, [TensorSpec((4,))])
    assert traced.graph.names == ("input_1", "fc", "fc_2", "fc_1")
    x = records(TensorSpec((4,)))
    expected = model.get_layer("fc")(model.get_layer("fc")(x)).numpy()
    assert_same_bits(traced.run({"input_1": x}, ["fc_2"])["fc_2"], expected, "the second call")


def test_what_is_fed_wins_over_another_value_of_the_same_call() -> None:
    traced = FRAMEWORK.trace(
        functional(lambda x: ops.concatenate(ops.split(x, 2, axis=1)[::-1], axis=1)), [TensorSpec((4,))]
    )
    x, given = records(TensorSpec((4,))), np.full((4, 2), 7, np.float32)
    found = traced.run({"input_1": x, "split.0": given}, traced.graph.outputs)[traced.graph.outputs[0]]
    assert_same_bits(found, np.concatenate([x[:, 2:], given], axis=1), "split.0 was fed")


def test_a_nested_model_called_twice_and_models_within_models() -> None:
    def build(x: Any) -> Any:
        deep = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="d"), layers.ReLU(name="r")], name="deep")
        y = keras.Input((4,))
        outer = keras.Model(y, [deep(y), layers.Dense(2, name="e")(deep(y))], name="outer")
        one, two = outer(x)
        return [outer(one)[1], two]

    traced = check(built(lambda: functional(build)), [TensorSpec((4,))])
    assert {"outer/deep/d", "outer/deep/d_1", "outer/deep/d_2", "outer/e", "outer/e_1"} <= set(traced.graph.names)
    assert traced.layer("outer/deep") == "outer/deep/r"


def test_layers_made_of_layers_are_opened_and_others_stay_whole() -> None:
    class Block(layers.Layer):
        def __init__(self, tensorflow: bool, **options: Any) -> None:
            super().__init__(**options)
            self.tensorflow = tensorflow
            self.a, self.b = layers.Dense(4, name="a"), layers.Dense(4, name="b")

        def call(self, x: Any) -> Any:
            import tensorflow as tf

            y = self.a(x)
            return x + self.b(tf.nn.relu(y) if self.tensorflow else ops.relu(y))

    def make(*, tensorflow: bool) -> Any:
        return functional(lambda x: layers.Dense(2, name="head")(Block(tensorflow, name="block")(x)))

    opened = check(built(lambda: make(tensorflow=False)), [TensorSpec((4,))])
    whole = check(built(lambda: make(tensorflow=True)), [TensorSpec((4,))])
    assert opened.graph.names == ("input_1", "block/a", "block/relu", "block/b", "block/add", "head")
    assert whole.graph.names == ("input_1", "block", "head")
    assert opened.graph.flops() == whole.graph.flops() == 2 * (16 + 16 + 8)
    assert opened.graph.param_bytes() == whole.graph.param_bytes()


def test_a_mask_crosses_the_cut_beside_its_tensor() -> None:
    def build(x: Any) -> Any:
        y = layers.Embedding(3, 4, mask_zero=True, name="table")(x)
        y = layers.LSTM(5, return_sequences=True, name="lstm")(y)
        return layers.GlobalAveragePooling1D(name="mean")(y)

    traced = check(built(lambda: functional(build, (6,), dtype="int32")), [TensorSpec((6,), "int32")])
    assert traced.graph.cut(["table", "not_equal"]).live == ("table", "not_equal")


def test_attention_and_recurrence_are_counted() -> None:
    def attend(x: Any) -> Any:
        y = layers.MultiHeadAttention(2, 4, name="attend")(x, x)
        return layers.LayerNormalization(name="norm")(x + y)

    graph = check(built(lambda: functional(attend, (5, 8))), [TensorSpec((5, 8))]).graph
    # Query, key, value and output projections; scores and their sum, for two heads.
    assert graph["attend"].flops == 4 * 2 * 5 * 8 * 8 + 2 * 2 * 2 * 5 * 5 * 4
    graph = check(built(lambda: functional(layers.GRU(4, name="gru"), (5, 3))), [TensorSpec((5, 3))]).graph
    assert graph["gru"].flops == 2 * 5 * (3 * 12 + 4 * 12)
    both = functional(layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="both"), (5, 3))
    assert FRAMEWORK.trace(both, [TensorSpec((5, 3))]).graph["both"].flops == 2 * 2 * 5 * (3 * 16 + 4 * 16)


def test_flops_of_other_convolutions_and_products() -> None:
    def flops(function: Any, shape: tuple[int, ...]) -> int:
        return FRAMEWORK.trace(functional(function, shape), [TensorSpec(shape)]).graph.flops()

    assert flops(layers.Conv1D(4, 3), (8, 2)) == 2 * 6 * 3 * 2 * 4
    assert flops(layers.Conv3D(4, 2), (3, 3, 3, 2)) == 2 * 8 * 8 * 2 * 4
    assert flops(layers.Conv2D(4, 3, groups=2), (5, 5, 2)) == 2 * 9 * 9 * 1 * 4
    assert flops(layers.Conv2DTranspose(4, 2, strides=2), (3, 3, 2)) == 2 * 9 * 4 * 2 * 4
    assert flops(lambda x: ops.einsum("bij,bkj->bik", x, x), (3, 4)) == 2 * 3 * 3 * 4
    assert flops(lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))), (3, 4)) == 2 * 3 * 3 * 4
    assert flops(lambda x: layers.Dot((1, 1))([x, x]), (4,)) == 2 * 4
    assert flops(lambda x: ops.relu(x) + x * x, (4,)) == 0


def test_windows() -> None:
    def build(x: Any) -> Any:
        x = layers.ZeroPadding2D(((0, 1), (2, 1)))(x)
        x = layers.Conv2D(2, (3, 2), strides=(2, 1), padding="same")(x)
        x = layers.MaxPooling2D(3, 2)(x)
        x = layers.DepthwiseConv2D(3, padding="same", dilation_rate=2)(x)
        x = layers.Cropping2D(1)(x)
        return layers.GlobalMaxPooling2D()(layers.UpSampling2D()(x))

    graph = FRAMEWORK.trace(functional(build, (15, 16, 3)), [TensorSpec((15, 16, 3))]).graph
    assert [layer.window for layer in graph][1:] == [
        Window((1, 1), (1, 1), (0, 2), (1, 1)),
        Window((3, 2), (2, 1), (0, 0), (1, 1)),
        Window((3, 3), (2, 2), (0, 0), (1, 1)),
        Window((3, 3), (1, 1), (2, 2), (2, 2)),
        Window((1, 1), (1, 1), (-1, -1), (1, 1)),
        None,
        None,
    ]


@pytest.mark.parametrize(("extent", "kernel", "stride"), [(8, 3, 2), (7, 3, 2), (9, 5, 3), (8, 1, 1), (8, 4, 1)])
def test_padding_before_is_tensorflows(extent: int, kernel: int, stride: int) -> None:
    """Of an input with a single 1, the outputs that see it are those whose window holds it."""
    model = functional(layers.Conv1D(1, kernel, stride, padding="same", kernel_initializer="ones"), (extent, 1))
    graph = FRAMEWORK.trace(model, [TensorSpec((extent, 1))]).graph
    window = graph[graph.outputs[0]].window
    first = -window.padding[0]
    for place in range(extent):
        x = np.zeros((1, extent, 1), np.float32)
        x[0, place] = 1
        seen = np.flatnonzero(own(model, [x])[0][0, :, 0])
        count = graph[graph.outputs[0]].output_shape[0]
        expected = [i for i in range(count) if first + i * stride <= place < first + i * stride + kernel]
        assert seen.tolist() == expected


def test_inputs_without_a_size_take_the_one_described() -> None:
    model = built(
        lambda: functional(lambda x: layers.GlobalAveragePooling2D()(layers.Conv2D(2, 3)(x)), (None, None, 3))
    )
    assert check(model, [IMAGE]).graph.flops() == 2 * 36 * 27 * 2
    assert check(model, [TensorSpec((6, 9, 3))]).graph.flops() == 2 * 28 * 27 * 2


def test_records_that_a_reshape_multiplies_are_no_layer() -> None:
    model = functional(lambda x: ops.reshape(ops.reshape(x, (-1, 2)) * 2, (-1, 4)))
    graph = check(model, [TensorSpec((4,))]).graph
    assert graph.names == ("input_1", "reshape_1")


def test_half_precision_policies_keep_their_types() -> None:
    model = built(
        lambda: functional(lambda x: layers.Dense(2)(layers.Dense(3, dtype="mixed_bfloat16", name="half")(x)))
    )
    x = records(TensorSpec((4,)))
    traced = FRAMEWORK.trace(model, [TensorSpec((4,))])
    assert traced.graph["half"].dtype == "bfloat16"
    half = traced.run({"input_1": x}, ["half"])
    whole = traced.run({"input_1": x}, traced.graph.outputs)
    for name, array in traced.run(half, traced.graph.outputs).items():
        assert_same_bits(array, whole[name], name)


def test_weights_are_the_models_own() -> None:
    model = built(chain)
    traced = FRAMEWORK.trace(model, [IMAGE])
    x = records(IMAGE)
    before = traced.run({"input_1": x}, ["fc"])["fc"]
    nudge("fc/bias")(model)
    after = traced.run({"input_1": x}, ["fc"])["fc"]
    np.testing.assert_allclose(after[:, -1] - before[:, -1], 0.5, atol=1e-5)
    assert_same_bits(after, own(model, [x])[0], "after a change")


def test_a_part_is_compiled_once_for_all_sizes_of_batches() -> None:
    traced = FRAMEWORK.trace(built(chain), [IMAGE])
    for batch in (4, 1, 7):
        traced.run({"input_1": records(IMAGE, batch)}, ["pool"])
    assert len(traced._parts) == 1
    (part,) = traced._parts.values()
    assert part.experimental_get_tracing_count() == 1


def test_tensorflows_own_settings_are_put_back() -> None:
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    before = tf.config.optimizer.get_experimental_options()
    FRAMEWORK.trace(built(chain), [IMAGE]).prepare(1).run({"input_1": records(IMAGE)}, ["fc"])
    assert tf.config.optimizer.get_experimental_options() == before


def test_names_of_weights_do_not_depend_on_earlier_models() -> None:
    def names() -> list[str]:
        recurrent = layers.Bidirectional(layers.GRU(2))
        model = keras.Sequential([keras.Input((3, 2)), recurrent, layers.Dense(2), layers.Dense(2, name="scores")])
        return variable_names(model, model.variables)

    first = names()
    assert names() == first
    assert "sequential#0/bidirectional#0/backward_gru#0/gru_cell#0/bias" in first
    assert first[-1] == "sequential#0/scores/bias"


def test_devices_are_looked_up() -> None:
    for device in ("auto", "cpu"):
        FRAMEWORK.trace(built(twice), [TensorSpec((4,))], device=device).run({"x": records(TensorSpec((4,)))}, ["fc"])
    with pytest.raises(DeviceError, match="got 'cuda:7': use 'cpu' or 'auto'"):
        FRAMEWORK.trace(built(twice), [TensorSpec((4,))], device="cuda:7")


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("TF_", "KERAS_", "OMP_"))}
    return subprocess.run(
        [sys.executable, "-c", code], env={**plain, **environment}, capture_output=True, text=True, check=False
    )


def test_nothing_is_said_on_import_and_spark_gives_the_threads() -> None:
    code = (
        "from udfs.handlers import framework; framework('keras')\n"
        "import keras, os, sys; keras.ops.ones(3) + 1\n"
        "print(os.environ['TF_NUM_INTRAOP_THREADS'], keras.backend.backend()); print('mine', file=sys.stderr)"
    )
    done = _python(code, OMP_NUM_THREADS="1")
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "1 tensorflow", "mine")


@pytest.mark.parametrize("code", ["import keras; ", ""])
def test_another_backend_is_an_error_that_names_the_way_out(code: str) -> None:
    done = _python(
        f"{code}from udfs.handlers import framework; framework('keras').trace(None, [])", KERAS_BACKEND="torch"
    )
    assert "KerasBackendError: Keras runs on its 'torch' backend" in done.stderr
    assert "KERAS_BACKEND=tensorflow" in done.stderr


def test_a_missing_framework_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("udfs.handlers.keras")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(ImportError, match=r'pip install "cerebro-spark\[tensorflow\]"'):
        framework("keras")


STEPS = st.lists(
    st.tuples(st.sampled_from(["conv", "swish", "add", "cat", "pool", "bn", "nest", "shared"]), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


@pytest.mark.extended
@settings(max_examples=20, deadline=None)
@given(STEPS, st.integers(0, 2**16))
def test_random_networks(steps: list[tuple[str, int]], seed: int) -> None:
    """Each step reads the last tensor and one picked among all earlier ones."""

    def make() -> Any:
        x = keras.Input((5, 5, 2))
        shared = layers.Conv2D(2, 3, padding="same", activation="relu")
        tensors = [x]
        for kind, pick in steps:
            y, other = tensors[-1], tensors[pick % len(tensors)]
            if kind == "nest":
                inner = keras.Input((5, 5, 2))
                made = keras.Model(inner, inner + layers.Conv2D(2, 1, activation="gelu")(inner))(y)
            else:
                made = {
                    "conv": lambda y=y: layers.Conv2D(2, 3, padding="same", activation="relu")(y),
                    "swish": lambda y=y: ops.swish(y),
                    "add": lambda y=y, other=other: y + other,
                    "cat": lambda y=y, other=other: layers.Conv2D(2, 1)(ops.concatenate([y, other], axis=-1)),
                    "pool": lambda y=y: layers.MaxPooling2D(3, 1, padding="same")(y),
                    "bn": lambda y=y: layers.BatchNormalization()(y),
                    "shared": lambda y=y: shared(y),
                }[kind]()
            tensors.append(made)
        return keras.Model(x, layers.Dense(3)(layers.Flatten()(tensors[-1])))

    names = np.random.default_rng(seed)
    model = built(make, seed)
    known = FRAMEWORK.trace(model, [TensorSpec((5, 5, 2))]).graph.names
    traced = check(model, [TensorSpec((5, 5, 2))], names.choice(known, 3).tolist())
    again = FRAMEWORK.trace(built(make, seed), [TensorSpec((5, 5, 2))])
    graph, other = traced.graph, again.graph
    assert graph.expression(graph.outputs[0]) == other.expression(other.outputs[0])
