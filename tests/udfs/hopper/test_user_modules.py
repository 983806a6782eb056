"""Modules beside the user's code that a trainer imports, and the search for them on a worker."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from udfs.hopper import MissingModules, imported_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "networks_beside_the_script"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    package = tmp_path / NAME
    package.mkdir()
    (package / "__init__.py").write_text(
        "import functools\n\ndef build():\n    return 1\n\n\nclass Net:\n    pass\n\ncached = functools.cache(build)\n"
        "\n@functools.cache\ndef width():\n    return 1\n"
    )
    (package / "heads.py").write_text("RATE = 0.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)
    sys.modules.pop(f"{NAME}.heads", None)


def of_main(function: Any) -> Any:
    """Make a function travel by value, as one of a script."""
    function.__module__ = "__main__"
    return function


def test_modules_are_found_however_they_are_used(own: Any) -> None:
    build, net, width, cached = own.build, own.Net(), own.width, own.cached

    def late(params: Any) -> Any:
        def inner() -> Any:
            from networks_beside_the_script import heads  # type: ignore[import-not-found]

            return heads

        return inner()

    uses: list[Callable[[Any], Any]] = [lambda _: own.build(), lambda _: build(), lambda _: type(net), late]
    uses += [lambda _: width(), lambda _: cached()]
    for function in uses:
        assert imported_modules(of_main(function)) == (NAME,)
    cloudpickle.register_pickle_by_value(own)
    try:
        assert imported_modules(of_main(lambda _: build())) == ()
        assert imported_modules(of_main(lambda _: width())) == ()
    finally:
        cloudpickle.unregister_pickle_by_value(own)


def test_installed_modules_attributes_and_texts_are_none(own: Any) -> None:
    def trainer(params: Any) -> Any:
        import json

        return params.networks_beside_the_script, NAME, json, np.zeros(1), OrderedDict()

    assert imported_modules(of_main(trainer)) == ()


def test_a_worker_names_what_it_does_not_find() -> None:
    batches = [pa.RecordBatch.from_pydict({"id": [0]})]
    (found,) = MissingModules(("numpy", "no_such_module_at_all"))(batches)
    assert found.column("name").to_pylist() == ["no_such_module_at_all"]
