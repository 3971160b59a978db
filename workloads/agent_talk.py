"""What an agent, its user and its tools say besides tool output: tasks, remarks, calls, definitions, instructions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from workloads.lexicon import ACTIONS, MODULES, SUBJECTS
from workloads.plan import Json
from workloads.tool_output import source_path

MakeText: TypeAlias = Callable[[random.Random, int], str]

SUMMARY_HEAD = (
    "The conversation so far grew too long and was replaced by this summary. Go on with the task from here, without "
    "asking again what it already answers."
)
# Kinds of tool output that users paste into their own messages.
PASTED = ("log", "code", "tests")
INSTRUCTIONS = (
    "You are a coding agent that works in a user's repository through the tools you are given. Look before you change "
    "anything: read the code, run the tests, and say what you found. Keep each change small, keep the style of the "
    "file, and run the tests again after it. Ask only when the task cannot be understood without an answer."
)
_RULES = (
    "In {module}, never {action} a {subject} without a test that covers the {other}.",
    "Prefer an explicit {subject} argument over a global {other}; {module} is being cleaned of globals.",
    "Files under src/{module} are generated from the {subject} schema: change the schema, then run the generator.",
    "When you {action} a {subject}, log its id and the {other}, and nothing that could be a secret.",
    "A {subject} may be missing in old records: treat it as not reported, not as an empty {other}.",
    "Migrations in {module} must {action} in both directions and keep the {subject} readable meanwhile.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the agent may call: its parameters (name to description) and the kind of output it prints."""

    name: str
    description: str
    parameters: Mapping[str, str]
    output: str

    def definition(self) -> Mapping[str, Json]:
        """The tool in OpenAI's terms."""
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        schema: Json = {"type": "object", "properties": properties, "required": list(self.parameters)}
        function: Json = {"name": self.name, "description": self.description, "parameters": schema}
        return {"type": "function", "function": function}

    def arguments(self, rng: random.Random) -> str:
        """Arguments of one call, as JSON text."""
        return json.dumps({name: _argument(rng, name) for name in self.parameters})


TOOLS: tuple[Tool, ...] = (
    Tool(name="read_file", description="Read a file.", parameters={"path": "file to read"}, output="code"),
    Tool(name="run_tests", description="Run tests.", parameters={"path": "test file"}, output="tests"),
    Tool(name="list_files", description="List a folder.", parameters={"folder": "its path"}, output="listing"),
    Tool(name="read_log", description="Read a service's log.", parameters={"service": "its name"}, output="log"),
    Tool(
        name="search_text",
        description="Search the repository for a pattern and print each match with its path and line number.",
        parameters={"pattern": "regular expression", "path": "folder to search in"},
        output="search",
    ),
    Tool(
        name="show_diff",
        description="Show the uncommitted changes of the working tree, or those against a revision.",
        parameters={"revision": "commit or branch to compare with", "path": "file or folder"},
        output="diff",
    ),
    Tool(
        name="query_database",
        description="Run a read-only SQL query against the staging database and return the rows as JSON.",
        parameters={"query": "one SELECT statement", "limit": "most rows to return"},
        output="json",
    ),
    Tool(
        name="edit_file",
        description="Replace one exact passage of a file by another; fails unless the passage occurs exactly once.",
        parameters={"path": "file to change", "old": "exact text to replace", "new": "text to put there"},
        output="diff",
    ),
    Tool(
        name="run_command",
        description="Run a shell command in the repository root and return what it printed, the last lines if long.",
        parameters={"command": "command line for bash", "timeout": "seconds before it is stopped"},
        output="log",
    ),
)


def service_tools(rng: random.Random) -> Iterator[Tool]:
    """More tools without end, as connected services bring them: long descriptions, many fields."""
    outputs = ("json", "log", "listing", "search", "diff")
    number = 0
    while True:
        number += 1
        action, subject, module = rng.choice(ACTIONS), rng.choice(SUBJECTS), rng.choice(MODULES)
        names = ["path", "query", "limit", "pattern", "service", "timeout"]
        fields = {name: f"{name} of the {rng.choice(SUBJECTS)}; {rule(rng)}" for name in rng.sample(names, 4)}
        yield Tool(
            name=f"{module}_{action}_{subject}_{number}",
            description=f"{action.capitalize()} a {subject} in {module}. " + " ".join(rule(rng) for _ in range(6)),
            parameters=fields,
            output=rng.choice(outputs),
        )


def recap(rng: random.Random, chars: int) -> str:
    """A summary of earlier work of at least `chars` characters."""
    lines: list[str] = []
    written = 0
    while written < chars:
        lines.append(f"- {task(rng)} {closing(rng)}")
        written += len(lines[-1]) + 1
    return "\n".join(lines)


def rule(rng: random.Random) -> str:
    """One house rule of the repository, for the system prompt."""
    return rng.choice(_RULES).format(
        module=rng.choice(MODULES), action=rng.choice(ACTIONS), subject=rng.choice(SUBJECTS), other=rng.choice(SUBJECTS)
    )


def rules(rng: random.Random, chars: int) -> str:
    """House rules of at least `chars` characters."""
    lines: list[str] = []
    written = 0
    while written < chars:
        lines.append(f"- {rule(rng)}")
        written += len(lines[-1]) + 1
    return "\n".join(lines)


def task(rng: random.Random) -> str:
    """What the user asks for at the start of a user turn."""
    action, subject, other = rng.choice(ACTIONS), rng.choice(SUBJECTS), rng.choice(SUBJECTS)
    return rng.choice(
        (
            f"The {subject} job fails when the {other} is empty. Find out why in {source_path(rng)} and fix it.",
            f"Please add a way to {action} a {subject} by its {other}, with tests, and keep the old behaviour.",
            f"Since yesterday {action}_{subject} is slow for large {other} lists. Measure first, then improve it.",
            f"Rename {subject} to {other} in {source_path(rng)} and wherever it is used, then run the tests.",
            f"Explain how a {subject} moves from {rng.choice(MODULES)} to {rng.choice(MODULES)}, then simplify it.",
        )
    )


def remark(rng: random.Random) -> str:
    """What the agent says before it calls a tool."""
    action, subject, other = rng.choice(ACTIONS), rng.choice(SUBJECTS), rng.choice(SUBJECTS)
    return rng.choice(
        (
            f"Let me look at how the {subject} is handled before changing the {other}.",
            f"The {other} is never checked here. I'll see who calls {action}_{subject}.",
            f"That explains the {subject} error. Next I'll check the {other}.",
            f"Now I'll {action} the {subject} and run the tests again.",
        )
    )


def closing(rng: random.Random) -> str:
    """What the agent says when a user turn is done."""
    action, subject, other = rng.choice(ACTIONS), rng.choice(SUBJECTS), rng.choice(SUBJECTS)
    return (
        f"Done. {action}_{subject} in {source_path(rng)} now checks the {other} first, and a new test covers the case "
        f"where it is missing. All tests pass."
    )


def _argument(rng: random.Random, name: str) -> str:
    subject, other = rng.choice(SUBJECTS), rng.choice(SUBJECTS)
    values = {
        "path": source_path(rng),
        "folder": f"src/{rng.choice(MODULES)}",
        "service": rng.choice(MODULES),
        "pattern": f"{rng.choice(ACTIONS)}_{subject}\\(",
        "revision": f"{rng.getrandbits(28):07x}",
        "query": f"SELECT id, {other} FROM {subject}s WHERE status = 'failed'",
        "limit": str(rng.choice((10, 20, 50))),
        "old": f"{subject} = {other}.{rng.choice(ACTIONS)}()",
        "new": f"{subject} = {other}.{rng.choice(ACTIONS)}(checked=True)",
        "command": f"python -m {rng.choice(MODULES)}.{subject} --{other}",
        "timeout": str(rng.choice((30, 60, 300))),
    }
    return values[name]
