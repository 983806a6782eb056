"""Trainers of torch that are opened where their frozen layers end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # the name that torch users give it
from torch import nn

from optimizer.graph import materialisable
from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.roster._bert import BertEncoder
from udfs.roster._text_builtin import BertShape
from udfs.shards import Tensors
from udfs.testing import AdaptationContract, AdaptationSample
from udfs.training import TrainerError, TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, ROWS, CLASSES = 8, 24, 3


def frozen(module: Any) -> Any:
    return module.requires_grad_(False)


def chain() -> nn.Module:
    """A frozen block with batch norm and dropout; both once more above it."""
    trunk = nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7), nn.Dropout(0.5), nn.ReLU())
    return nn.Sequential(frozen(trunk), nn.Linear(7, 5), nn.BatchNorm1d(5), nn.Dropout(0.4), nn.Linear(5, CLASSES))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))), inplace=True)


class Residual(nn.Module):
    """Residual blocks, the last of which learns; dropout as a module and as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = frozen(nn.Conv2d(3, 4, 3, padding=1))
        self.blocks = nn.ModuleList(Block(4) for _ in range(3))
        frozen(self.blocks[0])
        frozen(self.blocks[1])
        self.drop, self.fc = nn.Dropout(0.3), nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(F.dropout(self.drop(x.mean((2, 3))), 0.2, self.training))


class Encoder(nn.Module):
    """BERT of the roster: the last block learns, and the combination of the others' outputs."""

    def __init__(self) -> None:
        super().__init__()
        shape = BertShape(vocabulary=50, hidden=8, blocks=3, heads=2, intermediate=16)
        self.encoder = frozen(BertEncoder(shape))
        self.encoder.get_submodule("encoder.layer.2").requires_grad_(True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, ids: Any, mask: Any) -> Any:
        last, *means = self.encoder(ids, mask)
        return self.head(torch.cat([last[:, 0], means[0]], 1)), means[1]


class Recurrent(nn.Module):
    """A frozen recurrent layer below two that learn, with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.below = frozen(nn.LSTM(6, 5, batch_first=True))
        self.above = nn.GRU(5, 5, num_layers=2, dropout=0.3, batch_first=True)
        self.fc = nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        x, _ = self.below(x)
        y, last = self.above(x)
        return self.fc(y[:, -1] + last[-1])


class Tied(nn.Module):
    """A weight that a layer below frozen ones shares with one above: it learns in both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = frozen(nn.Linear(6, 5)), nn.Linear(5, 5, bias=False)
        self.frozen, self.again = frozen(nn.Linear(5, 5)), nn.Linear(5, 5, bias=False)
        self.again.weight = self.middle.weight
        self.fc = nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.fc(self.again(self.frozen(self.middle(self.first(x)).tanh())))


class Composite(nn.Module):
    """Transformer blocks of torch itself, which are one layer each."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.above = (nn.TransformerEncoderLayer(6, 2, 8, batch_first=True) for _ in range(2))
        frozen(self.below)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.fc(self.above(self.below(x)).mean(1))


class Adapters(nn.Module):
    """What learns lies below frozen layers: gradients pass through these."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.adapter, self.norm = frozen(nn.Linear(6, 5)), nn.Linear(5, 5), frozen(nn.BatchNorm1d(5))
        self.second, self.fc = frozen(nn.Sequential(nn.Linear(5, 5), nn.Dropout())), nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.fc(self.second(self.norm(x + self.adapter(x))))


class Noise(nn.Module):
    """A forward of Python that takes another way in training."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.fc = frozen(nn.Linear(6, 5)), nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.trunk(x)
        if self.training:
            x = x + 0.1 * torch.randn_like(x)
        return self.fc(x)


class DroppedLayer(nn.Module):
    """Python's random numbers decide whether a layer runs."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.middle, self.fc = frozen(nn.Linear(6, 5)), nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.trunk(x)
        return self.fc(self.middle(x) if random.random() > 0.3 or not self.training else x)


class Mixed(nn.Module):
    """Frozen layers whose tensor of a record depends on the others in its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.fc = frozen(nn.Linear(6, 5)), nn.Linear(5, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.trunk(x)
        return self.fc(x - x.mean(0))


class Counting(nn.Module):
    """A buffer that the model's own code moves."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.fc = frozen(nn.Linear(6, 5)), nn.Linear(5, CLASSES)
        self.seen: Any
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen.add_(1)
        return self.fc(self.trunk(x)) * (1 + 0.01 * self.seen)


def trainer_fn(build: Callable[[], nn.Module], optimizer: Any = None) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        model = build()
        solver = (optimizer or torch.optim.Adam)(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(solver, 1, gamma=0.9)
        return ModelTrainer(
            model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=BATCH, scheduler=schedule
        )

    return make


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}


def rows(*inputs: np.ndarray) -> Tensors:
    return Tensors(inputs, (np.arange(len(inputs[0])) % CLASSES,), len(inputs[0]))


DRAW = np.random.default_rng(0)
VECTORS = rows(DRAW.normal(size=(ROWS, 6)).astype(np.float32))
IMAGES = rows(DRAW.normal(size=(ROWS, 3, 6, 6)).astype(np.float32))
PIXELS = rows(DRAW.integers(0, 256, (ROWS, 3, 6, 6)).astype(np.uint8))
SEQUENCES = rows(DRAW.normal(size=(ROWS, 5, 6)).astype(np.float32))
MASK = np.ones((ROWS, 7), np.int64)
MASK[::3, 4:] = 0
TEXTS = rows(DRAW.integers(1, 50, (ROWS, 7)), MASK)

VECTOR, SEQUENCE, TEXT = (TensorSpec((6,)),), (TensorSpec((5, 6)),), (TensorSpec((7,), "int64"),) * 2
IMAGE, PIXEL = (TensorSpec((3, 6, 6)),), (TensorSpec((3, 6, 6), "uint8"),)


class TestContract(AdaptationContract):
    samples = (
        AdaptationSample("chain", trainer_fn(chain), VECTOR, VECTORS, weights),
        AdaptationSample("residual", trainer_fn(Residual), IMAGE, IMAGES, weights),
        AdaptationSample("pixels", trainer_fn(Residual, torch.optim.SGD), PIXEL, PIXELS, weights),
        AdaptationSample("encoder", trainer_fn(Encoder), TEXT, TEXTS, weights),
        AdaptationSample("recurrent", trainer_fn(Recurrent), SEQUENCE, SEQUENCES, weights),
        AdaptationSample("tied", trainer_fn(Tied), VECTOR, VECTORS, weights),
        AdaptationSample("composite", trainer_fn(Composite), SEQUENCE, SEQUENCES, weights),
        AdaptationSample("adapters", trainer_fn(Adapters), VECTOR, VECTORS, weights),
        AdaptationSample("noise", trainer_fn(Noise), VECTOR, VECTORS, weights),
        AdaptationSample("nothing frozen", trainer_fn(lambda: nn.Linear(6, CLASSES)), VECTOR, VECTORS, weights),
        AdaptationSample("layers dropped", trainer_fn(DroppedLayer), VECTOR, VECTORS, weights, "random numbers"),
        AdaptationSample("records mixed", trainer_fn(Mixed), VECTOR, VECTORS, weights, "mixes the records"),
        AdaptationSample("a buffer of its own", trainer_fn(Counting), VECTOR, VECTORS, weights, "buffer"),
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
class TestContractOnAGpu(TestContract):
    device = "cuda"

    @pytest.fixture(autouse=True)
    def deterministic(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)

    def test_branches_in_turn_are_branches_one_after_the_other(self, sample: AdaptationSample) -> None:
        if sample.name == "recurrent":
            pytest.skip("cuDNN draws the dropout of recurrent layers from a state of its own, which cannot be set")
        super().test_branches_in_turn_are_branches_one_after_the_other(sample)


def test_feeds_are_the_last_layers_that_stay_the_same() -> None:
    adapted = open_adapted(trainer_fn(Residual), {}, 1, inputs=IMAGE, columns=["image"])
    assert adapted.feeds == ("blocks.1.relu_1",)
    graph = adapted.graph
    assert {layer.name for layer in graph if layer.random} == {"drop", "dropout"}
    assert {layer.name for layer in graph if not layer.frozen} == {
        *(f"blocks.2.{part}" for part in ("conv1", "norm1", "conv2", "norm2")),
        "fc",
    }
    assert graph["drop"].inner_bytes == 2 * graph["drop"].activation_bytes, "its mask"
    assert adapted.slots == 2


def test_outputs_that_the_loss_does_not_read_are_no_feeds() -> None:
    adapted = open_adapted(trainer_fn(Encoder), {}, 1, inputs=TEXT, columns=["ids", "mask"])
    assert len(adapted.graph.outputs) == 1
    assert not any(name.startswith("encoder.mean.1") for name in adapted.feeds)


def test_what_the_optimizer_does_not_hold_is_frozen() -> None:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES))
        solver = torch.optim.SGD(model[2].parameters(), 0.1, momentum=0.9)
        return ModelTrainer(model=model, optimizer=solver, loss=nn.CrossEntropyLoss(), batch_size=BATCH)

    adapted = open_adapted(make, {}, 1, inputs=VECTOR, columns=["x"])
    assert (adapted.feeds, adapted.slots) == (("1",), 1)


def test_one_trunk_has_one_expression_under_different_branches() -> None:
    def make(top: int) -> Callable[[dict[str, Any]], ModelTrainer]:
        def build() -> nn.Module:
            with torch.random.fork_rng():
                torch.manual_seed(3)
                trunk = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
            frozen(trunk)
            for layer in list(trunk)[4 - top :]:
                layer.requires_grad_(True)
            return nn.Sequential(trunk, nn.Linear(6, CLASSES))

        return trainer_fn(build)

    graphs = [open_adapted(make(top), {}, seed, inputs=VECTOR, columns=["x"]).graph for seed, top in enumerate((1, 2))]
    shared = [{graph.expression(name) for name in materialisable(graph)} for graph in graphs]
    assert shared[1] < shared[0]
    assert len(shared[1]) == 3


@pytest.mark.parametrize("whole", [False, True])
def test_frozen_batch_norm_and_dropout_stay_in_inference_mode(whole: bool) -> None:
    session = open_session(trainer_fn(chain), {}, 1)
    if whole:
        frozen(session.model)
        session.model[4].requires_grad_(True)
    session.train(VECTORS, np.arange(ROWS), ends_epoch=True)
    assert session.model[0][1].num_batches_tracked == 0
    assert session.model[2].num_batches_tracked == (0 if whole else ROWS // BATCH)
    assert not session.model[0][2].training
    assert session.model[3].training


def test_a_norm_without_weights_trains_between_layers_that_do() -> None:
    model = nn.Sequential(frozen(nn.Linear(6, 5)), nn.Linear(5, 5), nn.BatchNorm1d(5, affine=False), nn.Linear(5, 3))
    session = open_session(trainer_fn(lambda: model), {}, 1)
    session.train(VECTORS, np.arange(ROWS), ends_epoch=True)
    assert model[2].num_batches_tracked == ROWS // BATCH


def test_opening_draws_nothing_and_leaves_the_modes() -> None:
    adapted = open_adapted(trainer_fn(Noise), {}, 5, inputs=VECTOR, columns=["x"])
    session = open_session(trainer_fn(Noise), {}, 5)
    np.testing.assert_equal(adapted.session.random, session.random)


def test_what_cannot_be_adapted_is_refused() -> None:
    with pytest.raises(TrainerError, match="that of Linear has none"):
        open_adapted(trainer_fn(lambda: frozen(nn.Linear(6, 3))), {}, 1, inputs=VECTOR, columns=["x"])
    with pytest.raises(TrainerError, match="1 inputs and 2 columns"):
        open_adapted(trainer_fn(chain), {}, 1, inputs=VECTOR, columns=["x", "y"])


def test_functions_of_the_users_own_train_whole() -> None:
    def model_fn(_params: Any) -> tuple[Any, Any]:
        model = chain()
        return model, torch.optim.SGD(model.parameters(), 0.1)

    functions = TrainingFunctions(model_fn=model_fn, train_fn=lambda *_: {"loss": 0.0})
    adapted = open_adapted(lambda _: functions, {}, 1, inputs=VECTOR, columns=["x"])
    assert (adapted.feeds, adapted.graph.inputs) == (("input_1",), ("input_1",))
    assert "TrainingFunctions" in adapted.whole
    with pytest.raises(TrainerError, match="whole shards"):
        adapted.session.begin()


@pytest.mark.extended
def test_a_bert_of_transformers_is_opened() -> None:
    transformers = pytest.importorskip("transformers")

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
            self.bert = frozen(transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes)))
            self.bert.get_submodule("encoder.layer.2").requires_grad_(True)
            self.head = nn.Linear(16, CLASSES)

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.head(self.bert(ids, attention_mask=mask).last_hidden_state[:, 0])

    adapted = open_adapted(trainer_fn(Tagger), {}, 1, inputs=TEXT, columns=["ids", "mask"])
    assert adapted.feeds[-1] == "bert.encoder.layer.1.output.LayerNorm"
    sample = AdaptationSample("bert", trainer_fn(Tagger), TEXT, TEXTS, weights)
    contract = AdaptationContract()
    contract.test_it_is_opened_or_says_why_not(sample)
    contract.test_the_branch_trains_as_the_whole_model_bit_for_bit(sample)
    contract.test_a_checkpoint_has_what_learns_and_continues_bit_for_bit(sample)
