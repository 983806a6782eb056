"""Optimizers of a stack against torch's, on random gradients and a grid of hyperparameters."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from udfs.stacking.torch._optimizers import RULES, Hyperparameters

STEPS, SCALARS = 4, 6

GRIDS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": rate, "momentum": momentum, "dampening": dampening, "weight_decay": decay, "nesterov": nesterov}
        for rate, momentum, dampening, decay, nesterov in product(
            (0.1, 0.3), (0, 0.9), (0, 0.5), (0, 0.2), (False, True)
        )
        if not nesterov or (momentum and not dampening)
    ],
    "Adam": [
        {"lr": rate, "betas": betas, "eps": eps, "weight_decay": decay, "maximize": maximize}
        for rate, betas, eps, decay, maximize in product(
            (0.1, 0.01), ((0.9, 0.999), (0.5, 0.7)), (1e-8, 0.1), (0, 0.2), (False, True)
        )
    ],
}
GRIDS["AdamW"] = GRIDS["Adam"]


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("name", GRIDS)
def test_rules_step_as_the_optimizers_of_torch(name: str, amsgrad: bool) -> None:
    grid = GRIDS[name]
    options = {"amsgrad": amsgrad} if name != "SGD" else {}
    draw = torch.Generator().manual_seed(1)
    weights = torch.randn((len(grid), SCALARS), generator=draw, dtype=torch.float64)
    parameters = [torch.nn.Parameter(row.clone()) for row in weights]
    kind = getattr(torch.optim, name)
    optimizers = [kind([each], **settings, **options) for each, settings in zip(parameters, grid, strict=True)]
    groups = [Hyperparameters(slice(0, SCALARS), [each.param_groups[0] for each in optimizers], weights)]
    rule = RULES[kind](groups, [0] * len(grid))
    slots = {name: torch.zeros_like(weights) for name in rule.slots if amsgrad or name != "max_exp_avg_sq"}
    for step in range(STEPS):
        gradients = torch.randn((len(grid), SCALARS), generator=draw, dtype=torch.float64)
        for optimizer, parameter, gradient in zip(optimizers, parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
        half = len(grid) // 2
        for rows in (slice(0, half), slice(half, len(grid))):
            rule.step(rows, weights[rows], gradients[rows], {name: values[rows] for name, values in slots.items()})
        torch.testing.assert_close(weights, torch.stack([each.detach() for each in parameters]), rtol=1e-12, atol=1e-12)
        if step == 1:
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] *= 0.5
            groups[0].refresh()
