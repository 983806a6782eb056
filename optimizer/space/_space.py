"""Search spaces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.space._document import documented, read_document
from optimizer.space._draft import drafted
from optimizer.space._errors import SpaceError
from optimizer.space._grid import grid
from optimizer.space._layout import laid_out
from optimizer.space._mutate import mutate, perturb, resample
from optimizer.space._plain_values import plain
from optimizer.space._sample import sample
from optimizer.space._tree import Constant, grown
from optimizer.space._validation import read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from optimizer.space._condition import Test
    from optimizer.space._dimension import Dimension
    from optimizer.space._plain_values import Value

__all__ = ["Space"]


class Space:
    """Search space of configurations (Cerebro, Section 3.4 and Table 3.6).

    A configuration is a dict of strings, numbers, booleans and None. A nested mapping of the search space is nested in
    the configuration too. A choice with branches has the name of the chosen branch as its value, and the dimensions of
    that branch next to it. Repeated blocks are a list of dicts. A dimension that is not live is missing.

    Parameters
    ----------
    search_space : mapping of str
        Entries by name: a domain (:func:`choice`, :func:`uniform`, :func:`log_uniform`, :func:`integer`,
        :func:`log_integer`, :func:`repeat`), a list of options, a nested mapping, or a constant. Names have no dots or
        brackets.

        ``where=`` of a domain is the condition under which it is live, such as ``{"optimizer": "sgd"}``, or a list of
        allowed values; several names must all match. The names are those of a configuration, dotted where nested, and
        may be declared later. A condition may also be a function of the configuration that is drawn so far, which has
        all live dimensions that were declared before. Functions cannot be written to a document.
    where : callable, optional
        Condition on a whole configuration; refused configurations are drawn again, and left out of the grid.

    Raises
    ------
    SpaceError
        The space is empty, a name is not allowed or clashes with another, a value is not plain, or a condition has an
        unknown name, a value that never occurs, or a circular dependency.

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
            raise SpaceError(f"search_space must be a mapping of names to domains, got {search_space!r}")
        if where is not None and not callable(where):
            raise SpaceError(
                f"where of a whole space must be a function of a configuration, got {where!r}: set a mapping as "
                "where= of "
                "a domain"
            )
        self._layout = laid_out(grown(search_space))
        self._where = where
        tests = tuple(dimension.domain.where.test for dimension in self._layout.declared)
        # Compare text, since 1, 1.0 and True are equal in Python.
        text = json.dumps(documented(self._layout.root, functions=True), sort_keys=True)
        self._identity = (text, tests, where)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Space:
        """Create the space of a document.

        Parameters
        ----------
        document : mapping
            Document that :meth:`document` has written. It contains no code and is validated like a user's search
            space, so it may come from any source.

        Returns
        -------
        Space
            Space equal to the one that wrote the document.

        Raises
        ------
        SpaceError
            The document is invalid, or has another version.
        """
        try:
            return cls(read_document(document))
        except RecursionError:
            raise SpaceError("document must be nested less deeply than Python's recursion limit") from None

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions in the declared order, a choice before its branches, without constants."""
        return tuple(d for d in self._layout.declared if not isinstance(d.domain, Constant))

    @property
    def fingerprint(self) -> str:
        """SHA-256 hash of the document in hexadecimal digits."""
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

        The stream of random numbers of a dimension depends only on ``seed``, ``number`` and the dimension's path: a new
        dimension does not change the values of the others, and the first ``k`` of ``2k`` configurations are those of a
        search of ``k``. All machines draw the same values. A configuration that the space's ``where=`` refuses is drawn
        again as a whole. A space with few values repeats configurations.

        Parameters
        ----------
        seed : int
            Seed of the search.
        number : int
            Number of the configuration, from 0.

        Returns
        -------
        dict
            Configuration.

        Raises
        ------
        SpaceError
            The seed or the number is not an integer, none of 1000 configurations satisfies the space's ``where=``, or a
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
            Number of values of each domain without steps, at equal distances on its scale and with both bounds; a
            mapping sets it by name. Logarithmic integers that round to the same value count once.

        Returns
        -------
        list of dict
            Configurations; the last dimension varies fastest. Branches that are not chosen are not expanded.

        Raises
        ------
        SpaceError
            ``points`` is missing for a domain without steps, or there are more than 100,000 configurations, or none.

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

        Each dimension is drawn again with the probability ``resample``. Otherwise a number of a range is multiplied by
        one of the factors; with steps and for integers it moves to the nearest value, by at least one step. A number of
        a choice moves to the next smaller or larger option. Values stay within their bounds. A 0 without steps stays 0
        until it is drawn again. Options that are not all numbers have no neighbours and do not change. Dimensions that
        become live are drawn, and those that are no longer live are dropped.

        Parameters
        ----------
        params : mapping
            Configuration of this space.
        seed : int
            Seed of the search.
        number : int
            Number of the perturbation, from 0; with ``seed`` it determines the draws.
        factors : sequence of float
            Equally likely factors. For a choice, a factor above 1 selects the next larger option.
        resample : float
            Probability that a dimension is drawn again.
        only : collection of str, optional
            Names of the dimensions that may change, dotted where nested; by default all. A clone keeps its weights, so
            leave out dimensions that determine the shape of the network.

        Returns
        -------
        dict
            Changed configuration.

        Raises
        ------
        SpaceError
            See :meth:`check` and :meth:`sample`; also if a name, a factor or the probability is not allowed.
        """
        return perturb(self._layout, self._where, params, seed, number, factors, resample, only)

    def resample(self, params: Mapping[str, Any], name: str, seed: int, number: int) -> dict[str, Any]:
        """Draw a dimension of a configuration again; its former value may come again.

        Parameters
        ----------
        params : mapping
            Configuration of this space.
        name : str
            Name of a live dimension, dotted where nested.
        seed, number : int
            See :meth:`perturb`.

        Returns
        -------
        dict
            Changed configuration.

        Raises
        ------
        SpaceError
            See :meth:`check` and :meth:`sample`; also if no live dimension has the name.
        """
        return resample(self._layout, self._where, params, name, seed, number)

    def mutate(self, params: Mapping[str, Any], seed: int, number: int) -> dict[str, Any]:
        """Change the value of exactly one live dimension, as aging evolution does (Real et al., 2019).

        The number of repeated blocks changes by one: a block is drawn and added at the end, or the last one is removed.

        Parameters
        ----------
        params : mapping
            Configuration of this space.
        seed, number : int
            See :meth:`perturb`.

        Returns
        -------
        dict
            Changed configuration. Dimensions that become live are drawn, and those that are no longer live are dropped.

        Raises
        ------
        SpaceError
            See :meth:`check` and :meth:`sample`; also if no live dimension has a second value.
        """
        return mutate(self._layout, self._where, params, seed, number)

    def check(self, params: Mapping[str, Any]) -> None:
        """Validate that a configuration belongs to the space.

        A computed number such as ``3 * 0.1`` is on its step if it is within a billionth of a step.

        Parameters
        ----------
        params : mapping
            Configuration to validate.

        Raises
        ------
        SpaceError
            A name is unknown, missing or not live, a value is outside its domain, or the space's ``where=`` does not
            hold. The message describes the first problem.
        """
        read(self._layout, self._where, params)

    def values(self, params: Mapping[str, Any]) -> dict[str, Value]:
        """Return the values of a configuration by dimension, for samplers.

        Parameters
        ----------
        params : mapping
            Configuration of this space.

        Returns
        -------
        dict of str to value
            Values by the path of each live dimension, in the order of :attr:`dimensions`.

        Raises
        ------
        SpaceError
            See :meth:`check`.

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
        """Build a configuration from one live dimension after the other, as the inverse of :meth:`values`.

        Parameters
        ----------
        choose : callable
            Function that returns the value of a live :class:`Dimension`. It is called for each dimension after those
            that its condition reads.

        Returns
        -------
        dict
            Configuration.

        Raises
        ------
        SpaceError
            A value is outside its domain, or a condition of a dimension failed. :meth:`check` validates the space's
            ``where=``, this method does not.

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
                raise SpaceError(f"{dimension.path} must be within its domain, {dimension.domain}, got {value!r}")
            return value

        return drafted(self._layout, chosen).params()

    def document(self) -> dict[str, Any]:
        """Return the space as plain data, which :meth:`of` reads.

        Returns
        -------
        dict
            Document of lists, strings, numbers, booleans and None, which JSON preserves.

        Raises
        ------
        SpaceError
            A ``where=`` is a function, which a document cannot contain.
        """
        if self._where is not None:
            raise SpaceError("where of the space must be None for a document, got a function")
        return documented(self._layout.root)
