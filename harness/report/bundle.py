"""A bundle that replays one finding without ling-bench: bodies, order, what was seen, scripts for Python and curl."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from harness.checks.history import Answer, CheckHistory, StepRecord
from harness.checks.judgement import Judgement
from harness.checks.verdict import Evidence
from harness.drive.check_history import load_history
from harness.report.verdicts import read_judgements
from harness.store import RunFolder

ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
LOGPROB_POSITIONS = 32
_SLOT = re.compile(r"/slots/(\d+)\?action=erase\Z")
_REPLAYED = ("ask", "flush", "sleep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a bundle is about: the check, the requests that show it, and it in words."""

    check: str
    request_ids: tuple[str, ...]
    text: str


def find(run: RunFolder, name: str) -> Finding:
    """The finding called "check#n", or a single request by its id. LookupError says what there is."""
    judgements = read_judgements(run.path)
    for judgement in judgements:
        for number, evidence in enumerate(_evidence(judgement), start=1):
            if f"{judgement.check}#{number}" == name:
                return Finding(check=judgement.check, request_ids=evidence.request_ids, text=evidence.text)
    for judgement in judgements:
        if any(answer.record.invoke.request_id == name for answer in load_history(run, judgement.check).answers):
            return Finding(check=judgement.check, request_ids=(name,), text=f"request {name}")
    known = [f"{each.check}#{number}" for each in judgements for number in range(1, len(_evidence(each)) + 1)]
    listed = f"; there are {', '.join(known)}" if known else "; its verdicts have no findings"
    raise LookupError(f"{run.path} has neither a finding nor a request of a check called {name}{listed}")


def _evidence(judgement: Judgement) -> Sequence[Evidence]:
    return () if judgement.verdict is None else judgement.verdict.evidence


def write_bundle(run: RunFolder, finding: Finding, folder: Path) -> Path:
    """Write the bundle into `folder`, which must not exist; FileExistsError if it does."""
    folder.mkdir(parents=True)
    (folder / "bodies").mkdir()
    steps = _steps(load_history(run, finding.check), finding)
    entries = [_entry(run, step, index, steps, finding, folder) for index, step in enumerate(steps)]
    document = {
        "finding": finding.text,
        "check": finding.check,
        "run": run.info.run_id,
        "base_url": run.info.target.base_url,
        "model": run.info.target.model,
        "engine": [run.info.target.engine, run.info.target.engine_version],
        "steps": entries,
    }
    (folder / "steps.json").write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    replay = resources.files("harness.report").joinpath("templates/replay.py.txt").read_text(encoding="utf-8")
    for name, text in (("replay.py", replay), ("replay.sh", _curl(document)), ("README.md", _readme(run, finding))):
        (folder / name).write_text(text, encoding="utf-8")
    for script in ("replay.py", "replay.sh"):
        (folder / script).chmod(0o755)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step of the history to be replayed; answer is None unless it is a request."""

    record: StepRecord
    answer: Answer | None = None

    @property
    def sent_ns(self) -> int:
        done = self.record.complete
        return self.record.invoke.planned_ns if done is None or done.sent_ns is None else done.sent_ns

    @property
    def end_ns(self) -> int:
        done = self.record.complete
        return self.sent_ns if done is None or done.end_ns is None else done.end_ns


def _steps(history: CheckHistory, finding: Finding) -> list[_Step]:
    """Everything the finding rests on, in order, up to its last request.

    Its own sessions, those they build on, requests of no session, flushes and sleeps of its round.
    """
    wanted = [each for each in history.answers if each.record.invoke.request_id in finding.request_ids]
    cells = {each.record.invoke.cell for each in wanted}
    sessions = {each.record.invoke.session for each in wanted} | set(_needed(wanted)) | {None}
    asks = [
        _Step(record=StepRecord(invoke=each.record.invoke, complete=each.record.complete), answer=each)
        for each in history.answers
        if each.record.invoke.cell in cells and each.record.invoke.session in sessions
    ]
    others = [
        _Step(record=each) for each in history.steps if each.invoke.cell in cells and each.invoke.step in _REPLAYED
    ]
    last_ns = max(step.sent_ns for step in asks if step.record.invoke.request_id in finding.request_ids)
    return sorted((step for step in [*asks, *others] if step.sent_ns <= last_ns), key=lambda step: step.sent_ns)


def _needed(answers: Iterable[Answer]) -> list[str]:
    """Sessions that a request's plan says it builds on."""
    needed: list[str] = []
    for answer in answers:
        names = answer.record.invoke.labels.get("needs")
        needed += (
            [names] if isinstance(names, str) else [str(name) for name in names] if isinstance(names, list) else []
        )
    return needed


def _entry(
    run: RunFolder, step: _Step, index: int, steps: Sequence[_Step], finding: Finding, folder: Path
) -> dict[str, object]:
    """One step of steps.json; `after` lists the steps that had ended when this one began."""
    invoke = step.record.invoke
    entry: dict[str, object] = {
        "step": invoke.step,
        "key": invoke.key,
        "after": [earlier for earlier in range(index) if steps[earlier].end_ns <= step.sent_ns],
        "of_interest": invoke.request_id in finding.request_ids,
    }
    if step.answer is not None:
        return entry | _ask_entry(run, step.answer, index, folder)
    if invoke.step == "flush":
        return entry | {"paths": _flush_paths(step.record)}
    duration_ns = invoke.parameters.get("duration_ns")
    return entry | {"seconds": duration_ns / 1e9 if isinstance(duration_ns, int) else 0}


def _ask_entry(run: RunFolder, answer: Answer, index: int, folder: Path) -> dict[str, object]:
    invoke, done = answer.record.invoke, answer.record.complete
    prompt = orjson.loads(run.read_prompt(invoke.prompt_hash)) if invoke.prompt_hash is not None else {}
    body = f"bodies/{index + 1:03d}.json"
    (folder / body).write_bytes(orjson.dumps({**prompt, **invoke.parameters}))
    usage = done.usage
    return {
        "request_id": invoke.request_id,
        "path": ROUTES[invoke.route] if invoke.route is not None else "",
        "body": body,
        "seen": {
            "outcome": done.outcome,
            "error": None if done.error is None else done.error.message,
            "text": done.text,
            "prompt_tokens": None if usage is None else usage.prompt_tokens,
            "cached_tokens": None if usage is None else usage.cached_tokens,
            "logprobs": None if answer.logprobs is None else answer.logprobs[:LOGPROB_POSITIONS],
        },
    }


def _flush_paths(record: StepRecord) -> list[str]:
    """The routes that emptied the cache; every slot of llama.cpp, of which the last is on record."""
    path = None if record.complete is None else record.complete.extra.get("path")
    if not isinstance(path, str):
        return []
    slots = _SLOT.search(path)
    return [path] if slots is None else [f"/slots/{slot}?action=erase" for slot in range(int(slots.group(1)) + 1)]


def _curl(document: Mapping[str, Any]) -> str:
    """The same in curl, one request after the other."""
    lines = [
        "#!/bin/sh",
        "# Replays the requests one after the other; answers go to answers/. BASE_URL and OPENAI_API_KEY are heeded.",
        'cd "$(dirname "$0")" && mkdir -p answers',
        f'BASE_URL="${{BASE_URL:-{document["base_url"]}}}"',
        'call() { curl -sS -X POST -H "Content-Type: application/json"'
        ' ${OPENAI_API_KEY:+-H "Authorization: Bearer $OPENAI_API_KEY"} "$@"; echo; }',
    ]
    for index, step in enumerate(document["steps"], start=1):
        if step["step"] == "ask":
            mark = "  # <== the finding" if step["of_interest"] else ""
            answer = f"answers/{index:03d}.txt"
            lines.append(f'call --data-binary @{step["body"]} "$BASE_URL"{step["path"]} > {answer}{mark}')
        elif step["step"] == "flush":
            lines += [f'call "$BASE_URL"{shlex.quote(path)}' for path in step["paths"]]
        else:
            lines.append(f"sleep {step['seconds']:g}")
    return "\n".join([*lines, "grep -o '\"cached_tokens\":[^,}]*' answers/*.txt", ""])


def _readme(run: RunFolder, finding: Finding) -> str:
    target = run.info.target
    engine = " ".join(part for part in (target.engine, target.engine_version) if part is not None)
    return f"""# {finding.check}: {finding.text}

Seen on model {target.model}, engine {engine if engine else "not known"}, in run {run.info.run_id}.

    python3 replay.py --base-url http://HOST:PORT     # needs nothing but Python
    BASE_URL=http://HOST:PORT sh replay.sh            # needs nothing but curl

`replay.py` keeps the order and the overlap of the requests and prints what was seen then beside what it sees now.
`replay.sh` sends them one after the other. `steps.json` lists the steps with what was seen, `bodies/` holds each
request. The prompts are exactly those of the run: start from a server whose cache has not seen them.
"""
