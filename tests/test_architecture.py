"""Architecture rules: allowed imports, modules that may open a session, places of files, and cost of imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import deque
from functools import cache
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FRONT = ("vista_spark", "cerebro_spark")
MAY_IMPORT = {
    "vista_spark": {"vista_spark", "udfs", "optimizer"},
    "cerebro_spark": {"cerebro_spark", "udfs", "optimizer"},
    "udfs": {"udfs", "optimizer"},
    "optimizer": {"optimizer"},
}
OURS = set(MAY_IMPORT)
OPTIMIZER_MAY_IMPORT = {*sys.stdlib_module_names, "optimizer", "numpy", "pulp", "highspy"}
# Adapters of Optuna's samplers and pruners; Optuna is imported only when one is used, and for types.
OPTIONAL = {"optimizer.procedures.studies": {"optuna"}}

# Files that need the classic Spark context. None does today; a file that must goes here and says why.
CLASSIC_ONLY: set[str] = set()
CLASSIC = {"rdd", "sparkContext", "_jvm", "_jdf", "_jsparkSession", "_sc", "_gateway"}

# pyspark.sql.functions needs a running session on classic Spark; the other names open one or ask for one.
NEEDS_SESSION = {"SparkSession", "getActiveSession", "is_remote", "functions", "active"}

# Packages of terminals and tracking servers, which only a driver has.
DRIVER_ONLY = {"typer", "rich", "mlflow"}
MAY_SHOW = {"udfs.driver": DRIVER_ONLY, "udfs.cli": {"typer", "rich"}}

# Code that both front packages need on the driver, and the contract suites, which run in a test's driver.
MAY_ASK_FOR_A_SESSION = {"udfs.driver", "udfs.testing"}

ROOM_FILES = {"__init__.py", "__main__.py", "errors.py"}

FILES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    """Dotted name of a file; a package goes by its folder."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


FOLDERS = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")


def package_of(path: Path) -> str:
    """Dotted name of the folder that a file lies in."""
    return ".".join(path.relative_to(ROOT).parent.parts)


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and absolute module of every import, those in functions and under TYPE_CHECKING included."""
    package = path.relative_to(ROOT).parent.parts
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, node.module or "")).strip(".")
            # "from package import module" imports the module, "from package import function" the package's face.
            names = [f"{module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name if name in MODULES else module) for name in names]
    return tuple(found)


def all_imports() -> dict[str, list[str]]:
    """Targets of the imports of every module."""
    return {name: [target for _, target in imported(path)] for name, path in MODULES.items()}


def import_graph(sources: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Our own modules that each module imports."""
    return {
        name: {target for target in targets if target in sources and target != name}
        for name, targets in sources.items()
    }


def shortest_circles(graph: Mapping[str, set[str]]) -> set[str]:
    """List the shortest circle through each module that is on one: ``"a -> b -> c"``, its first name the least."""
    circles = set()
    for start in graph:
        queue, seen = deque([(start,)]), {start}
        while queue:
            trail = queue.popleft()
            if start in graph[trail[-1]]:
                least = trail.index(min(trail))
                circles.add(" -> ".join((*trail[least:], *trail[:least])))
                break
            queue.extend((*trail, target) for target in sorted(graph[trail[-1]] - seen))
            seen |= graph[trail[-1]]
    return circles


def parts_graph(folder: str, sources: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Modules and folders directly in a folder, and those of them that each imports."""
    graph: dict[str, set[str]] = {}
    for name, targets in sources.items():
        part = part_of(folder, name)
        if part:
            parts = {part_of(folder, target) for target in targets}
            graph.setdefault(part, set()).update(parts - {part, ""})
    return {part: {target for target in targets if target in graph} for part, targets in graph.items()}


def part_of(folder: str, module: str) -> str:
    """Name of the module or folder directly in a folder that a module is or lies in; empty for one outside."""
    return module.removeprefix(f"{folder}.").split(".")[0] if module.startswith(f"{folder}.") else ""


def string_imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and module of every ``import_module`` whose string, or the beginning of it, names a module of ours."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        named = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        value = getattr(named, "value", None)
        if function == "import_module" and isinstance(value, str) and value.split(".")[0] in OURS:
            yield node.lineno, value


def test_there_is_something_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == OURS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    wrong = [
        f"{path}:{line} imports {module}"
        for line, module in imported(path)
        if (top := module.split(".")[0]) in OURS and top not in MAY_IMPORT[package]
    ]
    assert not wrong


@pytest.mark.parametrize("path", sorted((ROOT / "optimizer").rglob("*.py")), ids=module_name)
def test_the_optimizer_imports_numpy_and_an_ilp_at_most(path: Path) -> None:
    allowed = OPTIMIZER_MAY_IMPORT | OPTIONAL.get(package_of(path), set())
    assert not {module for _, module in imported(path) if module.split(".")[0] not in allowed}


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if package_of(path).startswith("udfs") and package_of(path) not in MAY_ASK_FOR_A_SESSION],
    ids=module_name,
)
def test_only_the_driver_room_asks_for_a_session(path: Path) -> None:
    tree = ast.parse(path.read_text())
    asked = [
        f"{path}:{node.lineno} uses {name}"
        for node in ast.walk(tree)
        if (name := getattr(node, "attr", None) or getattr(node, "id", None)) in NEEDS_SESSION - {"functions", "active"}
    ]
    asked += [
        f"{path}:{node.lineno} imports {alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark.sql")
        for alias in node.names
        if alias.name in NEEDS_SESSION
    ]
    asked += [f"{path}:{line} imports {module}" for line, module in imported(path) if module == "pyspark.sql.functions"]
    assert not asked


def test_the_command_line_is_imported_by_nobody() -> None:
    users = {
        f"{name} imports {target}"
        for name, path in MODULES.items()
        for _, target in imported(path)
        for room in FRONT
        if target.startswith((f"{room}.cli", f"{room}.__main__"))
        and not name.startswith((f"{room}.cli", f"{room}.__main__"))
    }
    assert not users


def test_no_module_imports_in_a_circle() -> None:
    graph = import_graph(all_imports())
    assert not shortest_circles(graph)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_parts_of_a_folder_import_in_no_circle(folder: str) -> None:
    """A part is a module of the folder, or a folder in it with all that it holds."""
    graph = parts_graph(folder, all_imports())
    assert not shortest_circles(graph)


def test_a_circle_of_folders_is_found() -> None:
    sources = {"room.a._x": ["room.b._y"], "room.b._z": ["room.a._w", "other.a"], "room.a": [], "other.a": ["room.b"]}
    assert shortest_circles(parts_graph("room", sources)) == {"a -> b"}
    assert not shortest_circles(parts_graph("room.a", sources))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_module_of_ours_is_imported_by_a_statement(path: Path) -> None:
    """A name in a string hides an import from these tests, from mypy and from tools that rename the module."""
    assert not list(string_imports(path.read_text()))


def test_a_string_import_is_found() -> None:
    text = 'import_module("udfs.store")\nimportlib.import_module(f"udfs.roster.{name}")\nimport_module("torch")'
    assert list(string_imports(text)) == [(1, "udfs.store"), (2, "udfs.roster.")]


@pytest.mark.parametrize("path", [path for path in FILES if package_of(path).startswith("udfs")], ids=module_name)
def test_only_the_driver_and_commands_show_and_track(path: Path) -> None:
    """Workers have no terminal and no tracking server."""
    refused = DRIVER_ONLY - MAY_SHOW.get(package_of(path), set())
    assert not {module for _, module in imported(path) if module.split(".")[0] in refused}


def test_a_circle_is_found() -> None:
    graph = import_graph({"a": ["b"], "b": ["c", "os"], "c": ["a"], "d": ["a", "d"]})
    assert shortest_circles(graph) == {"a -> b -> c"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_go_to_siblings_and_to_public_faces(path: Path) -> None:
    name, package = module_name(path), package_of(path)
    wrong = set()
    for _, target in imported(path):
        parts = target.split(".")
        private = [place for place, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
        owner = ".".join(parts[: private[0]]) if private else ""
        own_face = target == package and path.name != "__init__.py"
        foreign = private and parts[0] in OURS and not f"{package}.".startswith(f"{owner}.")
        if own_face or foreign:
            wrong.add((name, target))
    assert not wrong


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_the_table_of_folders_is_complete(room: str) -> None:
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text()
        .partition("### Folders of the systems")[2]
        .partition("Folders of systems to")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    column = rows[0].index(f"`{room}/`" if f"`{room}/`" in rows[0] else "public package")
    listed = {name.removeprefix(f"{room}/") for row in rows[2:] for name in re.findall(r"`([\w/]+)/`", row[column])}
    listed = {name for name in listed if "/" not in name}
    assert listed == {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_holds_code(folder: str) -> None:
    """A folder is created when its first code lands, not before."""
    paths = [path for name, path in MODULES.items() if f"{name}.".startswith(f"{folder}.")]
    assert any(len(ast.parse(path.read_text()).body) > 1 for path in paths)


@pytest.mark.parametrize("room", FRONT)
def test_a_front_room_has_no_loose_module(room: str) -> None:
    assert {path.name for path in (ROOT / room).glob("*.py")} <= ROOM_FILES


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=module_name)
def test_no_module_has_the_name_of_a_public_function_beside_it(path: Path) -> None:
    package = module_name(path)
    hidden = [
        f"{package}.{public} is a module and is also imported from {node.module}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module not in {None, package}
        for alias in node.names
        if f"{package}.{(public := alias.asname or alias.name)}" in MODULES
    ]
    assert not hidden


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_but_the_data_frame_api(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if name in CLASSIC_ONLY:
        pytest.skip("classic Spark only, on purpose")
    used = [
        f"{name}:{node.lineno} uses .{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLASSIC
    ]
    assert not used
    assert not [module for _, module in imported(path) if module.startswith(("py4j", "pyspark.rdd", "pyspark.core"))]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("vista_spark", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "skimage"}),
        ("udfs.inference", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "skimage", "pandas"}),
        ("optimizer.graph", {"torch", "pyspark", "pandas", "pyarrow", "PIL"}),
        ("optimizer.transfer", {"torch", "pyspark", "pandas", "pyarrow", "PIL"}),
        ("optimizer.space", {"torch", "pyspark", "pandas", "pyarrow", "PIL", "pulp"}),
        ("optimizer.hopper", {"torch", "pyspark", "pandas", "pyarrow", "PIL", "pulp"}),
        ("optimizer.serving", {"torch", "pyspark", "pandas", "pyarrow", "PIL", "pulp"}),
        ("optimizer.procedures.studies", {"torch", "pyspark", "pandas", "pyarrow", "PIL", "pulp", "optuna"}),
        ("cerebro_spark", {"torch", "tensorflow", "pyspark", "numpy", "pandas", "pyarrow", "mlflow"}),
        ("vista_spark.explaining.pages", {"torch", "tensorflow", "pyspark", "numpy", "pandas", "pyarrow", "mlflow"}),
        ("cerebro_spark.cli", {"torch", "tensorflow", "pyspark", "numpy", "pandas", "pyarrow", "mlflow"}),
        ("cerebro_spark.tune", {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "pulp", "optuna"}),
    ],
)
def test_an_import_stays_light(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(sorted({absent!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
