"""The verdict on reasoning: absent, broken by a rule, never switched, or sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.history import CheckHistory
from harness.checks.reasoning.facts import Row, rows_of
from harness.checks.reasoning.rules import TEXTS, Violation, broken_rules, field_names
from harness.checks.verdict import FollowUp, Status, Verdict
from harness.records import Outcome
from workloads.plan import Json
from workloads.reasoning import DEFAULT, NAME, OFF, ON

FEWEST_QUESTIONS = 3
# One question may be an accident of one answer; two, or one again on fresh ones, are the server's.
FEWEST_BROKEN = 2
# Texts differ by rounding too: many have to.
FEWEST_TEXTS = 3
TEXTS_SHARE = 0.5
MOST_EVIDENCE = 16
FLAGS = "vLLM, SGLang: --reasoning-parser ling3; llama.cpp: --jinja --reasoning-format deepseek"


@dataclass(frozen=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]

    @cached_property
    def broken(self) -> list[Violation]:
        return broken_rules(self.rows) if any(row.thinks for row in self.rows) else []

    def of(self, mode: str) -> list[Row]:
        return [row for row in self.rows if row.mode == mode]

    @property
    def compared(self) -> int:
        """Questions that were answered with thinking on, in both forms."""
        forms: dict[str, set[bool]] = {}
        for row in self.of(ON):
            forms.setdefault(row.question, set()).add(row.streamed)
        return sum(len(each) == 2 for each in forms.values())


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history without answers is undecided."""
    found = _Findings(history=history, rows=rows_of(history.answers))
    return _absent(found) or _names(found) or _broken(found) or _undecided(found) or _sound(found)


def _absent(found: _Findings) -> Verdict | None:
    if any(row.thinks for row in found.rows):
        return None
    if leaking := sum(row.leaks for row in found.rows):
        reason = (
            f"{leaking} of {len(found.rows)} answers hold marks of thinking and none has reasoning: the server has no"
            " parser for them, or the model writes them by chance"
        )
        return _verdict(found, Status.INCONCLUSIVE, f"{reason}. {FLAGS}")
    refused = any(answer.record.complete.outcome is Outcome.REFUSED for answer in found.history.answers)
    if found.compared < FEWEST_QUESTIONS and not refused:
        return _verdict(found, Status.INCONCLUSIVE, f"only {found.compared} questions were answered{_cut(found)}")
    why = "chat_template_kwargs are refused" if not found.of(ON) else "no answer comes with reasoning"
    if "reasoning" in found.history.required:
        return _verdict(found, Status.INCONCLUSIVE, f"reasoning is required, and {why}. {FLAGS}")
    return _verdict(found, Status.NOT_APPLICABLE, why)


def _names(found: _Findings) -> Verdict | None:
    names = field_names(found.rows)
    if names[True] and names[False] and not names[True] & names[False]:
        text = f"{', '.join(sorted(names[True]))} in streams, {', '.join(sorted(names[False]))} in whole answers"
        return _verdict(found, Status.FAIL, f"thinking has another name in streams: {text}")
    return None


def _broken(found: _Findings) -> Verdict | None:
    by_rule: dict[str, list[Violation]] = {}
    for each in found.broken:
        by_rule.setdefault(each.rule, []).append(each)
    for rule, same in by_rule.items():
        count = len({violation.question for violation in same})
        if count >= (max(FEWEST_TEXTS, TEXTS_SHARE * found.compared) if rule == TEXTS else FEWEST_BROKEN):
            return _verdict(found, Status.FAIL, f"{rule}, in {count} questions. First: {same[0].evidence.text}")
    if not found.broken:
        return None
    first = found.broken[0]
    wanted = None
    if found.history.rounds == 1:
        count = 2 * len({row.question for row in found.rows})
        wanted = FollowUp(check=NAME, stratum={"rule": first.rule}, count=count, why=f"one alarm: {first.rule}")
    reason = f"a broken rule that has to repeat: {first.evidence.text}"
    return _verdict(found, Status.SUSPECT, reason, wanted)


def _undecided(found: _Findings) -> Verdict | None:
    if found.compared < FEWEST_QUESTIONS:
        return _verdict(found, Status.INCONCLUSIVE, f"only {found.compared} questions were answered{_cut(found)}")
    off = found.of(OFF)
    if not off or all(row.thinks for row in off):
        status = Status.FAIL if "reasoning" in found.history.required else Status.INCONCLUSIVE
        why = "the template does not know the switch, or something on the way drops it"
        reason = f"thinking cannot be switched off: {len(off)} of {len(off)} answers think all the same; {why}"
        return _verdict(found, status, reason)
    if not any(row.thinks for row in found.of(ON)):
        return _verdict(found, Status.INCONCLUSIVE, "thinking came, but never where it was switched on")
    return None


def _cut(found: _Findings) -> str:
    return "" if found.history.cut_short is None else f" ({found.history.cut_short})"


def _sound(found: _Findings) -> Verdict:
    on, names = found.of(ON), field_names(found.rows)
    called = ", ".join(sorted(names[True] | names[False]))
    reason = (
        f"thinking comes in {sum(row.thinks for row in on)} of {len(on)} answers with it on and in"
        f" {sum(row.thinks for row in found.of(OFF))} of {len(found.of(OFF))} with it off"
        f"{f', as {called}' if called else ''}; no mark of it is left, and both forms say the same"
    )
    return _verdict(found, Status.PASS, reason)


def _verdict(found: _Findings, status: Status, reason: str, follow_up: FollowUp | None = None) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.history.answers),
        examined=len(found.rows),
        violations=len(found.broken),
        evidence=tuple(violation.evidence for violation in found.broken[:MOST_EVIDENCE]),
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    names = field_names(found.rows)
    counted = [row for row in found.rows if row.usage is not None and row.usage.reasoning_tokens is not None]
    return {
        **{f"thinks_{mode}": _share(found.of(mode)) for mode in (ON, OFF, DEFAULT)},
        "names_in_whole_answers": sorted(names[False]),
        "names_in_streams": sorted(names[True]),
        "reasoning_tokens_reported": f"{len(counted)} of {len(found.rows)}",
        "ended_within_thinking": sum(not row.whole_thing for row in found.of(ON)),
        "cut_short": found.history.cut_short,
    }


def _share(rows: Sequence[Row]) -> str | None:
    return f"{sum(row.thinks for row in rows)} of {len(rows)}" if rows else None
