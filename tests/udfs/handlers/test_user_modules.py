"""Modules of the user: told from installed ones wherever those lie, and sent to workers with all that they read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from udfs.handlers import UntraceableModelError, own_packages
from udfs.handlers._pickling import dumped

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def written(folder: Path, name: str, text: str = "VALUE = 1\n") -> Any:
    path = folder / f"{name.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return import_module(name)


def distribution(folder: Path, name: str, *files: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_modules_beside_the_users_code_are_own(folder: Path) -> None:
    written(folder, "plain_module_1")
    written(folder, "plain_package_1.inner")
    assert own_packages(["plain_module_1", "plain_package_1.inner"]) == {"plain_module_1", "plain_package_1"}


@pytest.mark.parametrize("site", ["lib/python3.11/site-packages", "local/lib/python3.11/dist-packages"])
def test_modules_in_a_site_folder_of_any_prefix_are_installed(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User site, layered environments (Databricks), Debian: folders that are not this interpreter's own."""
    folder = tmp_path / site
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    name = f"layered_{site.count('/')}{len(site)}"
    written(folder, name)
    assert own_packages([name]) == set()


def test_modules_of_a_distribution_are_installed_wherever_it_lies(folder: Path) -> None:
    """``pip install --target`` and PYTHONPATH."""
    distribution(folder, "targeted", "targeted_1/__init__.py", "targeted_2.py")
    written(folder, "targeted_1.__init__")
    written(folder, "targeted_2")
    written(folder, "beside_them")
    assert own_packages(["targeted_1", "targeted_2", "beside_them"]) == {"beside_them"}


def test_an_editable_install_is_own(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its metadata lie in the environment, which lists no file of it but a hook."""
    site = tmp_path_factory.mktemp("site")
    distribution(site, "edited", "__editable__.edited-1.0.pth")
    sys.path.append(str(site))
    try:
        written(folder, "edited")
        assert own_packages(["edited"]) == {"edited"}
    finally:
        sys.path.remove(str(site))


def test_files_that_spark_ships_are_on_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "spark-1" / "userFiles-2"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(folder)
    written(folder, "shipped_module")
    assert own_packages(["shipped_module"]) == set()


LAYER = """
    {imports}

    {helper}

    class Layer:
        def __call__(self, number):
            return {call}
"""
CACHED = "@{decorator}\n    def half(number):\n        return number / 2"


@pytest.mark.parametrize(
    ("imports", "helper", "call"),
    [
        ("import functools", CACHED.format(decorator="functools.lru_cache"), "half(number)"),
        ("import functools", CACHED.format(decorator="functools.lru_cache(maxsize=3, typed=True)"), "half(number)"),
        ("from functools import cache", CACHED.format(decorator="cache"), "half(number)"),
        ("import functools", CACHED.format(decorator="functools.singledispatch"), "half(number)"),
        ("import functools", CACHED.format(decorator="functools.partial(functools.partial)"), "half(number)"),
        ("from other_module_{n} import half", "", "half(number)"),
        ("import other_module_{n}", "", "other_module_{n}.half(number)"),
        ("import other_package_{n}.inner", "", "other_package_{n}.inner.half(number)"),
    ],
    ids=[
        "lru_cache",
        "lru_cache with arguments",
        "cache",
        "singledispatch",
        "a decorator",
        "from",
        "import",
        "package",
    ],
)
def test_a_class_travels_with_its_helpers(
    imports: str, helper: str, call: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    number = abs(hash(request.node.name)) % 10**6
    half = "def half(number):\n    return number / 2\n"
    written(folder, f"other_module_{number}", half)
    written(folder, f"other_package_{number}.inner", half)
    (folder / f"other_package_{number}" / "__init__.py").write_text("")
    name = f"layer_module_{number}"
    filled = (part.replace("{n}", str(number)) for part in (imports, helper, call))
    module = written(folder, name, LAYER.format(**dict(zip(("imports", "helper", "call"), filled, strict=True))))
    data = dumped(module.Layer(), [module.Layer])
    file = folder / "value.pickle"
    file.write_bytes(data)
    code = f"import pickle; print(pickle.load(open({str(file)!r}, 'rb'))(3.0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.strip() == "1.5", done.stderr


def test_a_cached_helper_keeps_its_settings(folder: Path) -> None:
    import pickle

    module = written(
        folder,
        "cached_settings",
        """
        import functools

        @functools.lru_cache(maxsize=3)
        def half(number):
            return number / 2 if number < 10 else half(number - 2) + 1

        class A:
            def __call__(self):
                return half
        """,
    )
    helper = pickle.loads(dumped(module.A(), [module.A]))()
    assert helper.cache_parameters() == {"maxsize": 3, "typed": False}
    assert (helper(13), helper(3)) == (6.5, 1.5)
    assert helper.cache_info().currsize == 3  # a function that calls itself calls the cached one


def test_a_cached_property_travels(folder: Path) -> None:
    text = """
        import functools

        class Layer:
            @functools.cached_property
            def factor(self):
                return [0.5]

            def __call__(self, number):
                return number * self.factor[0], self.factor is self.factor
    """
    module = written(folder, "cached_property_module", text)
    file = folder / "value.pickle"
    file.write_bytes(dumped(module.Layer(), [module.Layer]))
    code = f"import pickle; print(pickle.load(open({str(file)!r}, 'rb'))(3.0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.strip() == "(1.5, True)", done.stderr


def test_a_helper_that_cannot_travel_is_named_on_the_driver(folder: Path) -> None:
    text = """
        import numpy

        half = numpy.frompyfunc(lambda number: number / 2, 1, 1)
        half.__module__

        class Named:
            def __reduce__(self):
                return "half"

        Named.__module__ = __name__
        half = Named()
        half.__module__ = __name__

        class Layer:
            def __call__(self, number):
                return half
    """
    module = written(folder, "named_helper", text.replace("        half.__module__\n", ""))
    with pytest.raises(
        UntraceableModelError, match=r"half of module named_helper must be a function or a class .*Named"
    ):
        dumped(module.Layer(), [module.Layer])


SCRIPT = """
    import functools
    import sys

    from pyspark import cloudpickle

    import udfs.driver


    @functools.lru_cache(maxsize=3)
    def half(number):
        return number / 2 if number < 10 else half(number - 2) + 1


    @functools.cache
    def quarter(number):
        return half(number) / 2


    def decorated(function):
        @functools.wraps(function)
        def call(number):
            return function(number)

        return call


    @decorated
    @functools.lru_cache
    def eighth(number):
        return quarter(number) / 2


    @functools.singledispatch
    def added(number):
        return half(number)


    @added.register
    def _(number: int):
        return half(number) + 1


    added(3), added(3.0)  # fills the cache of the implementations


    class Halves:
        @functools.lru_cache
        def method(self, number):
            return half(number)

        @staticmethod
        @functools.cache
        def static(number):
            return quarter(number)

        @functools.cached_property
        def value(self):
            return half(6.0)


    def local():
        @functools.cache
        def inner(number):
            return half(number)

        return inner


    def work():
        halves = Halves()
        assert half.cache_parameters() == {"maxsize": 3, "typed": False}
        found = [half(13), quarter(2), eighth(8), added(4), added(4.0), halves.method(2), halves.static(4)]
        return [*found, halves.value, inner(8), half.cache_info().currsize]


    inner = local()
    sent = half, quarter, eighth, added, Halves().method, local(), functools.partial(quarter, 2.0), work
    with open(sys.argv[1], "wb") as file:
        file.write(cloudpickle.dumps(sent))
    assert half.cache_info().currsize
"""


def test_cached_helpers_of_the_main_script_travel_with_sparks_pickler(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "sent.pickle"
    script.write_text(textwrap.dedent(SCRIPT))
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run([sys.executable, str(script), str(file)], env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert done.returncode == 0, done.stderr
    code = f"""
import pickle
half, quarter, eighth, added, method, inner, two, work = pickle.load(open({str(file)!r}, 'rb'))
print([half(3.0), quarter(3.0), eighth(8), added(3), added(3.0), method(3.0), inner(3.0), two()], work())
"""
    done = run([sys.executable, "-c", code])
    wanted = [1.5, 0.75, 1.0, 2.5, 1.5, 1.5, 1.5, 0.5], [6.5, 0.5, 1.0, 3.0, 2.0, 1.0, 1.0, 3.0, 4.0, 3]
    assert done.stdout.strip() == f"{wanted[0]} {wanted[1]}", done.stderr


def test_a_cached_function_that_workers_can_import_travels_by_its_name() -> None:
    import pickle

    from pyspark import cloudpickle

    import udfs.driver  # noqa: F401 - registers how they travel
    from udfs.handlers._installed_packages import _is_installed

    assert pickle.loads(cloudpickle.dumps(_is_installed)) is _is_installed
