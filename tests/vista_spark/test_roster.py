"""The public path of the roster."""

from __future__ import annotations

import vista_spark.roster
from udfs import roster


def test_the_public_path_has_the_objects_of_the_package_that_executes() -> None:
    names = vista_spark.roster.__all__
    assert len(names) == 19
    assert all(getattr(vista_spark.roster, name) is getattr(roster, name) for name in names)
