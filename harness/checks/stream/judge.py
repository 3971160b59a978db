"""The verdict on streams: rules first, then what only repetition can show, then degenerate output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.checks.degenerate import CERTAIN, Garbage, garbage, repeated_token
from harness.checks.history import Answer, CheckHistory
from harness.checks.stream.facts import Group, Violation, answered, groups_of, streams, violation
from harness.checks.stream.forms import TextDifferences, broken_between, text_differences
from harness.checks.stream.rules import broken_rules
from harness.checks.verdict import FollowUp, Status, Verdict
from harness.records import Outcome
from workloads.plan import Json
from workloads.stream import NAME

DEGENERATE = "degenerate"
FEWEST_PROMPTS = 4
FEWEST_DIFFERING = 3
DIFFERING_SHARE = 0.5
# Ordinary prompts have different answers: the same broken one for most of them is the server's.
GARBAGE_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    answers: Sequence[Answer]
    groups: Sequence[Group]
    broken: Sequence[Violation]
    texts: TextDifferences
    garbage: Mapping[str, Garbage]

    @property
    def compared(self) -> int:
        """Prompts that were answered in both forms."""
        return sum(group.both for group in self.groups)


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history in which nothing was answered in both forms is undecided."""
    found = _find(history)
    if found.broken:
        rules = ", ".join(dict.fromkeys(each.rule for each in found.broken))
        reason = f"broken rules ({rules}): {found.broken[0].evidence.text}"
        return _verdict(found, Status.FAIL, reason, found.broken)
    if (lost := _lost_form(history)) is not None:
        return _verdict(found, Status.FAIL, lost)
    if found.compared < FEWEST_PROMPTS:
        reason = f"too few prompts were answered in both forms: {found.compared} of at least {FEWEST_PROMPTS}"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return _texts(found) or _garbage(found) or _sound(found)


def _find(history: CheckHistory) -> _Findings:
    answers = answered(history)
    groups = groups_of(answers)
    signs = {answer.record.invoke.request_id: sign for answer in answers if (sign := garbage(answer)) is not None}
    certain = [
        violation(DEGENERATE, [answer], signs[answer.record.invoke.request_id].value)
        for answer in answers
        if signs.get(answer.record.invoke.request_id) in CERTAIN
    ]
    return _Findings(
        history=history,
        answers=answers,
        groups=groups,
        broken=[*broken_rules(answers, history.capabilities.engine), *broken_between(groups), *certain],
        texts=text_differences(groups),
        garbage=signs,
    )


def _lost_form(history: CheckHistory) -> str | None:
    """One form that never comes through while the other does for the same prompts; refusals of a kind are let go."""
    plain = [answer for answer in history.answers if answer.record.invoke.labels.get("kind") == "plain"]
    ok = {
        form: [a.record.complete.outcome is Outcome.OK for a in plain if streams(a) is form] for form in (True, False)
    }
    for form, name, other in ((True, "streamed", "whole"), (False, "whole", "streamed")):
        if len(ok[form]) >= FEWEST_PROMPTS and not any(ok[form]) and sum(ok[not form]) >= FEWEST_PROMPTS:
            return f"none of {len(ok[form])} {name} answers came through, {sum(ok[not form])} {other} ones did"
    return None


def _texts(found: _Findings) -> Verdict | None:
    """Texts that depend on the form: a few may be chance, many are not."""
    differing, agreeing = found.texts.differing, found.texts.agreeing
    if not differing:
        return None
    named = f"{len(differing)} of {agreeing} prompts that repeat themselves are answered otherwise in streams"
    if len(differing) >= FEWEST_DIFFERING and len(differing) >= DIFFERING_SHARE * agreeing:
        return _verdict(found, Status.FAIL, f"{named}: {differing[0].evidence.text}", differing)
    return _suspect(found, named, differing)


def _garbage(found: _Findings) -> Verdict | None:
    """Signs that a small model may show too count only when most prompts show the same one."""
    plain = [answer for answer in found.answers if answer.record.invoke.labels.get("kind") == "plain"]
    broken = [answer for answer in plain if answer.record.invoke.request_id in found.garbage]
    prompts = {answer.record.invoke.session for answer in broken}
    asked = {answer.record.invoke.session for answer in plain}
    tokens = Counter(token for answer in broken if (token := repeated_token(answer)) is not None)
    alike = max(tokens.values(), default=0)
    if len(prompts) < max(FEWEST_PROMPTS, GARBAGE_SHARE * len(asked)):
        return None
    shown = [violation(DEGENERATE, broken, f"{len(prompts)} of {len(asked)} prompts get degenerate answers")]
    if alike >= GARBAGE_SHARE * len(broken):
        token = tokens.most_common(1)[0][0]
        reason = f"{alike} answers to different prompts are one and the same token {token!r}"
        return _verdict(found, Status.FAIL, reason, shown)
    return _suspect(found, shown[0].evidence.text, shown)


def _suspect(found: _Findings, reason: str, shown: Sequence[Violation]) -> Verdict:
    """Fresh prompts once; an alarm that fresh prompts did not make certain stays one."""
    follow_up = None
    if found.history.rounds < 2:
        count = 2 * max(FEWEST_PROMPTS, found.compared // 3)
        follow_up = FollowUp(check=NAME, stratum={"kind": "plain"}, count=count, why=reason)
    return _verdict(found, Status.SUSPECT, reason, shown, follow_up)


def _sound(found: _Findings) -> Verdict:
    repeating = f"{found.texts.agreeing} prompts repeat themselves in both forms, all alike"
    if not found.texts.agreeing:
        repeating = "no prompt repeats itself, so texts were not compared"
    counted = sum(answer.token_ids is not None or answer.logprobs is not None for answer in found.answers)
    reason = f"streams and whole answers agree: {repeating}; tokens recounted in {counted} answers"
    return _verdict(found, Status.PASS, reason)


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    shown: Sequence[Violation] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.history.answers),
        examined=len(found.answers),
        violations=len(shown),
        evidence=tuple(each.evidence for each in shown[:10]),
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    kinds = Counter(group.kind for group in found.groups if group.both)
    return {
        "compared_by_kind": dict(kinds),
        "not_asked": [] if {"tool", "reasoning"} & kinds.keys() else ["tool calls and reasoning: not on this route"],
        "rules_broken": list(dict.fromkeys(each.rule for each in found.broken)),
        "repeating_prompts": found.texts.agreeing,
        "differing_prompts": len(found.texts.differing),
        "degenerate": dict(Counter(sign.value for sign in found.garbage.values())),
        "failed_requests": len(found.history.answers) - len(found.answers),
        "cut_short": found.history.cut_short,
    }
