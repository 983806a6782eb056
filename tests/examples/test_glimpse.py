"""``examples/glimpse.py``: requests of a day, budgets and links, experts, and a tiny run."""

from __future__ import annotations

import importlib
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from drawn_emoji import COLOURS, run_on_emoji
from PIL import Image
from places import EXAMPLES

pytest.importorskip("av")
pytest.importorskip("torch")

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

HOURS = 1.0
MEMORY = 14_000_000


@pytest.fixture(scope="module")
def glimpse() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("glimpse")


@pytest.fixture(scope="module")
def classifiers(glimpse: ModuleType) -> list[Any]:
    """Classifiers of points around a centre for each class, with more noise for smaller images."""
    draw, results = np.random.default_rng(0), []
    for name, classes in (("scene", 5), ("object", 12)):
        labels = np.repeat(np.arange(classes), 20)
        centres = 4 * draw.normal(size=(classes, 6))
        noise = draw.normal(size=(len(labels), 6))
        features = {
            size: (centres[labels] + spread * noise).astype(np.float32)
            for size, spread in zip(glimpse.SIZES, (3.5, 4.5), strict=True)
        }
        results.append(glimpse.Classifier(name, features, labels, np.arange(len(labels)) % 2 == 0))
    return results


def test_a_day_has_the_classes_of_its_places(glimpse: ModuleType, classifiers: list[Any]) -> None:
    requests = glimpse.draw_day(classifiers, HOURS, np.random.default_rng(1))
    times = [now for now, _, _ in requests]
    assert len(requests) == 360 + 450
    assert (np.diff(times) > 0).all()
    assert times[-1] < 3600
    home = Counter(int(classifiers[1].labels[picture]) for now, task, picture in requests if task == 1 and now < 360)
    evening = Counter(
        int(classifiers[1].labels[picture]) for now, task, picture in requests if task == 1 and now > 3240
    )
    assert sum(count for _, count in home.most_common(4)) >= 0.85 * home.total()
    assert {label for label, _ in home.most_common(4)} == {label for label, _ in evening.most_common(4)}


def test_days_keep_budgets_and_use_no_link_that_is_missing(glimpse: ModuleType, classifiers: list[Any]) -> None:
    from optimizer.approximate import Budget, CostCard

    draw, budget = np.random.default_rng(2), Budget(90.0, 64_000_000, 0.0002, 3600.0)
    requests = glimpse.draw_day(classifiers, HOURS, draw)
    catalogs = [each.variants(CostCard(), MEMORY, 3000) for each in classifiers]
    days = glimpse.compare(classifiers, requests, catalogs, budget, draw)
    for served in days.values():
        assert len(served) == len(requests)
        assert all(early.joules >= late.joules >= 0 for early, late in pairwise(served))
        hours = {int(each.now / 360) for each in served if "cloud" in each.ran}
        assert not hours & set(glimpse.NO_LINK)
    cloud, full, scheduled, experts = days.values()
    assert {each.ran for each in cloud} == {"224 px, cloud", "not served"}
    assert {each.ran for each in full} == {"224 px, device", "not served"}
    assert all(each.ran != "not served" for each in scheduled)
    assert sum(each.ran == "expert, device" for each in experts) > 0.2 * len(experts)
    right = [sum(each.right for each in served) for served in (full, cloud, scheduled)]
    assert right[2] > max(right[:2])
    assert sum(each.right for each in experts) > right[2]


def test_the_full_network_is_the_most_accurate(classifiers: list[Any]) -> None:
    for each in classifiers:
        truth = each.labels
        assert each.accuracy[224] == np.mean(each.answers[224] == truth)
        assert each.accuracy[224] > each.accuracy[64]


@pytest.mark.slow
def test_a_tiny_run(tmp_path: Path) -> None:
    data = tmp_path / "demo"
    (data / "images").mkdir(parents=True)
    rows = ["id,label,caption"]
    for number, colour in enumerate(list(COLOURS.values())[:4] * 6):
        Image.new("RGB", (40, 30), colour).save(data / "images" / f"{number}.png")
        rows.append(f"{number},{colour},")
    (data / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    output = run_on_emoji("glimpse.py", tmp_path, "--data", str(data), "--classes", "6", "--hours", "0.2")
    assert "162 requests, 18 J" in output
    assert "scheduled, with experts: accuracy" in output
