"""A healthy engine carries nothing of the faults: no part is overridden, and no engine module knows them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import harness.reference
from harness.reference.faults.registry import FAULTS
from harness.reference.faults.spec import parse_fault
from harness.reference.scheduler.engine import Engine
from tests.reference.driving import tiny_engine, tiny_options

ROOT = Path(harness.reference.__file__).parent
KNOW_FAULTS = {"__main__.py", "server/running.py"}
EVERYTHING = tiny_options(speculative_tokens=2, host_bytes=1 << 20)


def overridden(engine: Engine) -> list[str]:
    """Acts of the engine's parts that are not their classes' own."""
    found, seen = [], set[int]()
    waiting: list[object] = [engine]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or not type(part).__module__.startswith("harness.reference"):
            continue
        seen.add(id(part))
        if type(part).__module__.startswith("harness.reference.faults"):
            found.append(type(part).__name__)
        for name, value in vars(part).items() if hasattr(part, "__dict__") else ():
            if inspect.isfunction(value) and hasattr(type(part), name):
                found.append(f"{type(part).__name__}.{name}")
            waiting.append(value)
    return found


def test_no_act_of_a_healthy_engine_is_overridden() -> None:
    assert overridden(tiny_engine(EVERYTHING)) == []


def test_a_planted_fault_overrides_acts() -> None:
    """What the test above looks for is there when a fault is."""
    engine = tiny_engine(EVERYTHING)
    parse_fault("K01").build().plant(engine)
    assert set(overridden(engine)) == {"ForwardRunner.prefill", "StateIO.load_snapshot"}


def test_the_engine_does_not_know_its_faults() -> None:
    for path in ROOT.glob("**/*.py"):
        name = str(path.relative_to(ROOT))
        if name.startswith("faults/") or name in KNOW_FAULTS:
            continue
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not [node.module for node in imports if ".faults" in (node.module or "")], name


def test_a_fault_is_one_class_in_one_file() -> None:
    files = {inspect.getfile(fault) for fault in FAULTS.values()}
    assert len(files) == len(FAULTS)
    assert all(len(Path(file).read_text().splitlines()) <= 160 for file in files)
