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
def parsed(path: Path) -> tuple[int, tuple[ast.AST, ...]]:
    """Count the statements of a file and list the nodes that rules look at, once: parsing all files takes seconds."""
    tree = ast.parse(path.read_text())
    kept = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.Call)
    return len(tree.body), tuple(node for node in ast.walk(tree) if isinstance(node, kept))


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return imports, names, attributes and calls of a file."""
    return parsed(path)[1]


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and absolute module of every import, those in functions and under TYPE_CHECKING included."""
    package = path.relative_to(ROOT).parent.parts
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
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


def string_imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and module of every ``import_module`` whose string, or the beginning of it, names a module of ours."""
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        named = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        value = getattr(named, "value", None)
        if function == "import_module" and isinstance(value, str) and value.split(".")[0] in OURS:
            yield node.lineno, value


def test_there_is_something_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == OURS


# A rule is one test of all files: a test of each file would be thousands, and take longer than the rules.
def test_imports_go_one_way() -> None:
    assert not [
        f"{path}:{line} imports {module}"
        for path in FILES
        for line, module in imported(path)
        if (top := module.split(".")[0]) in OURS and top not in MAY_IMPORT[path.relative_to(ROOT).parts[0]]
    ]


def test_the_optimizer_imports_numpy_and_an_ilp_at_most() -> None:
    assert not [
        f"{path}:{line} imports {module}"
        for path in FILES
        if path.is_relative_to(ROOT / "optimizer")
        for line, module in imported(path)
        if module.split(".")[0] not in OPTIMIZER_MAY_IMPORT | OPTIONAL.get(package_of(path), set())
    ]


def test_only_the_driver_room_asks_for_a_session() -> None:
    paths = [
        path for path in FILES if package_of(path).startswith("udfs") and package_of(path) not in MAY_ASK_FOR_A_SESSION
    ]
    asked = [
        f"{path}:{node.lineno} uses {name}"
        for path in paths
        for node in nodes_of(path)
        if (name := getattr(node, "attr", None) or getattr(node, "id", None)) in NEEDS_SESSION - {"functions", "active"}
    ]
    asked += [
        f"{path}:{node.lineno} imports {alias.name}"
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark.sql")
        for alias in node.names
        if alias.name in NEEDS_SESSION
    ]
    asked += [
        f"{path}:{line} imports {module}"
        for path in paths
        for line, module in imported(path)
        if module == "pyspark.sql.functions"
    ]
    assert paths
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


def test_the_parts_of_a_folder_import_in_no_circle() -> None:
    """A part is a module of the folder, or a folder in it with all that it holds."""
    sources = all_imports()
    circles = {folder: shortest_circles(parts_graph(folder, sources)) for folder in FOLDERS}
    assert not {folder: wrong for folder, wrong in circles.items() if wrong}


def test_a_circle_of_folders_is_found() -> None:
    sources = {"room.a._x": ["room.b._y"], "room.b._z": ["room.a._w", "other.a"], "room.a": [], "other.a": ["room.b"]}
    assert shortest_circles(parts_graph("room", sources)) == {"a -> b"}
    assert not shortest_circles(parts_graph("room.a", sources))


def test_a_module_of_ours_is_imported_by_a_statement() -> None:
    """A name in a string hides an import from these tests, from mypy and from tools that rename the module."""
    assert not [f"{path}:{line} imports {name}" for path in FILES for line, name in string_imports(nodes_of(path))]


def test_a_string_import_is_found() -> None:
    text = 'import_module("udfs.store")\nimportlib.import_module(f"udfs.roster.{name}")\nimport_module("torch")'
    assert list(string_imports(ast.walk(ast.parse(text)))) == [(1, "udfs.store"), (2, "udfs.roster.")]


def test_only_the_driver_and_commands_show_and_track() -> None:
    """Workers have no terminal and no tracking server."""
    assert not [
        f"{path}:{line} imports {module}"
        for path in FILES
        if package_of(path).startswith("udfs")
        for line, module in imported(path)
        if module.split(".")[0] in DRIVER_ONLY - MAY_SHOW.get(package_of(path), set())
    ]


def test_a_circle_is_found() -> None:
    graph = import_graph({"a": ["b"], "b": ["c", "os"], "c": ["a"], "d": ["a", "d"]})
    assert shortest_circles(graph) == {"a -> b -> c"}


def leaves_its_package(path: Path, target: str) -> bool:
    """Return whether a module imports the face of its own package, or a private module of another one."""
    package, parts = package_of(path), target.split(".")
    private = [place for place, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
    owner = ".".join(parts[: private[0]]) if private else ""
    own_face = target == package and path.name != "__init__.py"
    return own_face or bool(private and parts[0] in OURS and not f"{package}.".startswith(f"{owner}."))


def test_imports_go_to_siblings_and_to_public_faces() -> None:
    assert not [
        f"{path}:{line} imports {target}"
        for path in FILES
        for line, target in imported(path)
        if leaves_its_package(path, target)
    ]


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


def test_a_folder_holds_code() -> None:
    """A folder is created when its first code lands, not before."""
    with_code = [f"{name}." for name, path in MODULES.items() if parsed(path)[0] > 1]
    assert not [folder for folder in FOLDERS if not any(name.startswith(f"{folder}.") for name in with_code)]


@pytest.mark.parametrize("room", FRONT)
def test_a_front_room_has_no_loose_module(room: str) -> None:
    assert {path.name for path in (ROOT / room).glob("*.py")} <= ROOM_FILES


def test_no_module_has_the_name_of_a_public_function_beside_it() -> None:
    assert not [
        f"{package}.{public} is a module and is also imported from {node.module}"
        for package in FOLDERS
        for node in nodes_of(MODULES[package])
        if isinstance(node, ast.ImportFrom) and node.module not in {None, package}
        for alias in node.names
        if f"{package}.{(public := alias.asname or alias.name)}" in MODULES
    ]


def test_nothing_but_the_data_frame_api() -> None:
    paths = [path for path in FILES if str(path.relative_to(ROOT)) not in CLASSIC_ONLY]
    used = [
        f"{path}:{node.lineno} uses .{node.attr}"
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr in CLASSIC
    ]
    used += [
        f"{path}:{line} imports {module}"
        for path in paths
        for line, module in imported(path)
        if module.startswith(("py4j", "pyspark.rdd", "pyspark.core"))
    ]
    assert not used


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
