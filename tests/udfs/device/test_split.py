from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from device_catalogs import MB, SmallCatalog, photograph, small_catalog
from pyarrow import flight

from optimizer.approximate import split_cuts
from udfs.device import Installed, SuffixClient, SuffixServer, open_variant
from udfs.roster import card

if TYPE_CHECKING:
    from collections.abc import Iterator

    from udfs.roster import ModelCard


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> SmallCatalog:
    return small_catalog(tmp_path_factory.mktemp("scene"), "scene", full=40 * MB)


@pytest.fixture(scope="module")
def models(scene: SmallCatalog) -> dict[str, ModelCard]:
    squeezenet = card("squeezenet1_1")
    return {
        "residual": scene.catalog.full.model,
        "squeezenet": replace(squeezenet, preprocessing=squeezenet.preprocessing.with_size(64)),  # type: ignore[union-attr]
    }


@pytest.fixture(scope="module")
def server(models: dict[str, ModelCard]) -> Iterator[SuffixServer]:
    with SuffixServer({"scene": Installed(models, ())}, token="secret") as server:
        yield server


@pytest.mark.parametrize("name", ["residual", "squeezenet"])
def test_prefix_and_suffix_at_every_cut_equal_the_whole_network(models: dict[str, ModelCard], name: str) -> None:
    whole = open_variant(models[name])
    image = photograph(3)
    expected = whole.scores(image)
    assert np.isfinite(expected).all()
    assert expected.std() > 0
    names = whole.graph.names
    sets = [names[: place + 1] for place in range(len(names) - 1)] + [(layer,) for layer in names[:-1]]
    for at in sets:
        cut = whole.graph.cut(at)
        tensors = whole.prefix(image, cut)
        assert sum(tensor.nbytes for tensor in tensors.values()) == cut.live_bytes
        np.testing.assert_allclose(whole.finish(tensors), expected, rtol=1e-5, atol=1e-6, err_msg=str(at))


@pytest.mark.parametrize("name", ["residual", "squeezenet"])
def test_tensors_sent_to_the_server_give_the_scores_of_the_whole_network(
    models: dict[str, ModelCard], server: SuffixServer, name: str
) -> None:
    whole = open_variant(models[name])
    image = photograph(4)
    client = SuffixClient(server.address, "secret")
    cuts = split_cuts(whole.graph)
    assert len(cuts) >= 2
    for each in cuts:
        # The device has no memory for the layers that run in the cloud.
        prefix = open_variant(models[name], graph=whole.graph, cut=each.cut)
        scores = client.scores("scene", name, prefix.prefix(image, each.cut), 30)
        np.testing.assert_allclose(scores, whole.scores(image), rtol=1e-5, atol=1e-6, err_msg=each.place)
        with pytest.raises(RuntimeError):
            prefix.scores(image)


def test_requests_without_the_token_or_with_other_tensors_are_refused(server: SuffixServer) -> None:
    tensors = {"x": np.zeros((1, 3, 32, 32), np.float32)}
    for token in ("wrong", ""):
        with pytest.raises(flight.FlightUnauthenticatedError, match="The token must be that of the server"):
            SuffixClient(server.address, token).scores("scene", "residual", tensors, 30)
    client = SuffixClient(server.address, "secret")
    assert client.scores("scene", "residual", tensors, 30).shape == (5,)
    with pytest.raises(flight.FlightServerError, match=r"tensor 'x' must be float32 \(1, 3, 32, 32\)"):
        client.scores("scene", "residual", {"x": np.zeros((1, 3, 16, 16), np.float32)}, 30)
    with pytest.raises(flight.FlightServerError, match="variant must be installed in the cloud, got 'other'"):
        client.scores("scene", "other", tensors, 30)
    with pytest.raises(flight.FlightServerError, match=r"left\.1"):
        client.scores("scene", "residual", {"left.1": np.zeros((1, 16, 16, 16), np.float32)}, 30)


@pytest.mark.parametrize("token", [None, ""])
def test_a_server_for_other_machines_needs_a_token(token: str | None) -> None:
    with pytest.raises(ValueError, match=r"token must be a non-empty str at '0\.0\.0\.0'"):
        SuffixServer({}, host="0.0.0.0", token=token)
