"""Groups of sessions that share a trunk, found by comparing what their layers compute (section 3.4.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from udfs.serving import GroupRecipe, Trunk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optimizer.graph import LayerGraph
    from udfs.serving import FunctionRecipe, NetworkRecipe
    from vista_spark.serving._deployment import Deployment

    Recipe = NetworkRecipe | FunctionRecipe

__all__ = ["group_recipe", "groups", "trunk_of"]

# Least share of each member's FLOPs in a trunk: a smaller trunk saves less than waiting for the other members costs.
_LEAST_SHARE = 0.5


def groups(deployments: Sequence[Deployment]) -> list[tuple[Deployment, ...]]:
    """Group sessions: each joins the first group with which it shares most of its network."""
    grouped: list[list[Deployment]] = []
    for deployment in deployments:
        for group in grouped:
            if _joins(group, deployment):
                group.append(deployment)
                break
        else:
            grouped.append([deployment])
    return [tuple(group) for group in grouped]


def _joins(group: Sequence[Deployment], deployment: Deployment) -> bool:
    first, net = group[0].network, deployment.network
    if group[0].ladder is not None or deployment.ladder is not None:
        return False
    if first is None or net is None or first.reads != net.reads or first.card.framework != net.card.framework:
        return False
    trunk = trunk_of([*group, deployment])
    return trunk is not None and trunk.share >= _LEAST_SHARE


def trunk_of(members: Sequence[Deployment]) -> Trunk | None:
    """Return the common part of several networks and the tensors that leave it; ``None`` without one."""
    graphs: dict[str, tuple[LayerGraph, tuple[str, ...]]] = {}
    for member in members:
        assert member.network is not None  # functions are in no group
        recipe: NetworkRecipe = member.recipe  # type: ignore[assignment]
        layers = tuple(dict.fromkeys(layer for _, layer in recipe.outputs))
        graphs[member.session.name] = member.network.graph, layers
    expressions = [{graph.expression(name) for name in graph.ancestors(outputs)} for graph, outputs in graphs.values()]
    shared = set.intersection(*expressions)
    (first, first_outputs), *_ = graphs.values()
    theirs: dict[str, str] = {}
    for name in first.ancestors(first_outputs):
        theirs.setdefault(first.expression(name), name)
    names: dict[str, dict[str, str]] = {}
    share = 1.0
    for session, (graph, outputs) in graphs.items():
        needed = graph.ancestors(outputs)
        below = [name for name in needed if graph.expression(name) in shared]
        if not below:
            return None
        live = graph.cut(below, outputs).live
        names[session] = {name: theirs[graph.expression(name)] for name in live}
        total = graph.flops(needed)
        share = min(share, graph.flops(below) / total if total else 0.0)
    crossing = {name for layers in names.values() for name in layers.values()}
    return Trunk(tuple(name for name in first.names if name in crossing), names, share)


def group_recipe(members: Sequence[Deployment], ship: Callable[[Deployment], Recipe] | None = None) -> GroupRecipe:
    """Return the recipe by which a backend opens a group.

    ``ship`` returns the recipe of a deployment for workers. By default recipes are those for this process.
    """
    recipe_of = ship or (lambda member: member.recipe)
    member = members[0]
    if member.ladder is not None:
        variants = dict(zip(member.ladder.names, map(recipe_of, member.variants), strict=True))
        return GroupRecipe(member.session.name, {member.session.name: next(iter(variants.values()))}, variants=variants)
    by_session = {member.session.name: recipe_of(member) for member in members}
    name = "+".join(by_session)
    if len(members) == 1:
        return GroupRecipe(name, by_session)
    # They read the same records: the first one's reader names the layers that the trunk begins with.
    reader = next(iter(by_session.values())).reader
    return GroupRecipe(
        name, {session: replace(recipe, reader=reader) for session, recipe in by_session.items()}, trunk_of(members)
    )
