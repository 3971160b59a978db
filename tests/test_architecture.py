"""The house rules that a machine can check: imports flow one way, no cycles, files and functions stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*ROOT.glob("harness/**/*.py"), *ROOT.glob("workloads/**/*.py")])

# A room may import from the rooms of a lower rank and from its own; rooms of equal rank do not know each other.
RANK = {
    "workloads.plan": 0,
    "workloads": 1,
    "harness": 2,
    "harness.clock": 2,
    "harness.records": 2,
    "harness.stats": 2,
    "harness.endpoint": 3,
    "harness.store": 3,
    "harness.checks": 3,
    "harness.metrics": 3,
    "harness.memory": 3,
    "harness.drive": 4,
    "harness.gate": 4,
    "harness.report": 5,
    "harness.cli": 6,
}
GROUND = {"workloads.plan", "harness", "harness.clock", "harness.records", "harness.stats"}
PURE = {"harness.checks", "harness.gate", "harness.metrics", "harness.memory", "workloads"}
IO_MODULES = {"aiohttp", "asyncio", "os", "pathlib", "requests", "socket", "subprocess", "tempfile", "urllib"}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imports_of(path: Path) -> set[str]:
    """Absolute names of everything a file imports; `from a import b` counts as a.b when that is one of our modules."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else base for name in names}
    return found


MODULES = {module_name(path) for path in SOURCES}


def room_of(module: str) -> str:
    if module == "workloads.plan":
        return module
    if module.split(".")[0] == "workloads":
        return "workloads"
    return ".".join(module.split(".")[:2])


def ours(module: str) -> bool:
    return module.split(".")[0] in {"harness", "workloads"}


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_flow_one_way(path: Path) -> None:
    here = room_of(module_name(path))
    for name in filter(ours, imports_of(path)):
        there = room_of(name)
        if here == there:
            continue
        if here == "harness.reference":
            pytest.fail(f"the embedded engine imports {name}: it must stand alone")
        if there == "harness.reference":
            assert here == "harness.cli", f"{here} imports the embedded engine"
            continue
        assert here in RANK and there in RANK, f"{here} -> {there}: not a room of the architecture page"
        lower = RANK[there] < RANK[here] or (there in GROUND and RANK[there] == RANK[here])
        assert lower, f"{module_name(path)} imports {name}, which is not below it"


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(module_name(p)) in PURE], ids=module_name)
def test_pure_rooms_do_no_io(path: Path) -> None:
    used = {name.split(".")[0] for name in imports_of(path)} & IO_MODULES
    assert not used, f"{module_name(path)} imports {sorted(used)}"


def test_no_import_cycles() -> None:
    graph = {module_name(path): {n for n in imports_of(path) if n in MODULES} for path in SOURCES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        if module not in done:
            for target in sorted(graph[module] - {module}):
                visit(target, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    docstring = ast.get_docstring(node, clean=False)
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    return length - (docstring.count("\n") + 1 if docstring else 0)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert function_lines(node) <= MAX_FUNCTION_LINES, f"{node.name} has {function_lines(node)} lines"


def test_every_room_is_on_the_architecture_page() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {room_of(name) for name in MODULES if "." in name}
    assert not [room for room in sorted(rooms) if room.replace(".", "/") not in page and room not in page]


def test_nothing_named_utils() -> None:
    assert not [p for p in SOURCES if p.stem in {"utils", "util", "common", "helpers", "misc"}]
