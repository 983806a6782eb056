"""Networks that torch does not pickle: parametrized ones, exported programs, and files of programs, Keras and ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from udfs.handlers import UntraceableModelError, framework
from udfs.images import Preprocessing
from vista_spark import CNNFeaturizer, roster
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 32
PIXELS = Preprocessing(crop=SIDE)
BATCH = torch.export.Dim("batch", min=1, max=64)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    ).eval()


def image(rows: int = 3, side: int = SIDE) -> torch.Tensor:
    return torch.randn((rows, 3, side, side), generator=torch.Generator().manual_seed(1))


def exported(net: nn.Module, rows: int = 2, *, is_dynamic: bool = True) -> torch.export.ExportedProgram:
    shapes = ({0: BATCH},) if is_dynamic else None
    return torch.export.export(net, (image(rows),), dynamic_shapes=shapes)


def outputs(card: roster.ModelCard, layer: str | None = None) -> np.ndarray:
    """Compute a layer of the network that the card's builder makes, as a worker does."""
    traced = framework(card.framework).trace(card.builder(), card.preprocessing.inputs)
    name = traced.graph.outputs[0] if layer is None else traced.layer(layer)
    (values,) = traced.run({traced.graph.inputs[0]: image().numpy()}, [name]).values()
    return values


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def parametrized(kind: str) -> nn.Sequential:
    net = network()
    if kind == "own":
        net.insert(3, Scaled())
        parametrize.register_parametrization(net[3], "scale", Doubled())
        parametrize.register_parametrization(net[0], "bias", Doubled())
    else:
        getattr(parametrizations, kind)(net[0])
        getattr(parametrizations, kind)(net[5])
    return net.eval()


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal", "own"])
def test_parametrized_networks_travel(kind: str) -> None:
    net = parametrized(kind)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    card = roster.of(net, preprocessing=PIXELS)
    with torch.no_grad():
        np.testing.assert_allclose(outputs(card), net(image()), atol=1e-5)
        np.testing.assert_allclose(outputs(card, "2"), net[:3](image()), atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert parametrize.is_parametrized(net[0])


def test_a_parametrized_network_that_was_trained_further_is_another_one() -> None:
    net = parametrized("weight_norm")
    first = roster.of(net, preprocessing=PIXELS)
    with torch.no_grad():
        net[0].parametrizations.weight.original0.mul_(2)
    assert roster.of(net, preprocessing=PIXELS).builder != first.builder


@pytest.mark.parametrize("form", ["program", "module", "module without guards", "file", "path"])
@pytest.mark.parametrize("is_dynamic", [True, False])
def test_exported_programs_are_networks(form: str, is_dynamic: bool, tmp_path: Path) -> None:
    net = network()
    program = exported(net, is_dynamic=is_dynamic)
    given: Any = program
    if form.startswith("module"):
        given = program.module(check_guards=form == "module")
    elif form in ("file", "path"):
        torch.export.save(program, tmp_path / "my net.pt2")
        given = str(tmp_path / "my net.pt2") if form == "file" else tmp_path / "my net.pt2"
    card = roster.of(given)
    assert card.preprocessing.crop == SIDE  # the size that it was exported for
    assert card.parameters == sum(parameter.numel() for parameter in net.parameters())
    assert [layer.name for layer in card.layers] == [layer.name for layer in roster.of(net, image_size=SIDE).layers]
    with torch.no_grad():
        np.testing.assert_allclose(outputs(card), net(image()), atol=1e-5)
        np.testing.assert_allclose(outputs(card, "2"), net[:3](image()), atol=1e-5)
    if form == "file":
        assert card.name == "my_net"
        assert CNNFeaturizer(model=given, layers=["2"]).getOutputCols() == ["my_net_2"]


def test_programs_with_other_weights_are_other_networks() -> None:
    net = network()
    first = roster.of(exported(net))
    assert roster.of(exported(net)).builder == first.builder
    with torch.no_grad():
        net[0].weight.mul_(2)
    assert roster.of(exported(net)).builder != first.builder


def test_a_program_for_one_batch_size_is_refused() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3, 8), nn.Linear(64, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.conv(x).reshape(2, 64))

    with pytest.raises(UntraceableModelError, match=r"exported program must run .* batch size 2.*Dim\('batch'\)"):
        roster.of(exported(Fixed().eval(), is_dynamic=False))


def test_a_program_of_another_size_is_refused_in_words() -> None:
    with pytest.raises((InvalidArgumentError, UntraceableModelError), match="32"):
        roster.of(exported(nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2)).eval()), image_size=64)


def test_rectangles_are_refused() -> None:
    program = torch.export.export(nn.Conv2d(3, 4, 3).eval(), (torch.zeros(2, 3, 8, 16),), dynamic_shapes=({0: BATCH},))
    with pytest.raises(InvalidArgumentError, match=r"one square image .* reads \(3, 8, 16\)"):
        roster.of(program)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.pt2", b"not a zip", r"got the file .*net\.pt2, which cannot be read"),
        ("net.pth", b"", "has weights or code without a graph.*weights="),
        ("net.safetensors", b"", "has weights or code without a graph"),
        ("net.tflite", b"", r"a \.pt2 file of torch\.export\.save, a \.keras file or an \.onnx file, got the file"),
        ("gone.pt2", None, "must be a file that exists, got the file .*The working directory is"),
    ],
)
def test_other_files_are_refused_as_files(
    name: str, content: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    if content is not None:
        (tmp_path / "nets" / name).write_bytes(content)
    for given in (f"nets/{name}", str(tmp_path / "nets" / name)):
        with pytest.raises(InvalidArgumentError, match=message):
            roster.of(given)


@pytest.mark.parametrize("path", ["nets/mine", "nets/deep/mine", "./mine", "../mine", "/mine", "~/mine", "here/file"])
def test_no_hub_is_asked_for_paths(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match=r"is not a folder here, .* but a .*A hub is not asked for paths"):
        roster.from_pretrained(path)


def test_keras_files_are_networks(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential(
        [keras.Input((SIDE, SIDE, 3)), keras.layers.Conv2D(4, 3, name="low"), keras.layers.Flatten(name="flat")]
    )
    model.save(tmp_path / "net.keras")
    card = roster.of(str(tmp_path / "net.keras"))
    assert (card.framework, card.name, card.preprocessing.crop) == ("keras", "net", SIDE)
    pixels = np.random.default_rng(0).normal(size=(2, SIDE, SIDE, 3)).astype("float32")
    np.testing.assert_allclose(card.builder()(pixels), model(pixels), atol=1e-6)


def test_onnx_files_are_networks(tmp_path: Path) -> None:
    """Written by hand: torch's own exporter needs another package."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnx2torch", exc_type=Exception, reason='pip install "cerebro-spark[onnx]"')
    net = network()
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    make = onnx.helper
    nodes = [
        make.make_node("Conv", ["image", "0.weight", "0.bias"], ["conv"], kernel_shape=[3, 3]),
        make.make_node(
            "BatchNormalization",
            ["conv", *(f"1.{n}" for n in ("weight", "bias", "running_mean", "running_var"))],
            ["norm"],
        ),
        make.make_node("Relu", ["norm"], ["relu"]),
        make.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        make.make_node("Flatten", ["pool"], ["flat"]),
        make.make_node("Gemm", ["flat", "5.weight", "5.bias"], ["logits"], transB=1),
    ]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in state.items() if value.dtype == np.float32]
    value = make.make_tensor_value_info
    graph = make.make_graph(
        nodes,
        "net",
        [value("image", onnx.TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [value("logits", onnx.TensorProto.FLOAT, ["n", 5])],
        tensors,
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)]), tmp_path / "net.onnx")
    card = roster.of(tmp_path / "net.onnx")
    assert card.preprocessing.crop == SIDE
    with torch.no_grad():
        np.testing.assert_allclose(outputs(card), net(image()), atol=1e-5)
    assert len(card.layers) > 1
