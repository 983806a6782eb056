"""Score of a heat map: requested by the caller, settled once on the whole image, the same for all places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from optimizer.errors import InvalidArgumentError, nearest
from udfs.occlusion._activation import Activation, last_activation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.handlers import TracedModel

__all__ = ["OUTPUTS", "Output", "Score", "ScoreError", "SettledScore", "output_layer"]

Named = Literal["probability", "logit", "log_odds", "value"]
OUTPUTS: tuple[str, ...] = get_args(Named)
"""Scores that have a name."""

Output: TypeAlias = Named | Callable[["NDArray[Any]"], "NDArray[Any]"]
"""A score by its name, or a function from a network's outputs at some places to one or several numbers per place."""

# Sums of probabilities differ from 1 by the rounding of their terms.
_ROUNDING = 1e-4

# The least probability of a softmax that float32 holds in full.
_LEAST = float(np.finfo(np.float32).tiny)


_SINGLE = "head must be left out for a network that returns one tensor, got {!r}"


class ScoreError(InvalidArgumentError):
    """Score that the network's output does not have; the message names the valid ones."""


@dataclass(frozen=True, slots=True)
class Score:
    """Request for a score. :meth:`settle` turns it into a function, once per image.

    Parameters
    ----------
    output : {"probability", "logit", "log_odds", "value"} or callable, optional
        ``"probability"``: by softmax, unless the network ends with a softmax, a log-softmax or a sigmoid. ``"logit"``
        and ``"value"``: the outputs as they are; the first is refused where they are probabilities. ``"log_odds"``:
        log(p / (1 - p)), which tells apart probabilities that are all nearly 1. A callable gets the outputs at some
        places, an array of shape (places, ...), and returns (places,) or (places, values).

        By default a single output, or outputs after an activation such as ReLU, are values; all others are
        probabilities.
    head : str or int, optional
        The output of a network that returns several: a key of its dictionary, or an index.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from udfs.handlers import TensorSpec, framework
    >>> model = framework("torch").trace(nn.Sequential(nn.Linear(2, 3), nn.Sigmoid()).eval(), [TensorSpec((2,))])
    >>> score = Score().settle(model, np.array([[0.9, 0.9, 0.1]], np.float32))
    >>> score.statement
    "probability: each of the 3 outputs of '1' on its own, after a sigmoid"
    >>> score(np.array([[0.5, 0.75, 0.25]], np.float32)).tolist()
    [[0.5, 0.75, 0.25]]
    """

    output: Output | None = None
    head: str | int | None = None

    def __post_init__(self) -> None:
        if self.output is not None and not callable(self.output) and self.output not in OUTPUTS:
            hint = nearest(str(self.output), OUTPUTS)
            raise InvalidArgumentError(
                f"output must be one of {', '.join(OUTPUTS)}, or a function, got {self.output!r}{hint}"
            )

    def check(self, model: TracedModel) -> str:
        """Return the layer whose tensor is scored, and validate the request before the network runs.

        Raises
        ------
        ScoreError
            The network returns several outputs and none is chosen, or has none of that name; the output is a map of
            several axes; logits are asked of a network that returns probabilities.
        """
        layer = output_layer(model, self.head)
        if callable(self.output):
            return layer
        shape = model.graph[layer].output_shape
        if sum(extent > 1 for extent in shape) > 1:
            raise ScoreError(
                f"output must be a function for {layer!r}, which is a map of shape {shape}, such as "
                "output=lambda maps: maps[:, 15].mean(axis=(1, 2)) of an array of shape (places, "
                f"{', '.join(map(str, shape))})"
            )
        last = last_activation(model, layer)
        if self.output == "logit" and last.probabilities:
            raise _no_logits(layer, last.described)
        return layer

    def settle(self, model: TracedModel, outputs: NDArray[Any]) -> SettledScore:
        """Decide how scores are computed, from the network's last layer and its outputs for the whole image.

        Parameters
        ----------
        outputs : array of shape (1, ...)
            Output of the layer that :meth:`check` returns.

        Raises
        ------
        ScoreError
            As :meth:`check`; or the outputs are not finite, or a function does not return numbers of that shape.
        """
        layer = self.check(model)
        shape = model.graph[layer].output_shape
        outputs = outputs.reshape(1, *shape)
        if not np.isfinite(outputs).all():
            raise ScoreError(
                f"the output of {layer!r} for the whole image is not finite; scale the image or the weights to the "
                "network's range"
            )
        if callable(self.output):
            name = getattr(self.output, "__name__", type(self.output).__name__)
            score = SettledScore(
                layer, shape, "callable", self.output, 0, f"callable: {name} of the output of {layer!r}"
            )
            return score.sized(score.checked(outputs).shape[1])
        flat = outputs.reshape(len(outputs), -1)
        kind, form, described = self._decided(layer, last_activation(model, layer), flat)
        return SettledScore(layer, shape, kind, _FORMS[form], flat.shape[1], f"{kind}: {described}")

    def _decided(self, layer: str, last: Activation, flat: NDArray[Any]) -> tuple[str, str, str]:
        """Choose the kind of score, the function that computes it, and the words for it."""
        count = flat.shape[1]
        plain = f"the {count} outputs of {layer!r}" if count > 1 else f"the one output of {layer!r}"
        if last.kind == "log_softmax" and not _sums_to_one(np.exp(flat.astype(np.float64))):
            last = Activation("activation", last.described)
        if last.kind == "softmax" and not _sums_to_one(flat):  # over another axis
            last = Activation("activation", last.described)
        if last.kind == "unknown" and count > 1 and _sums_to_one(flat):
            last = Activation("softmax", "as they sum to 1")
        integers = not np.issubdtype(flat.dtype, np.floating)
        if self.output == "logit" and last.probabilities:
            raise _no_logits(layer, last.described)
        if self.output in ("logit", "value"):
            return str(self.output), "as_is", plain
        if self.output is None and not last.probabilities:
            after = f", {last.described}" if last.kind == "activation" else ""
            if count == 1 or integers or last.kind == "activation":
                return "value", "as_is", plain + after
            if last.kind == "unknown" and bool(((flat >= 0) & (flat <= 1)).all()):
                return "value", "as_is", f'{plain}, which lie between 0 and 1; logits need output="probability"'
        if self.output == "log_odds":
            return "log_odds", *_log_odds(last, count, plain)
        return "probability", *_probability(last, count, plain)


@dataclass(frozen=True, slots=True)
class SettledScore:
    """Score as a function of a network's outputs, the same for all modes, batches and workers."""

    layer: str  # layer whose outputs are scored
    shape: tuple[int, ...]  # shape of the layer's output for one place, also for a network that squeezes its output
    kind: str  # name of OUTPUTS, or "callable"
    # Function from flat outputs in float64 to scores, or the user's function.
    form: Callable[[NDArray[Any]], NDArray[Any]]
    size: int  # number of elements; a target is an index of them
    statement: str  # description of the score

    def sized(self, size: int) -> SettledScore:
        """Set the number of elements."""
        return replace(self, size=size)

    def __call__(self, outputs: NDArray[Any]) -> NDArray[np.float32]:
        """Compute the scores of some places."""
        outputs = outputs.reshape(-1, *self.shape)
        if self.kind == "callable":
            scores = self.checked(outputs)
            if scores.shape[1] != self.size:
                raise ScoreError(
                    f"{self.statement} must return as many numbers for every batch, got {scores.shape[1]} per place "
                    f"and {self.size} for the whole image"
                )
            return scores
        flat = outputs.reshape(len(outputs), -1).astype(np.float64)
        return self.form(flat).astype(np.float32)

    def check_finite(self, scores: NDArray[np.float32]) -> None:
        """Refuse infinite log-odds, of probabilities that are rounded to 0 or 1."""
        if not np.isfinite(scores).all():
            raise ScoreError(
                f"{self.statement} must be finite, got a probability that is 0 or 1 to float32's precision; pass the "
                "network without its last activation"
            )

    def checked(self, outputs: NDArray[Any]) -> NDArray[np.float32]:
        """Call the user's function, and check that it returns numbers for each place."""
        try:
            returned = np.asarray(self.form(outputs)).astype(np.float32)
        except Exception as error:
            raise ScoreError(
                f"{self.statement} failed on an array of shape {outputs.shape}: {type(error).__name__}: {error}"
            ) from error
        if returned.shape[:1] != outputs.shape[:1] or returned.ndim not in (1, 2) or not returned.size:
            raise ScoreError(
                f"{self.statement} must return shape ({len(outputs)},) or ({len(outputs)}, values) for outputs of "
                f"shape {outputs.shape}, got {returned.shape}; numpy's means over the other axes do"
            )
        if not np.isfinite(returned).all():
            raise ScoreError(f"{self.statement} must return finite numbers, got NaN or infinity")
        return returned.reshape(len(outputs), -1)


def output_layer(model: TracedModel, head: str | int | None) -> str:
    """Return the layer whose tensor a network returns, or returns under a key or at an index.

    Raises
    ------
    ScoreError
        There are several and none is chosen, or none has that name.
    """
    outputs, keys = model.graph.outputs, model.output_keys
    named = ", ".join(map(repr, keys or outputs))
    if head is None:
        if len(outputs) > 1:
            raise ScoreError(f"head must be one of {named} for a network of several outputs, got None")
        return outputs[0]
    if head in keys:
        return model.output_layer(head)
    if isinstance(head, str):
        hint = nearest(head, [key for key in keys if isinstance(key, str)])
        raise ScoreError(f"head must be one of {named}, got {head!r}{hint}" if keys else _SINGLE.format(head))
    if not 0 <= head < max(len(keys), 1):
        raise ScoreError(
            f"head must be from 0 to {len(keys) - 1}, of {named}, got {head!r}" if keys else _SINGLE.format(head)
        )
    return model.output_layer(keys[head]) if keys else outputs[0]


def _no_logits(layer: str, described: str) -> ScoreError:
    return ScoreError(
        f'output must not be "logit" for {layer!r}, whose outputs are probabilities, {described}; use '
        'output="log_odds", or leave the last layer out of the network'
    )


def _probability(last: Activation, count: int, plain: str) -> tuple[str, str]:
    """Return the name and the description of the function that computes probabilities."""
    if last.kind in ("sigmoid", "log_sigmoid"):
        each = plain if count == 1 else f"each of {plain} on its own"
        return ("as_is" if last.kind == "sigmoid" else "exp"), f"{each}, {last.described}"
    if last.kind == "softmax":
        return "as_is", f"{plain}, {last.described}"
    if last.kind == "log_softmax":
        return "exp", f"exp of {plain}, {last.described}"
    if count == 1:
        return "sigmoid", f"sigmoid of {plain}"
    return "softmax", f"softmax over {plain}"


def _log_odds(last: Activation, count: int, plain: str) -> tuple[str, str]:
    """Return the name and the description of the function that computes log-odds."""
    if last.kind == "sigmoid":
        return "odds_of_each", f"log(p / (1 - p)) of {plain}, {last.described}"
    if last.kind == "log_sigmoid":
        return "odds_of_logs", f"log(p / (1 - p)) of exp of {plain}, {last.described}"
    if last.kind == "softmax":
        return "odds_of_shares", f"log(p / (1 - p)) of {plain}, {last.described}"
    if count == 1:
        return "as_is", f"{plain}, taken for the logit of one class"
    return "odds_of_logits", f"log(p / (1 - p)) of the softmax over {plain}"


def _sums_to_one(flat: NDArray[Any]) -> bool:
    return bool((flat >= 0).all()) and bool((np.abs(flat.sum(axis=1, dtype=np.float64) - 1) < _ROUNDING).all())


def _softmax(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(flat - flat.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _as_is(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    return flat


def _sigmoid(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(0.5 * flat))  # never overflows


def _odds_of_each(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):  # infinite where a probability rounds to 0 or 1, which Score refuses
        return np.log(flat) - np.log1p(-flat)


def _odds_of_logs(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = flat.clip(np.log(_LEAST), -_LEAST)  # a logarithm near 0 is not rounded as a probability near 1 is
    return clipped - np.log(-np.expm1(clipped))  # type: ignore[no-any-return]


def _odds_of_shares(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute log-odds of shares that sum to 1: 1 - p as the sum of the others is precise where p is nearly 1."""
    odds = _odds_of_logits(np.log(flat.clip(_LEAST, None)))
    others = (flat > 0).sum(axis=1, keepdims=True) - (flat > 0)
    return np.where(flat > 0, np.where(others > 0, odds, np.inf), -np.inf)


def _odds_of_logits(flat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute each logit minus the logsumexp of the others, which never includes the largest in its own sum."""
    rows, top = np.arange(len(flat)), flat.argmax(axis=1)
    powers = np.exp(flat - flat[rows, top][:, None])
    powers[rows, top] = 0
    rest = powers.sum(axis=1, keepdims=True)
    # 1 is the largest's own power, so that nothing cancels.
    others = np.log(np.maximum(1 + rest - powers, 1)) + flat[rows, top][:, None]
    without = flat.copy()
    without[rows, top] = -np.inf
    second = without.max(axis=1, keepdims=True)
    others[rows, top] = (second + np.log(np.exp(without - second).sum(axis=1, keepdims=True)))[:, 0]
    odds: NDArray[np.float64] = flat - others
    return odds


_FORMS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "as_is": _as_is,
    "exp": np.exp,
    "softmax": _softmax,
    "sigmoid": _sigmoid,
    "odds_of_each": _odds_of_each,
    "odds_of_logs": _odds_of_logs,
    "odds_of_shares": _odds_of_shares,
    "odds_of_logits": _odds_of_logits,
}
