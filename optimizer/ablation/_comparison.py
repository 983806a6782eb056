"""Comparison of the variants of an ablation with the full model, by paired differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.ablation._intervals import Interval, holm, paired_interval
from optimizer.ablation._variants import FULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optimizer.ablation._variants import Variant

__all__ = ["BETTER", "FAILED", "NOT_DISTINGUISHABLE", "WORSE", "Comparison", "Effect", "compare"]

WORSE = "worse without"
BETTER = "better without"
NOT_DISTINGUISHABLE = "not distinguishable"
FAILED = "failed"
CONTROL = "control"

# Pairs that an interval needs.
_LEAST = 2


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of the removal of a part on the metric.

    Parameters
    ----------
    variant : Variant
        Variant without the part.
    pairs : int
        Number of repeats in which both the variant and the full model have a score.
    score : float
        Mean score of the variant over these repeats; NaN without one.
    interval : Interval
        Loss of quality by the removal: positive if the model is worse without the part. The level is that of Holm's
        correction; without two pairs all values are NaN.
    p_value : float
        P-value of an effect of zero, corrected by Holm's method; for a control, not corrected.
    verdict : str
        ``"worse without"``, ``"better without"``, ``"not distinguishable"``, ``"failed"`` or ``"control"``.
    rank : int
        Rank of the parts without which the model is worse, from 1. Parts with overlapping intervals share a rank. 0
        without a rank.
    beyond_control : Interval, optional
        Difference between the effects of the part and of its random control, corrected by Holm's method.
    is_identical : bool
        True if all scores equal those of the full model, as where the removal changes nothing.
    """

    variant: Variant
    pairs: int
    score: float
    interval: Interval
    p_value: float
    verdict: str
    rank: int = 0
    beyond_control: Interval | None = None
    is_identical: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Effects of all removals.

    Parameters
    ----------
    full : float
        Mean score of the full model.
    effects : tuple of Effect
        Ranked parts first, then the others in the order of the variants, controls last.
    confidence : float
        Probability with which no interval of a part without an effect excludes zero.
    repeats : int
        Number of repeats.
    """

    full: float
    effects: tuple[Effect, ...]
    confidence: float
    repeats: int

    def explain(self, metric: str) -> list[str]:
        """Describe the effects in lines of text; ``metric`` is the name of the scores."""
        return [
            f"{metric} of the full model: {self.full:.4g}, mean of {self.repeats} repeats",
            *(f"  {effect.variant.name}: {_in_words(effect)}" for effect in self.effects),
            f"  positive effects: the model is worse without the part; at a confidence of {self.confidence:.0%}",
        ]


def compare(
    scores: Mapping[str, Mapping[int, float]],
    variants: Sequence[Variant],
    *,
    larger_is_better: bool,
    confidence: float = 0.95,
) -> Comparison:
    """Compare the scores of variants with those of the full model, repeat by repeat.

    Parameters
    ----------
    scores : mapping of str to mapping of int to float
        Score by name of the variant and by repeat. A score that is missing or not finite drops its pair.
    confidence : float
        Probability with which no interval of a part without an effect excludes zero (Holm). Default 0.95.

    Examples
    --------
    >>> from optimizer.ablation import design
    >>> variants = design(features=["age", "noise"], columns=["age", "noise", "hours"], controls=False)
    >>> scores = {
    ...     "full": {0: 0.90, 1: 0.91, 2: 0.92},
    ...     "age": {0: 0.70, 1: 0.72, 2: 0.71},
    ...     "noise": {0: 0.91, 1: 0.90, 2: 0.92},
    ... }
    >>> comparison = compare(scores, variants, larger_is_better=True)
    >>> [(effect.variant.name, effect.rank, effect.verdict) for effect in comparison.effects]
    [('age', 1, 'worse without'), ('noise', 0, 'not distinguishable')]
    """
    alpha = 1 - confidence
    sign = 1.0 if larger_is_better else -1.0
    full = _finite(scores.get(FULL, {}))
    losses = {
        variant.name: {
            repeat: sign * (full[repeat] - score)
            for repeat, score in _finite(scores.get(variant.name, {})).items()
            if repeat in full
        }
        for variant in variants
    }
    parts = [variant for variant in variants if not variant.is_control and variant.name != FULL]
    effects = _effects(parts, losses, scores, alpha)
    effects = _with_controls(effects, losses, alpha)
    controls = [_control(variant, losses, scores, alpha) for variant in variants if variant.is_control]
    repeats = len({repeat for by_repeat in scores.values() for repeat in by_repeat})
    return Comparison(_mean(full.values()), (*_ranked(effects), *controls), confidence, repeats)


def _effects(
    parts: Sequence[Variant],
    losses: Mapping[str, Mapping[int, float]],
    scores: Mapping[str, Mapping[int, float]],
    alpha: float,
) -> list[Effect]:
    """Return the effects of the parts, with corrected intervals."""
    tested = [part for part in parts if len(losses[part.name]) >= _LEAST]
    p_values = [paired_interval(list(losses[part.name].values()), alpha)[1] for part in tested]
    corrected = dict(zip((part.name for part in tested), holm(p_values, alpha), strict=True))
    effects = []
    for part in parts:
        differences = list(losses[part.name].values())
        score = _mean(
            value for repeat, value in _finite(scores.get(part.name, {})).items() if repeat in losses[part.name]
        )
        if part.name not in corrected:
            effects.append(Effect(part, len(differences), score, _UNKNOWN, math.nan, FAILED))
            continue
        p_value, level = corrected[part.name]
        interval, _ = paired_interval(differences, level)
        verdict = NOT_DISTINGUISHABLE if interval.contains_zero else WORSE if interval.mean > 0 else BETTER
        is_identical = not any(differences)
        effects.append(Effect(part, len(differences), score, interval, p_value, verdict, is_identical=is_identical))
    return effects


def _with_controls(effects: Sequence[Effect], losses: Mapping[str, Mapping[int, float]], alpha: float) -> list[Effect]:
    """Compare the effects with those of their controls."""
    beyond: dict[str, list[float]] = {}
    for effect in effects:
        part, control = losses[effect.variant.name], losses.get(effect.variant.control, {})
        pairs = [part[repeat] - control[repeat] for repeat in part if repeat in control]
        if len(pairs) >= _LEAST:
            beyond[effect.variant.name] = pairs
    p_values = [paired_interval(pairs, alpha)[1] for pairs in beyond.values()]
    levels = {name: level for name, (_, level) in zip(beyond, holm(p_values, alpha), strict=True)}
    return [
        replace(effect, beyond_control=paired_interval(beyond[name], levels[name])[0]) if name in beyond else effect
        for effect in effects
        for name in [effect.variant.name]
    ]


def _control(
    variant: Variant, losses: Mapping[str, Mapping[int, float]], scores: Mapping[str, Mapping[int, float]], alpha: float
) -> Effect:
    differences = list(losses[variant.name].values())
    score = _mean(_finite(scores.get(variant.name, {})).values())
    if len(differences) < _LEAST:
        return Effect(variant, len(differences), score, _UNKNOWN, math.nan, FAILED)
    interval, p_value = paired_interval(differences, alpha)
    return Effect(variant, len(differences), score, interval, p_value, CONTROL)


def _ranked(effects: Sequence[Effect]) -> list[Effect]:
    """Rank the parts without which the model is worse; parts whose intervals overlap share a rank."""
    worse = [effect for effect in effects if effect.verdict == WORSE]
    ranked = [
        replace(effect, rank=1 + sum(other.interval.low > effect.interval.high for other in worse)) for effect in worse
    ]
    ranked.sort(key=lambda effect: (effect.rank, -effect.interval.mean))
    return [*ranked, *(effect for effect in effects if effect.verdict != WORSE)]


def _in_words(effect: Effect) -> str:
    """Describe an effect in one line."""
    if effect.verdict == FAILED:
        return f"failed: {effect.pairs} of the repeats have a score, and an interval needs {_LEAST}"
    interval, beyond = effect.interval, effect.beyond_control
    words = f"{effect.verdict}, {interval.mean:+.4g} [{interval.low:+.4g}, {interval.high:+.4g}]"
    if effect.rank:
        words = f"rank {effect.rank}, {words}"
    if effect.is_identical:
        words += "; all scores equal those of the full model: check that the part has any effect on training"
    if beyond is not None and effect.verdict == WORSE:
        above = "more than" if beyond.low > 0 else "not distinguishable from"
        words += f"; {above} {effect.variant.control}"
    return words


def _finite(scores: Mapping[int, float]) -> dict[int, float]:
    return {repeat: score for repeat, score in scores.items() if math.isfinite(score)}


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


_UNKNOWN = Interval(math.nan, math.nan, math.nan)
