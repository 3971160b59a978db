"""The verdict on tools: absent, broken by a rule, lost on hits, or sound as far as it was exercised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.history import CheckHistory
from harness.checks.tools.facts import Row, forced, rows_of
from harness.checks.tools.rates import cache_loss, details
from harness.checks.tools.rules import CHOICE, Violation, broken_rules
from harness.checks.verdict import FollowUp, Status, Verdict
from workloads.tools import ANSWER_TOKENS, AUTO, HIT, KINDS, NAME, PARALLEL

FEWEST_CONVERSATIONS = 6
# One conversation may be an accident of one answer; two, or one again on fresh ones, are the server's.
FEWEST_BROKEN = 2
LOSS_LEVEL = 0.01
MOST_EVIDENCE = 16
FLAGS = (
    "vLLM: --enable-auto-tool-choice --tool-call-parser ling3; SGLang: --tool-call-parser ling3; llama.cpp: --jinja"
    " and a template that knows tools"
)


@dataclass(frozen=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]

    @cached_property
    def answered(self) -> list[Row]:
        return [row for row in self.rows if row.ok]

    @cached_property
    def broken(self) -> list[Violation]:
        return broken_rules(self.rows, self.history.capabilities.engine)

    @property
    def conversations(self) -> int:
        return len({row.conversation for row in self.answered})

    def of(self, *kinds: str) -> list[Row]:
        """Answered requests of some kinds."""
        return [row for row in self.answered if row.kind in kinds]

    @property
    def had_to_call(self) -> list[Row]:
        return [row for row in self.answered if forced(row, self.history.capabilities.engine)]


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history without answers is undecided."""
    found = _Findings(history=history, rows=rows_of(history.answers))
    return _absent(found) or _broken(found) or _lost(found) or _half(found) or _sound(found)


def _absent(found: _Findings) -> Verdict | None:
    """No call in any answer: the feature is not there, or it is and nothing reads it."""
    if not found.answered and not any(row.refused for row in found.rows):
        return _verdict(found, Status.INCONCLUSIVE, f"nothing was answered{_cut(found)}")
    if any(row.calls for row in found.answered):
        return None
    if any(row.has_written_call for row in found.of(*CHOICE)):
        reason = "the model writes calls, and the server leaves them in the text: it has no parser for them"
        return _verdict(found, Status.INCONCLUSIVE, f"{reason}. {FLAGS}")
    if found.answered and all(row.cut for row in found.had_to_call):
        reason = f"the limit of {ANSWER_TOKENS} tokens ended every answer that had to be a call"
        return _verdict(found, Status.INCONCLUSIVE, f"{reason}{_cut(found)}")
    if found.conversations < FEWEST_CONVERSATIONS and found.answered:
        return _verdict(
            found, Status.INCONCLUSIVE, f"only {found.conversations} conversations were answered{_cut(found)}"
        )
    why = "requests with tools are refused" if not found.answered else "no answer holds a call, not even where one must"
    if "tools" in found.history.required:
        return _verdict(found, Status.INCONCLUSIVE, f"tools are required, and {why}. {FLAGS}")
    return _verdict(found, Status.NOT_APPLICABLE, why)


def _broken(found: _Findings) -> Verdict | None:
    """Rules in the order of their names on the first finding; a single conversation has to repeat."""
    by_rule: dict[str, list[Violation]] = {}
    for each in found.broken:
        by_rule.setdefault(each.rule, []).append(each)
    for rule, same in by_rule.items():
        count = len({violation.conversation for violation in same})
        if count >= FEWEST_BROKEN:
            return _verdict(found, Status.FAIL, f"{rule}, in {count} conversations. First: {same[0].evidence.text}")
    if not found.broken:
        return None
    reason = f"a broken rule that has to repeat: {found.broken[0].evidence.text}"
    return _verdict(found, Status.SUSPECT, reason, _follow_up(found, found.broken[0].rule))


def _lost(found: _Findings) -> Verdict | None:
    """What was right cold and wrong from the cache, by conversations."""
    rounds = sorted({row.round_index for row in found.rows})
    alarms = [index for index in rounds if cache_loss(found.rows, index)[0] < LOSS_LEVEL]
    if not alarms:
        return None
    _, worse, better = cache_loss(found.rows)
    reason = f"from the cache, {worse} conversations go wrong that were right cold, and {better} come right"
    if len(alarms) > 1:
        return _verdict(found, Status.FAIL, reason)
    return _verdict(found, Status.SUSPECT, reason, _follow_up(found, "lost from the cache"))


def _follow_up(found: _Findings, rule: str) -> FollowUp | None:
    if found.history.rounds > 1:
        return None
    count = 2 * max(1, found.conversations // len(KINDS))
    return FollowUp(check=NAME, stratum={"rule": rule}, count=count, why=f"one alarm: {rule}")


def _half(found: _Findings) -> Verdict | None:
    """Switched on in part, or asked too little."""
    if any(row.refused for row in found.rows if row.kind == AUTO) and not found.of(AUTO):
        return _verdict(found, Status.INCONCLUSIVE, f"calls by choice are refused, forced ones are not. {FLAGS}")
    if not any(row.calls for row in found.of(*CHOICE)) and any(row.has_written_call for row in found.of(*CHOICE)):
        return _verdict(found, Status.INCONCLUSIVE, f"calls by choice stay in the text. {FLAGS}")
    if found.conversations < FEWEST_CONVERSATIONS:
        reason = f"only {found.conversations} conversations were answered{_cut(found)}"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return None


def _cut(found: _Findings) -> str:
    return "" if found.history.cut_short is None else f" ({found.history.cut_short})"


def _sound(found: _Findings) -> Verdict:
    must, choice = found.had_to_call, [row for row in found.of(*CHOICE) if row.calls]
    reason = (
        f"{sum(len(row.calls) for row in must)} forced and {sum(len(row.calls) for row in choice)} chosen calls,"
        " streamed and whole, fit their schemas"
    )
    missing = list(_not_tested(found))
    return _verdict(found, Status.PASS, f"{reason}. Not tested: {'; '.join(missing)}" if missing else reason)


def _not_tested(found: _Findings) -> list[str]:
    """What the contract says and no answer showed."""
    checks = {
        "forced calls (refused)": bool(found.had_to_call),
        "calls by choice (the model made none)": any(row.calls for row in found.of(AUTO)),
        "two calls at once (the model made none)": any(len(row.calls) > 1 for row in found.of(PARALLEL)),
        "answers from the cache (none was seen)": any(row.hit for row in found.answered if row.arm == HIT),
    }
    return [name for name, done in checks.items() if not done]


def _verdict(found: _Findings, status: Status, reason: str, follow_up: FollowUp | None = None) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.rows),
        examined=len(found.answered),
        violations=len(found.broken),
        evidence=tuple(violation.evidence for violation in found.broken[:MOST_EVIDENCE]),
        follow_up=follow_up,
        details={**details(found.rows), "cut_short": found.history.cut_short},
    )
