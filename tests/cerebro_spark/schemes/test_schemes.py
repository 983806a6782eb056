"""Schemes for networks of torch: what learns, what is frozen, what candidates share, and that nothing else changes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from real_inputs import minilm, mobilenet_v2_weights
from torch import nn

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.schemes import (
    ImageHead,
    SequenceHead,
    TransformerHead,
    feature_transfer,
    fine_tune,
    houlsby,
    residual_adapters,
    token_loss,
)
from optimizer.errors import UnknownLayerError
from optimizer.graph import LayerGraph, materialisable, merge
from udfs.handlers import TensorSpec, UntraceableModelError, framework, open_session
from udfs.shards import Tensors
from vista_spark import roster

TOKENS, CLASSES, WIDTH = 12, 9, 384
TEXT = [TensorSpec((TOKENS,), "int64")] * 2
IMAGE = [TensorSpec((3, 64, 64))]


@cache
def encoder() -> nn.Module:
    """MiniLM with its real weights."""
    net: nn.Module = roster.load("minilm_l6", minilm())
    return net


@cache
def bert() -> nn.Module:
    """The same weights in ``transformers``."""
    return transformers.BertModel.from_pretrained(minilm()).eval()


def small_bert() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=500
    )
    return transformers.BertModel(config).eval()


def tweets(rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 400, (rows, TOKENS), generator=draw)
    mask = (torch.arange(TOKENS) < torch.tensor([[TOKENS], [5], [8]])).long()
    return ids * mask, mask


def graph(net: nn.Module, inputs: list[TensorSpec]) -> LayerGraph:
    return framework("torch").trace(net.eval(), inputs).graph


def learning(net: nn.Module) -> list[str]:
    return [name for name, weight in net.named_parameters() if weight.requires_grad]


def candidates() -> dict[str, nn.Module]:
    layers = ["encoder.layer.3", "encoder.layer.5"]
    heads = {combine: TransformerHead(WIDTH, CLASSES) for combine in ("last", "sum", "weighted_sum", "concat")}
    transferred = {
        combine: feature_transfer(encoder(), layers=layers, combine=combine, head=head)
        for combine, head in heads.items()
    }
    return transferred | {
        "tuned": fine_tune(encoder(), top=2, head=TransformerHead(WIDTH, CLASSES)),
        "adapted": houlsby(encoder(), top=2, bottleneck=16, head=TransformerHead(WIDTH, CLASSES)),
    }


def test_candidates_share_the_trunk_and_nothing_that_learns() -> None:
    graphs = {name: graph(net, TEXT) for name, net in candidates().items()}
    both = merge(graphs)
    shared = {name: set(both.users(both.names["last"][name])) for name in materialisable(graphs["last"])}
    assert shared["trunk.encoder.layer.3.output.LayerNorm"] == graphs.keys()
    # Adapters begin in block 4, and block 4 of the tuned one learns.
    assert shared["trunk.encoder.layer.4.output.LayerNorm"] == {"last", "sum", "weighted_sum", "concat"}
    assert len(both.graph) < 0.5 * sum(map(len, graphs.values()))
    for name, own in graphs.items():
        learned = [layer for layer in own if not layer.frozen]
        assert learned, name
        assert not any(layer.name.startswith("head") and layer.frozen and layer.param_bytes for layer in own)
    # The sum itself needs no gradient, and can be stored; weights that learn cannot.
    sums = [layer for layer in materialisable(graphs["sum"]) if layer.startswith("combine")]
    assert sums
    assert not [layer for layer in materialisable(graphs["weighted_sum"]) if layer.startswith("combine")]


def test_feature_transfer_computes_what_its_parts_do() -> None:
    ids, mask = tweets()
    x = encoder().embeddings(ids)
    bias = (1 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
    states = []
    for block in encoder().encoder.layer:
        x = block(x, bias)
        states.append(x)
    head = SequenceHead(WIDTH, 2).eval()
    for combine, expected in {
        "last": states[5],
        "sum": states[5] + states[3],
        "weighted_sum": (states[3] + states[5]) / 2,
    }.items():
        net = feature_transfer(encoder(), ["encoder.layer.5", "encoder.layer.3"], combine, head)
        with torch.no_grad():
            # With the mask, which the head asks for by name.
            assert torch.allclose(net(ids, mask), head(expected, mask), atol=1e-5), combine
    net = feature_transfer(encoder(), roster.card("minilm_l6").resolve(["layer4", "layer6"]), "concat", head)
    projection: Any = net.get_submodule("combine.projection")
    with torch.no_grad():
        expected = head(projection(torch.cat([states[3], states[5]], -1)), mask)
        assert torch.allclose(net(ids, mask), expected, atol=1e-5)
    assert projection.weight.shape == (WIDTH, 2 * WIDTH)


def test_what_lies_above_the_layers_is_left_out() -> None:
    net = feature_transfer(encoder(), "encoder.layer.1", head=SequenceHead(WIDTH, 2))
    blocks = {name.split(".")[3] for name, _ in net.named_parameters() if "encoder.layer" in name}
    assert blocks == {"0", "1"}
    assert learning(net) == ["head.classifier.weight", "head.classifier.bias"]


@pytest.mark.parametrize("make", ["ours", "transformers"])
def test_houlsby_begins_as_the_plain_model_and_its_adapters_learn(make: str) -> None:
    plain = encoder() if make == "ours" else bert()
    ids, mask = tweets()
    with torch.no_grad():
        expected = plain(ids, mask)[0]
        adapted = houlsby(plain, top=3, bottleneck=64)
        assert not torch.equal(adapted(ids, mask)[0], expected)
        assert float((adapted(ids, mask)[0] - expected)[mask.bool()].abs().max()) < 1e-2
    net = houlsby(plain, top=3, bottleneck=64, head=TransformerHead(WIDTH, CLASSES, dropout=0.0))
    net(ids, mask).square().mean().backward()
    adapters = {name: weight for name, weight in net.named_parameters() if ".adapter." in name}
    assert sum(weight.numel() for weight in adapters.values()) == 3 * 2 * (2 * WIDTH * 64 + WIDTH + 64)
    assert all(float(weight.grad.abs().max()) > 0 for weight in adapters.values())
    norms = [name for name in learning(net) if ".LayerNorm." in name]
    assert len(norms) == 3 * 2 * 2  # two a block, of weights and offsets
    assert all(f".layer.{block}." in name for name, block in zip(norms, np.repeat([3, 4, 5], 4), strict=True))
    assert set(learning(net)) == {*adapters, *norms, *(f"head.{name}" for name, _ in net.head.named_parameters())}
    assert all(weight.grad is None for weight in net.parameters() if not weight.requires_grad)


@pytest.mark.extended  # torch.export takes seconds, and opens four networks
def test_transformers_own_bert_shares_its_trunk() -> None:
    net = small_bert()
    made = {
        "features": feature_transfer(
            net, ["encoder.layer.0", "encoder.layer.1"], "concat", TransformerHead(48, CLASSES), inputs=TEXT
        ),
        "tuned": fine_tune(net, top=1, head=TransformerHead(48, CLASSES)),
        "adapted": houlsby(net, top=1, bottleneck=4, head=TransformerHead(48, CLASSES)),
    }
    ids, mask = tweets()
    assert {name: tuple(model(ids, mask).shape) for name, model in made.items()} == dict.fromkeys(
        made, (3, TOKENS, CLASSES)
    )
    both = merge({name: graph(model, TEXT) for name, model in made.items()})
    users = {both.users(layer.name) for layer in both.graph if layer.op == "layer_norm" and layer.frozen}
    assert tuple(made) in users  # some block is of all three
    with pytest.raises(UntraceableModelError, match="inputs="):
        feature_transfer(net, "encoder.layer.1", head=SequenceHead(48, 2))


def test_fine_tune_of_a_cnn() -> None:
    net = roster.load("mobilenet_v2", mobilenet_v2_weights())
    x = torch.randn(2, 3, 64, 64)
    head = nn.Linear(1280, 5)
    tuned = fine_tune(net, top=2, head=head)
    with torch.no_grad():
        features = net.features(x).mean((2, 3))
        assert torch.allclose(tuned(x), head(features), atol=1e-4)
    assert {name.split(".")[2] for name in learning(tuned) if name.startswith("trunk")} == {"17", "18"}
    shallow, deep = graph(tuned, IMAGE), graph(fine_tune(net, top=4, head=nn.Linear(1280, 5)), IMAGE)
    both = merge({"shallow": shallow, "deep": deep})
    assert both.users("trunk.features.14.conv.3") == ("shallow", "deep")
    assert both.users(both.names["shallow"]["trunk.features.16.conv.3"]) == ("shallow",)


def test_blocks_of_a_card_and_of_a_network_of_its_own() -> None:
    net = roster.load("resnet18")
    by_card = fine_tune(net, top=1, head=nn.Linear(512, 5), blocks=roster.card("resnet18").layers)
    assert learning(by_card) == learning(fine_tune(net, top=1, head=nn.Linear(512, 5)))
    assert {name.rpartition(".")[0] for name in learning(by_card)} == {
        *(f"trunk.layer4.1.{part}" for part in ("conv1", "bn1", "conv2", "bn2")),
        "head",
    }
    own = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    assert learning(fine_tune(own, top=1)) == ["3.weight", "3.bias", "4.weight", "4.bias"]
    # Without a head the network's own classifier learns, whatever is named.
    assert {name.partition(".")[0] for name in learning(fine_tune(net, top=1))} == {"layer4", "fc"}


def test_residual_adapters() -> None:
    net = roster.load("resnet18")
    x = torch.randn(2, 3, 64, 64)
    adapted = residual_adapters(net, top=2)
    with torch.no_grad():
        assert torch.equal(adapted(x), net(x))
    with_head = residual_adapters(net, top=2, head=nn.Linear(512, 5))
    with_head(x).square().mean().backward()
    adapters = {name: weight for name, weight in with_head.named_parameters() if ".adapter." in name}
    assert sum(weight.numel() for weight in adapters.values()) == 256 * 512 + 3 * 512**2
    assert all(float(weight.grad.abs().max()) > 0 for weight in adapters.values())
    norms = {name.split(".")[3] for name in learning(with_head) if name not in adapters and "trunk" in name}
    assert norms == {"bn1", "bn2", "downsample"}
    both = merge({"adapted": graph(with_head, IMAGE), "tuned": graph(fine_tune(net, 2, nn.Linear(512, 5)), IMAGE)})
    assert both.users("trunk.layer3.1.relu2") == ("adapted", "tuned")
    # A depthwise convolution has a depthwise adapter.
    lean = residual_adapters(roster.load("mobilenet_v2"), top=2)
    (depthwise,) = [weight for name, weight in lean.named_parameters() if ".adapter." in name]
    assert depthwise.shape == (960, 1, 1, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 3},
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 2},
        {"kernel_size": (1, 5), "padding": (1, 0)},
        {"kernel_size": 4, "padding": 1, "stride": 3},
        {"kernel_size": 5, "padding": "same"},
    ],
)
def test_a_residual_adapter_reads_the_centre_of_each_window(settings: dict[str, Any]) -> None:
    plain = nn.Conv2d(4, 6, **settings)
    adapted = residual_adapters(nn.Sequential(plain), top=1)
    adapter: Any = adapted.get_submodule("0.adapter")
    nn.init.normal_(adapter.weight)
    # The same as a convolution whose kernel has the adapter's weight added at its centre.
    with torch.no_grad():
        height, width = plain.kernel_size
        plain.weight[:, :, height // 2, width // 2] += adapter.weight[:, :, 0, 0]
        x = torch.randn(2, 4, 11, 13)
        both = plain(x)
        plain.weight[:, :, height // 2, width // 2] -= adapter.weight[:, :, 0, 0]
        assert torch.allclose(adapted(x), both, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda net: fine_tune(net, top=2, head=nn.Linear(512, 3)),
        lambda net: residual_adapters(net, top=2, head=nn.Linear(512, 3)),
    ],
)
def test_training_changes_what_learns_alone_and_never_the_network(make: Any) -> None:
    net = roster.load("resnet18")
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    draw = np.random.default_rng(0)
    data = Tensors((draw.random((8, 3, 32, 32), np.float32),), (draw.integers(0, 3, 8),), 8)

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        model = make(net)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        return ModelTrainer(
            model=model, optimizer=torch.optim.SGD(weights, params["lr"]), loss=nn.CrossEntropyLoss(), batch_size=4
        )

    session = open_session(trainer, {"lr": 0.5}, 0)
    model: Any = session.model
    at_first = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    session.train(data, np.arange(8), ends_epoch=True)
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, at_first[name])}
    assert moved == set(learning(model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_token_loss_is_the_mean_over_tags() -> None:
    scores, labels = torch.randn(2, 5, 4), torch.tensor([[1, -100, 2, -1, 3], [0, -100, -100, 1, -100]])
    tagged = labels >= 0
    expected = nn.functional.cross_entropy(scores[tagged], labels[tagged])
    assert torch.allclose(token_loss(scores, labels), expected)
    assert float(token_loss(scores, torch.full((2, 5), -100))) == 0


def test_heads_leave_padding_out() -> None:
    x = torch.randn(2, TOKENS, 48)
    mask = torch.ones(2, TOKENS, dtype=torch.long)
    mask[:, 7:] = 0
    other = torch.where(mask[:, :, None] > 0, x, torch.randn_like(x))
    for head in (TransformerHead(48, CLASSES).eval(), SequenceHead(48, CLASSES)):
        given = [head(features, mask).detach() for features in (x, other)]
        tagged = [scores[mask.bool()] if scores.dim() == 3 else scores for scores in given]
        assert torch.allclose(*tagged, atol=1e-6)
    assert not torch.allclose(TransformerHead(48, CLASSES)(x)[:, :7], TransformerHead(48, CLASSES)(other)[:, :7])
    with pytest.raises(ValueError, match="heads must be a divisor of width=50, got 12"):
        TransformerHead(50, CLASSES)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below, self.above, self.classifier = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.dropout(self.above(self.below(x)), 0.5, self.training)
        out: torch.Tensor = self.classifier(hidden)
        return out


def test_bad_input() -> None:
    net, head = encoder(), SequenceHead(WIDTH, 2)
    with pytest.raises(UnknownLayerError, match=r"no layer 'encoder.layer.6' in BertEncoder; did you mean"):
        feature_transfer(net, "encoder.layer.6", head=head)
    with pytest.raises(InvalidArgumentError, match=r"combine must be .*got 'sums'; did you mean 'sum'"):
        feature_transfer(net, "encoder.layer.5", "sums", head)
    with pytest.raises(InvalidArgumentError, match=r"layers has 'encoder.layer.5' twice"):
        feature_transfer(net, ["encoder.layer.5", "encoder.layer.5"], "sum", head)
    with pytest.raises(InvalidArgumentError, match=r"layers=\[\]: give names"):
        feature_transfer(net, [], "sum", head)
    with pytest.raises(InvalidArgumentError, match=r"head must be a torch.nn.Module .*got None"):
        feature_transfer(net, "encoder.layer.5")
    with pytest.raises(InvalidArgumentError, match=r"several widths .*layer3.1.relu2 has 256, layer4.1.relu2 has 512"):
        feature_transfer(roster.load("resnet18"), ["layer3.1", "layer4.1"], "sum", ImageHead(512, 2))
    with pytest.raises(InvalidArgumentError, match=r"give a torch.nn.Module or a keras.Model"):
        feature_transfer(lambda x: x, "a", head=head)
    with pytest.raises(InvalidArgumentError, match=r"top must be at most 6, the blocks of BertEncoder .*got 7"):
        fine_tune(net, top=7, head=head)
    with pytest.raises(InvalidArgumentError, match="top must be a whole number of at least 1, got 0"):
        houlsby(net, top=0)
    with pytest.raises(InvalidArgumentError, match="ResNet18 is no encoder of BERT's kind"):
        houlsby(roster.load("resnet18"), top=1)
    with pytest.raises(InvalidArgumentError, match="does something in training that its modules do not show"):
        fine_tune(Functional(), top=1, head=nn.Linear(4, 2))
    with pytest.raises(InvalidArgumentError, match="no convolution with a window larger than one pixel"):
        residual_adapters(nn.Sequential(nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)), top=1)
