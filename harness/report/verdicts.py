"""Verdicts for people: a table for the terminal, and the same with its evidence for the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import orjson

from harness.checks.judgement import Judgement
from harness.checks.verdict import Evidence, Status, Verdict, severity
from harness.drive.judging import VERDICTS
from harness.store.codec import NotReadable, Unread, decode
from workloads.plan import Json

WIDTH = 118
BROKEN = "broken"
_TONES = {Status.PASS: "good", Status.FAIL: "bad", Status.NOT_APPLICABLE: "aside"}
_NOTHING: tuple[Json, ...] = (None, [], (), {}, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """One check as it is shown; `tone` is "good", "bad", "open" or "aside"."""

    check: str
    status: str
    tone: str
    reason: str
    counts: str
    power: str
    follow_up: str
    details: tuple[tuple[str, str], ...]
    evidence: tuple[EvidenceView, ...]

    @property
    def bare(self) -> bool:
        """Whether the reason is all there is, as of a check that was not asked."""
        return not (self.counts or self.power or self.follow_up or self.details or self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """One finding; `name` is what `ling-bench repro` takes."""

    name: str
    text: str
    requests: str
    table: tuple[tuple[str, str], ...]


def read_judgements(run: Path) -> tuple[Judgement, ...]:
    """What a run folder's verdicts.json says; nothing if there is none or it cannot be read."""
    unread: Unread = Counter()
    try:
        content = orjson.loads((run / VERDICTS).read_bytes())
        return tuple(decode(Judgement, each, unread) for each in content["checks"])
    except (OSError, NotReadable, KeyError, TypeError, orjson.JSONDecodeError):
        return ()


def worst_first(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Failures lead, then broken checks, then whatever is undecided; otherwise in their own order."""
    return sorted(judgements, key=lambda each: -_gravity(each))


def _gravity(judgement: Judgement) -> float:
    broken = severity("fail") - 0.5
    return broken if judgement.verdict is None else severity(judgement.verdict.status)


def views(judgements: Sequence[Judgement]) -> tuple[VerdictView, ...]:
    """Every check as it is shown, worst first."""
    return tuple(_view(each) for each in worst_first(judgements))


def _view(judgement: Judgement) -> VerdictView:
    verdict = judgement.verdict
    if verdict is None:
        reason = f"the check itself crashed; its traceback is in {judgement.traceback}"
        return VerdictView(
            check=judgement.check, status=BROKEN, tone="bad", reason=reason, counts="", power="", follow_up="",
            details=(), evidence=(),
        )  # fmt: skip
    return VerdictView(
        check=verdict.check,
        status=verdict.status.value,
        tone=_TONES.get(verdict.status, "open"),
        reason=verdict.reason,
        counts=_counts(verdict),
        power=_power(verdict),
        follow_up=_follow_up(verdict),
        details=_rows(verdict.details),
        evidence=tuple(_evidence(verdict, index, each) for index, each in enumerate(verdict.evidence)),
    )


def _counts(verdict: Verdict) -> str:
    if not (verdict.eligible or verdict.examined or verdict.violations):
        return ""
    return f"{verdict.examined} of {verdict.eligible} examined, {verdict.violations} wrong"


def _power(verdict: Verdict) -> str:
    parts = [f"{name}: {nats:.3g} nats" for name, nats in verdict.smallest_effect.items()]
    if verdict.null_size is not None:
        parts.append(f"noise measured on {verdict.null_size} pairs")
    return f"blind below {', '.join(parts)}" if verdict.smallest_effect else ", ".join(parts)


def _follow_up(verdict: Verdict) -> str:
    wanted = verdict.follow_up
    return "" if wanted is None else f"would ask for {wanted.count} fresh prompts: {wanted.why}"


def _evidence(verdict: Verdict, index: int, evidence: Evidence) -> EvidenceView:
    at = "" if evidence.position is None else f" (generated token {evidence.position})"
    return EvidenceView(
        name=f"{verdict.check}#{index + 1}",
        text=evidence.text + at,
        requests=", ".join(evidence.request_ids),
        table=_rows(evidence.table),
    )


def _rows(values: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", " "), _plain(value)) for name, value in values.items() if value not in _NOTHING)


def _plain(value: Json) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Sequence) and _are_single(value):
        return ", ".join(_plain(each) for each in value) or "none"
    if isinstance(value, Mapping) and _are_single(value.values()):
        return ", ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and all(_is_pair(each) for each in value):
        pairs = [list(each) for each in value if isinstance(each, Sequence)]
        return ", ".join(f"{_plain(pair[0])}: {_plain(pair[1])}" for pair in pairs)
    return json.dumps(value, ensure_ascii=False)


def _are_single(values: Iterable[Json]) -> bool:
    """Whether none of them holds values of its own, so that commas alone tell them apart."""
    return all(isinstance(value, str) or not isinstance(value, Sequence | Mapping) or not value for value in values)


def _is_pair(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and _are_single(value)


def verdict_table(judgements: Sequence[Judgement]) -> str:
    """The verdicts as text, worst first: status, check, reason, then counts, power and the first findings."""
    shown = views(judgements)
    name_width = max((len(view.check) for view in shown), default=0)
    return "\n".join(line for view in shown for line in _lines(view, name_width))


def _lines(view: VerdictView, name_width: int) -> list[str]:
    head = f"{view.status.upper():<14}  {view.check:<{name_width}}  "
    body = [view.reason]
    body += [part for part in (view.counts, view.power, view.follow_up) if part]
    body += [f"{name}: {value}" for name, value in view.details if len(value) <= WIDTH]
    body += [f"{each.name}: {each.text} [{each.requests}]" for each in view.evidence[:3]]
    if len(view.evidence) > 3:
        body.append(f"... and {len(view.evidence) - 3} more findings in {VERDICTS}")
    wrapped = [line for part in body for line in wrap(part, WIDTH - len(head), subsequent_indent="  ")]
    return [(head if index == 0 else " " * len(head)) + line for index, line in enumerate(wrapped)]
