"""Search spaces as values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.space._check import read
from optimizer.space._document import documented, read_document
from optimizer.space._draft import drafted
from optimizer.space._errors import SpaceError
from optimizer.space._grid import grid
from optimizer.space._layout import laid_out
from optimizer.space._mutate import mutate, perturb, resample
from optimizer.space._plain import plain
from optimizer.space._sample import sample
from optimizer.space._tree import Constant, grown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from optimizer.space._dimension import Dimension
    from optimizer.space._plain import Value
    from optimizer.space._where import Test

__all__ = ["Space"]


class Space:
    """Configurations that a search ranges over (Cerebro, Section 3.4; its Table 3.6 is one).

    A configuration is a dict of strings, numbers, booleans and None. A nested mapping of the search space is one in
    the configuration. The name of a chosen branch is under the name of its choice, and what belongs to the branch
    lies beside it. A dimension that is not live is not there.

    Parameters
    ----------
    search_space : mapping of str
        By name: a domain (:func:`choice`, :func:`uniform`, :func:`log_uniform`, :func:`integer`,
        :func:`log_integer`), a list (short for a choice of its values), a mapping of more of these, or a constant.
        Names have no dots or brackets.

        ``where=`` of a domain says when it is live: ``{"optimizer": "sgd"}``, or a list of values of which the other
        must have one; several names must all match. The names are those of a configuration, dotted where they are
        nested, and may be declared later. Or a function of the configuration drawn so far, in which all dimensions
        that were declared before it are set, or missing if not live. Functions cannot be written to a document.
    where : callable, optional
        Condition on a whole configuration; configurations that it refuses are drawn anew, and left out of the grid.

    Raises
    ------
    SpaceError
        No dimension and no constant; a name that is not allowed, or lies twice in a configuration; a value that is
        not plain; a condition that names nothing, asks for a value that is never taken, or waits for itself.

    Examples
    --------
    >>> from optimizer.space import Space, choice, log_integer, log_uniform, uniform
    >>> space = Space({
    ...     "lr": log_uniform(1e-5, 1e-1),
    ...     "optimizer": choice(["adam", "sgd"]),
    ...     "momentum": uniform(0, 0.9, where={"optimizer": "sgd"}),
    ...     "net": choice({"cnn": {"channels": choice([16, 32])}, "lstm": {"units": log_integer(32, 256)}}),
    ... })
    >>> print(space)
    lr                 log_uniform 1e-05 .. 0.1
    optimizer          choice 'adam', 'sgd'
    momentum           uniform 0.0 .. 0.9 where optimizer = 'sgd'
    net                choice 'cnn', 'lstm'
    net[cnn].channels  choice 16, 32 where net = 'cnn'
    net[lstm].units    log_integer 32 .. 256 where net = 'lstm'
    >>> len(space.grid(points=2))
    24
    """

    __slots__ = ("_identity", "_layout", "_where")

    def __init__(self, search_space: Mapping[str, Any], *, where: Test | None = None) -> None:
        if not isinstance(search_space, Mapping) or not search_space:
            raise SpaceError(f"search_space={search_space!r}: give a mapping of names to domains")
        if where is not None and not callable(where):
            raise SpaceError(
                f"where={where!r}: the condition of a whole space is a function of a configuration; give a mapping "
                "to the domain that it concerns"
            )
        self._layout = laid_out(grown(search_space))
        self._where = where
        tests = tuple(dimension.domain.where.test for dimension in self._layout.declared)
        # As text, because to Python 1, 1.0 and True are equal.
        text = json.dumps(documented(self._layout.root, functions=True), sort_keys=True)
        self._identity = (text, tests, where)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Space:
        """Make the space of a document.

        Parameters
        ----------
        document : mapping
            What :meth:`document` made. It may have come from anywhere: it has no code, and is checked as a user's
            search space is.

        Raises
        ------
        SpaceError
            It is no such document, or of another version, or what it describes is not allowed.
        """
        try:
            return cls(read_document(document))
        except RecursionError:
            raise SpaceError("the document of a space is nested too deeply") from None

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions as declared, a choice before its branches; constants are none."""
        return tuple(d for d in self._layout.declared if not isinstance(d.domain, Constant))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the document, as hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        where = f", where={self._where!r}" if self._where else ""
        return f"Space({self._layout.root!r}{where})"

    def __str__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Describe the space, one line per dimension and constant."""
        width = max(len(dimension.path) for dimension in self._layout.declared)
        lines = [f"{dimension.path:<{width}}  {dimension}" for dimension in self._layout.declared]
        if self._where:
            lines.append(f"where {getattr(self._where, '__name__', repr(self._where))}(...)")
        return "\n".join(lines)

    def sample(self, seed: int, number: int) -> dict[str, Any]:
        """Draw a random configuration.

        Each dimension has a stream of its own, which depends on ``seed``, ``number`` and the dimension's path alone:
        a further dimension does not change the values of the others, and the first ``k`` of ``2k`` configurations are
        the ``k``. All machines draw the same. What the space's ``where=`` refuses is drawn anew as a whole. A space
        with few values repeats itself.

        Parameters
        ----------
        seed : int
        number : int
            From 0.

        Returns
        -------
        dict

        Raises
        ------
        SpaceError
            A seed or number that is no whole number; none of 1000 configurations satisfies the space's ``where=``; a
            condition failed.

        Examples
        --------
        >>> from optimizer.space import Space, integer
        >>> [Space({"width": integer(1, 100)}).sample(seed=7, number=number) for number in range(3)]
        [{'width': 47}, {'width': 4}, {'width': 5}]
        """
        return sample(self._layout, self._where, seed, number)

    def grid(self, points: int | Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """List every combination of values, each once.

        Parameters
        ----------
        points : int or mapping of str to int, optional
            How many values a domain without steps has in the grid, both bounds included, at equal distances on its
            scale; by name for some alone. Logarithmic integers that round to the same value count once.

        Returns
        -------
        list of dict
            The last dimension varies fastest. Branches that are not chosen are not expanded.

        Raises
        ------
        SpaceError
            A domain without steps, and no ``points`` for it; more than 100,000 configurations, or none.

        Examples
        --------
        >>> from optimizer.space import Space, log_uniform
        >>> Space({"lr": log_uniform(1e-3, 1e-1), "batch": [32, 64]}).grid(points=2)
        [{'lr': 0.001, 'batch': 32}, {'lr': 0.001, 'batch': 64}, {'lr': 0.1, 'batch': 32}, {'lr': 0.1, 'batch': 64}]
        """
        return grid(self._layout, self._where, points)

    def perturb(
        self,
        params: Mapping[str, Any],
        seed: int,
        number: int,
        *,
        factors: Sequence[float] = (0.8, 1.2),
        resample: float = 0.25,
        only: Collection[str] | None = None,
    ) -> dict[str, Any]:
        """Change a configuration a little, as population based training explores (Jaderberg et al., 2017).

        Each dimension is drawn anew with the probability ``resample``. Otherwise a number of a range is multiplied by
        one of the factors; on steps and among integers it moves to the nearest, and by at least one step. A number of
        a choice moves to the next smaller or larger one. Nothing leaves its bounds: what would, stays at the bound. A 0
        without steps stays 0 until it is drawn anew.
        Options that are not all numbers have no neighbours, and stay. Dimensions that come to life are drawn, those
        that no longer live are dropped.

        Parameters
        ----------
        params : mapping
            A configuration of this space.
        seed : int
        number : int
            From 0, another one for each perturbation; with ``seed`` it decides what is drawn.
        factors : sequence of float
            Each as likely as the other. For a choice, a factor above 1 means the next larger one.
        resample : float
            Probability, of each dimension by itself.
        only : collection of str, optional
            Names of the dimensions that may change, dotted where nested; by default all. A clone keeps its weights, so
            whatever shapes the network is to be left out.

        Returns
        -------
        dict

        Raises
        ------
        SpaceError
            As :meth:`check` and :meth:`sample`; a name that no dimension has, factors not above 0, no probability.
        """
        return perturb(self._layout, self._where, params, seed, number, factors, resample, only)

    def resample(self, params: Mapping[str, Any], name: str, seed: int, number: int) -> dict[str, Any]:
        """Draw one dimension of a configuration anew; its former value may come again.

        Parameters
        ----------
        params : mapping
            A configuration of this space.
        name : str
            Of a live dimension, as in the configuration; dotted where it is nested.
        seed, number : int
            As in :meth:`perturb`.

        Returns
        -------
        dict

        Raises
        ------
        SpaceError
            As :meth:`check` and :meth:`sample`; no live dimension has the name.
        """
        return resample(self._layout, self._where, params, name, seed, number)

    def mutate(self, params: Mapping[str, Any], seed: int, number: int) -> dict[str, Any]:
        """Give exactly one live dimension another value, as aging evolution does (Real et al., 2019).

        Parameters
        ----------
        params : mapping
            A configuration of this space.
        seed, number : int
            As in :meth:`perturb`.

        Returns
        -------
        dict
            Dimensions that the change brings to life are drawn, those that no longer live are dropped.

        Raises
        ------
        SpaceError
            As :meth:`check` and :meth:`sample`; no live dimension has a second value.
        """
        return mutate(self._layout, self._where, params, seed, number)

    def check(self, params: Mapping[str, Any]) -> None:
        """Tell whether a configuration belongs to the space.

        A number that was computed, such as ``3 * 0.1``, is on its step if it is within a billionth of one.

        Parameters
        ----------
        params : mapping

        Raises
        ------
        SpaceError
            The first name that is unknown, missing, not live, or has a value outside its domain; or the space's
            ``where=`` does not hold.
        """
        read(self._layout, self._where, params)

    def values(self, params: Mapping[str, Any]) -> dict[str, Value]:
        """Take a configuration apart, for a sampler that knows dimensions.

        Parameters
        ----------
        params : mapping

        Returns
        -------
        dict of str to value
            By the path of each live dimension, in the order of :attr:`dimensions`.

        Raises
        ------
        SpaceError
            As :meth:`check`.

        Examples
        --------
        >>> from optimizer.space import Space, choice
        >>> space = Space({"net": choice({"cnn": {"channels": [16, 32]}, "linear": {}})})
        >>> space.values({"net": "cnn", "channels": 16})
        {'net': 'cnn', 'net[cnn].channels': 16}
        """
        values = read(self._layout, self._where, params)
        return {dimension.path: values[dimension.path] for dimension in self.dimensions if dimension.path in values}

    def build(self, choose: Callable[[Dimension], Value]) -> dict[str, Any]:
        """Put a configuration together: the way back from :meth:`values`, one live dimension after the other.

        Parameters
        ----------
        choose : callable
            Gives the value of a :class:`Dimension`. It is called for the live ones alone, each after those that its
            condition names.

        Returns
        -------
        dict

        Raises
        ------
        SpaceError
            A value outside its domain, or a condition of a dimension failed. The space's own ``where=`` is not asked:
            :meth:`check` does.

        Examples
        --------
        >>> from optimizer.space import Space, choice
        >>> space = Space({"net": choice({"cnn": {"channels": [16, 32]}, "linear": {}})})
        >>> space.build(lambda dimension: dimension.choices[0])
        {'net': 'cnn', 'channels': 16}
        """

        def chosen(dimension: Dimension) -> Value:
            if isinstance(dimension.domain, Constant):
                return dimension.domain.value
            value = plain(choose(dimension), dimension.path)
            if not dimension.domain.holds(value):
                raise SpaceError(f"{dimension.path}={value!r} is outside its domain: {dimension.domain}")
            return value

        return drafted(self._layout, chosen).params()

    def document(self) -> dict[str, Any]:
        """Describe the space as plain data, for a journal; :meth:`of` reads it.

        Returns
        -------
        dict
            Of lists, strings, numbers, booleans and None; it survives JSON and has no code.

        Raises
        ------
        SpaceError
            A ``where=`` is a function, which plain data cannot hold.
        """
        if self._where is not None:
            raise SpaceError("the space's where= is a function, which no document can hold")
        return documented(self._layout.root)
