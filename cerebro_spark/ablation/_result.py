"""Result of an ablation: the effect of each part, with its confidence interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cerebro_spark.tune import Selection
from optimizer.ablation import REMOVED, REPEAT, VARIANT, Comparison, Variant, compare
from optimizer.notebook import html_details, html_table, html_text
from udfs.handlers import settings_kept

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["AblationResult"]


@dataclass(eq=False)
class AblationResult(Selection):
    """Result of :meth:`Ablation.fit`: a :class:`Selection` that compares its configurations.

    ``transform`` predicts with the best configuration; :meth:`model` returns the network of any other, which predicts
    without the part that it was trained without.

    Parameters
    ----------
    run : RunResult
        Result of the run.
    trainer_fn : callable
        Function that the run trained with.
    variants : tuple of Variant
        Variants of the ablation.
    confidence : float
        Probability with which no interval of a part without an effect excludes zero.
    """

    variants: tuple[Variant, ...] = ()
    confidence: float = 0.95

    @cached_property
    def comparison(self) -> Comparison:
        """Effects of all parts, an :class:`optimizer.ablation.Comparison`."""
        scores: dict[str, dict[int, float]] = {}
        for trial in self.trials:
            if trial.status == "finished" and {VARIANT, REPEAT} <= trial.params.keys():
                scores.setdefault(trial.params[VARIANT], {})[trial.params[REPEAT]] = trial.metric
        return compare(scores, self.variants, larger_is_better=self.spec.larger_is_better, confidence=self.confidence)

    @cached_property
    def replacements(self) -> dict[str, dict[str, str]]:
        """Description of what stands in the place of each removed module, by part and by path.

        An identity, or an adapter with its number of parameters where the module changes the shape.
        """
        described: dict[str, dict[str, str]] = {}
        for trial in self.trials:
            part = str(trial.params.get(VARIANT))
            if part not in described and trial.params.get(REMOVED, {}).get("modules"):
                with settings_kept():
                    described[part] = self.trainer_fn.trainer_and_replacements(trial.params)[1]  # type: ignore[attr-defined]
        return described

    @property
    def table(self) -> pd.DataFrame:
        """Effects of all parts, a row each, ranked parts first.

        The columns are ``part``, ``kind``, ``removed``, ``replaced_by`` (of modules), ``rank`` (missing without one),
        ``verdict``, ``effect`` with ``low`` and ``high`` (loss of quality by the removal, in units of the metric),
        ``p_value``, ``score`` (mean metric without the part), ``beyond_control_low`` and ``beyond_control_high``
        (interval of the effect minus that of a random part of equal size), and ``pairs`` (repeats that count).
        """
        import pandas as pd  # heavy, and not every program asks for the table

        rows = [
            {
                "part": effect.variant.name,
                "kind": effect.variant.kind,
                "removed": ", ".join(effect.variant.removed),
                "replaced_by": ", ".join(self.replacements.get(effect.variant.name, {}).values()),
                "rank": effect.rank or None,
                "verdict": effect.verdict,
                "effect": effect.interval.mean,
                "low": effect.interval.low,
                "high": effect.interval.high,
                "p_value": effect.p_value,
                "score": effect.score,
                "beyond_control_low": effect.beyond_control.low if effect.beyond_control else None,
                "beyond_control_high": effect.beyond_control.high if effect.beyond_control else None,
                "pairs": effect.pairs,
            }
            for effect in self.comparison.effects
        ]
        table = pd.DataFrame(rows)
        return table.astype({"rank": "Int64", "beyond_control_low": "float64", "beyond_control_high": "float64"})

    def plot(self) -> Figure:
        """Draw the effect of each part with its interval. :meth:`curves` draws learning curves."""
        from cerebro_spark.ablation._picture import effects  # matplotlib, where a picture is wanted

        return effects(self.comparison, self.spec.metric)

    def curves(self) -> Figure:
        """Draw learning curves: the metric by epoch, one line per configuration."""
        return super().plot()

    def explain(self) -> str:
        """Describe the effects and the run in words."""
        replaced = [
            f"  {part}: {path} replaced by {by}"
            for part, paths in self.replacements.items()
            for path, by in paths.items()
        ]
        return "\n".join([*self.comparison.explain(self.spec.metric), *replaced, super().explain()])

    def _repr_html_(self) -> str:
        table = self.table
        rows = [[None if value != value else value for value in row] for row in table.astype(object).to_numpy()]
        return html_table(list(table.columns), rows) + html_details("comparison", html_text(self.explain()))
