"""What an agent's tools print: listings, code, logs, JSON, diffs, test reports and search hits, as text.

Each maker takes a random source and a length and returns text of at least that many characters, in whole lines.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

from workloads.lexicon import ACTIONS, MODULES, SUBJECTS

ToolOutput: TypeAlias = Callable[[random.Random, int], str]

_TYPES = ("str", "int", "float", "bytes", "list[str]", "dict[str, int]", "datetime | None")
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARNING", "ERROR")


def source_path(rng: random.Random) -> str:
    """A path as a mid-sized service has it."""
    return f"src/{rng.choice(MODULES)}/{rng.choice(SUBJECTS)}_{rng.choice(SUBJECTS)}.py"


def listing(rng: random.Random, chars: int) -> str:
    """Long-form directory listing."""
    return _gather((_listed_file(rng) for _ in _forever()), chars)


def code(rng: random.Random, chars: int) -> str:
    """Numbered lines of a Python module."""
    lines = chain(
        ["from __future__ import annotations", "", f"from {rng.choice(MODULES)} import {rng.choice(SUBJECTS)}", ""],
        (line for _ in _forever() for line in _function(rng)),
    )
    return _gather((f"{number:>4}  {line}".rstrip() for number, line in enumerate(lines, start=1)), chars)


def log(rng: random.Random, chars: int) -> str:
    """Service log with moving timestamps and, now and then, a traceback."""
    return _gather(_log_lines(rng), chars)


def json_rows(rng: random.Random, chars: int) -> str:
    """Rows of a query as indented JSON."""
    rows: list[str] = []
    written = 0
    while written < chars:
        rows.append(json.dumps(_row(rng), indent=2))
        written += len(rows[-1]) + 2
    return "[\n" + ",\n".join(rows) + "\n]"


def diff(rng: random.Random, chars: int) -> str:
    """Unified diff over one or several files."""
    return _gather((line for _ in _forever() for line in _hunk(rng)), chars)


def test_report(rng: random.Random, chars: int) -> str:
    """Verbose pytest output with a failure or two."""
    return _gather(_test_lines(rng), chars)


def search_hits(rng: random.Random, chars: int) -> str:
    """Search results: path, line number, line."""
    wanted = rng.choice(SUBJECTS)
    return _gather(
        (f"{source_path(rng)}:{rng.randint(3, 640)}:    {_statement(rng, wanted)}" for _ in _forever()), chars
    )


TOOL_OUTPUTS: dict[str, ToolOutput] = {
    "listing": listing,
    "code": code,
    "log": log,
    "json": json_rows,
    "diff": diff,
    "tests": test_report,
    "search": search_hits,
}


def _forever() -> Iterator[None]:
    while True:
        yield None


def _gather(lines: Iterator[str], chars: int) -> str:
    taken: list[str] = []
    written = 0
    for line in lines:
        taken.append(line)
        written += len(line) + 1
        if written > chars:
            break
    return "\n".join(taken)


def _listed_file(rng: random.Random) -> str:
    size = int(rng.lognormvariate(8.0, 1.3))
    stamp = f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d} {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    return f"-rw-r--r-- 1 build build {size:>8} {stamp} {source_path(rng)}"


def _statement(rng: random.Random, subject: str) -> str:
    action, other = rng.choice(ACTIONS), rng.choice(SUBJECTS)
    return rng.choice(
        (
            f"{subject} = self.{other}s.{action}({subject}_id)",
            f"if {subject}.{other}_count > {rng.choice((0, 1, 16, 100, 512))}:",
            f"{other} = {action}_{subject}({subject}, timeout_s={rng.choice((1, 5, 30))})",
            f'logger.info("{action} {subject} %s", {subject}.{other}_id)',
            f"return [{other} for {other} in {subject}.{other}s if {other}.is_{action}ed]",
            f'raise {subject.title()}Error(f"cannot {action} {{{subject}_id}}")',
        )
    )


def _function(rng: random.Random) -> list[str]:
    action, subject, other = rng.choice(ACTIONS), rng.choice(SUBJECTS), rng.choice(SUBJECTS)
    head = f"def {action}_{subject}({subject}_id: {rng.choice(_TYPES)}, {other}: {rng.choice(_TYPES)}) -> bool:"
    body: list[str] = []
    indent = "    "
    for _ in range(rng.randint(2, 7)):
        line = _statement(rng, subject)
        body.append(indent + line)
        indent = "        " if line.endswith(":") else "    "
    if body[-1].endswith(":"):
        body.append(f"        {other}.{rng.choice(ACTIONS)}()")
    return [head, f'    """{action.capitalize()} the {subject} of one {other}."""', *body, "    return True", "", ""]


def _log_lines(rng: random.Random) -> Iterator[str]:
    at_ms = rng.randint(0, 80_000_000)
    while True:
        at_ms += int(rng.expovariate(1 / 180))
        seconds, millis = divmod(at_ms, 1000)
        stamp = f"2026-03-14T{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{millis:03d}Z"
        level, module, subject = rng.choice(_LEVELS), rng.choice(MODULES), rng.choice(SUBJECTS)
        yield (
            f"{stamp} {level:<7} {module}.{subject} {rng.choice(ACTIONS)} {subject}={rng.getrandbits(32):08x} "
            f"took={rng.lognormvariate(2.5, 1.0):.1f}ms attempt={rng.randint(1, 4)}"
        )
        if level == "ERROR" and rng.random() < 0.5:
            yield from _traceback(rng)


def _traceback(rng: random.Random) -> list[str]:
    frames = [
        line
        for _ in range(rng.randint(2, 4))
        for line in (
            f'  File "/srv/app/{source_path(rng)}", line {rng.randint(10, 500)}, in {rng.choice(ACTIONS)}',
            f"    {_statement(rng, rng.choice(SUBJECTS))}",
        )
    ]
    error = f"{rng.choice(SUBJECTS).title()}Error: {rng.choice(SUBJECTS)} {rng.randint(100, 999_999)} not found"
    return ["Traceback (most recent call last):", *frames, error]


def _row(rng: random.Random) -> dict[str, object]:
    return {
        "id": rng.randint(10_000, 999_999),
        rng.choice(SUBJECTS): f"{rng.choice(ACTIONS)}-{rng.getrandbits(24):06x}",
        "status": rng.choice(("active", "pending", "failed", "closed")),
        "amount": round(rng.lognormvariate(3, 1), 2),
        "tags": rng.sample(SUBJECTS, rng.randint(0, 3)),
        "updated_at": f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
    }


def _hunk(rng: random.Random) -> list[str]:
    path, start, length = source_path(rng), rng.randint(5, 400), rng.randint(5, 12)
    head = [
        f"diff --git a/{path} b/{path}",
        f"index {rng.getrandbits(28):07x}..{rng.getrandbits(28):07x} 100644",
        f"--- a/{path}",
        f"+++ b/{path}",
        f"@@ -{start},{length} +{start},{length + 1} @@ def {rng.choice(ACTIONS)}_{rng.choice(SUBJECTS)}(",
    ]
    body = [rng.choice("  +-") + "    " + _statement(rng, rng.choice(SUBJECTS)) for _ in range(length)]
    return head + body


def _test_lines(rng: random.Random) -> Iterator[str]:
    yield "============================= test session starts =============================="
    yield f"platform linux -- Python 3.11.9, pytest-8.3.2\ncollected {rng.randint(40, 900)} items\n"
    while True:
        name = f"tests/{rng.choice(MODULES)}/test_{rng.choice(SUBJECTS)}.py::test_{rng.choice(ACTIONS)}"
        failed = rng.random() < 0.06
        yield f"{name}_{rng.choice(SUBJECTS)} {'FAILED' if failed else 'PASSED'} [{rng.randint(1, 100):>3}%]"
        if failed:
            left, right = rng.randint(0, 40), rng.randint(41, 90)
            yield f"E       assert {left} == {right}"
            yield f"E        +  where {left} = {_statement(rng, rng.choice(SUBJECTS))}"
