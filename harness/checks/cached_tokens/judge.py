"""The verdict on cached tokens, from the rules, the witnesses and what the reuse looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from harness.checks.cached_tokens.counting import CounterWitness, counter_witness
from harness.checks.cached_tokens.facts import Row, rows_of, unanswered_tokens
from harness.checks.cached_tokens.reuse import Reuse, reuse
from harness.checks.cached_tokens.rules import MEANINGS, Violation, broken_rules
from harness.checks.cached_tokens.timing import TimeWitness, time_witness
from harness.checks.cached_tokens.witnesses import Contradiction, contradictions
from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from workloads.cached_tokens import NAME
from workloads.plan import Json

FOLLOW_UP_LENGTHS = 8
MOST_EVIDENCE = 24
# The operator's word that the server was started with its report of cached tokens.
CACHED_REPORT = "cached-report"
HOW_TO_REPORT: Mapping[str, str] = {
    "vllm": "start vLLM with --enable-prompt-tokens-details",
    "sglang": "start SGLang with --enable-cache-report",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]
    reuse: Reuse
    counters: CounterWitness
    time: TimeWitness
    broken: Sequence[Violation]
    contradictions: Sequence[Contradiction]

    @property
    def foreign(self) -> bool:
        """Whether somebody else used the server meanwhile."""
        return self.counters.foreign_tokens > 0

    @property
    def proven(self) -> list[Violation]:
        """What is wrong beyond doubt."""
        if self.foreign:
            return [each for each in self.broken if each.hard]
        return [*self.broken, *(each.violation for each in self.contradictions if each.proven or self._repeated(each))]

    def _repeated(self, contradiction: Contradiction) -> bool:
        """Whether every round on its own, of at least two, shows the same."""
        rounds = sorted({row.round_index for row in self.rows})
        if len(rounds) < 2:
            return False
        alone = [
            contradictions(
                [row for row in self.rows if row.round_index == index], self.counters, self.time, self.reuse.domains
            )
            for index in rounds
        ]
        fault = contradiction.violation.fault
        return all(any(each.violation.fault == fault for each in found) for found in alone)


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history without answers is undecided."""
    rows = rows_of(history)
    if not any(row.prompt_tokens is not None for row in rows):
        why = "nothing was answered" if not rows else "no answer says how many prompt tokens it had"
        return Verdict(check=NAME, status=Status.INCONCLUSIVE, reason=why, eligible=len(history.answers))
    found = _find(history, rows)
    if found.proven:
        return _failed(found)
    if all(row.cached_tokens is None for row in rows):
        return _silent(found)
    return _undecided(found) or _sound(found)


def _find(history: CheckHistory, rows: Sequence[Row]) -> _Findings:
    counters = counter_witness(rows, history.counters, unanswered_tokens(history))
    time, seen = time_witness(rows), reuse(rows)
    reported = any(row.cached_tokens is not None for row in rows)
    return _Findings(
        history=history,
        rows=rows,
        reuse=seen,
        counters=counters,
        time=time,
        broken=broken_rules(rows, history.capabilities.engine),
        contradictions=contradictions(rows, counters, time, seen.domains) if reported else (),
    )


def _failed(found: _Findings) -> Verdict:
    faults = list(dict.fromkeys(each.fault for each in found.proven))
    named = "; ".join(f"{MEANINGS[fault]} ({fault})" for fault in faults)
    first = found.proven[0].evidence.text.removeprefix(f"{MEANINGS[faults[0]]}: ")
    return _verdict(found, Status.FAIL, f"cached tokens are wrong: {named}. First: {first}", found.proven)


def _silent(found: _Findings) -> Verdict:
    """Nothing is reported anywhere: the server's choice, required or not, unless its operator says that it reports."""
    engine, required = found.history.capabilities.engine, found.history.required
    advice = HOW_TO_REPORT.get(engine) if engine is not None else None
    silent = "no answer reports cached tokens" + (f"; {advice}" if advice is not None else "")
    if CACHED_REPORT in required:
        return _verdict(found, Status.FAIL, f"reports of cached tokens are said to be on, and {silent} (K30)")
    return _verdict(found, Status.INCONCLUSIVE, f"{NAME} is required, and {silent}" if NAME in required else silent)


def _undecided(found: _Findings) -> Verdict | None:
    """What stands between a sound history and a pass; None if nothing does."""
    if found.foreign:
        others = f"not alone: the counters saw {found.counters.foreign_tokens} prompt tokens that were not ours"
        return _verdict(found, Status.INCONCLUSIVE, others)
    if found.contradictions:
        doubtful = [each.violation for each in found.contradictions]
        reason = f"one witness against another: {doubtful[0].evidence.text}"
        return _verdict(found, Status.SUSPECT, reason, doubtful, _second_look(found, reason))
    if not any(row.hit for row in found.rows):
        return _inert(found)
    if found.history.cut_short is not None and found.reuse.settled < FOLLOW_UP_LENGTHS:
        reason = f"too few settled repeats ({found.reuse.settled}): {found.history.cut_short}"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return None


def _inert(found: _Findings) -> Verdict:
    longest = max((row.prompt_tokens for row in found.rows if row.prompt_tokens is not None), default=0)
    if found.history.cut_short is not None:
        return _verdict(found, Status.INCONCLUSIVE, f"no hit was seen before {found.history.cut_short}")
    reason = f"the cache is inert up to {longest} tokens: no repeat was a hit (a capability, not a fault)"
    required = NAME in found.history.required
    return _verdict(found, Status.INCONCLUSIVE if required else Status.NOT_APPLICABLE, reason)


def _second_look(found: _Findings, why: str) -> FollowUp | None:
    """Fresh prompts of the same kind, once."""
    return FollowUp(check=NAME, stratum={"family": "repeat"}, count=FOLLOW_UP_LENGTHS, why=why)


def _sound(found: _Findings) -> Verdict:
    rule, seen = found.reuse.rule, found.reuse
    grid = "no common rule"
    if rule is not None:
        grid = f"prompts are reused in steps of {rule.step} tokens (offset {rule.offset}, drop {rule.drop})"
        if seen.misfits:
            grid += f", {len(seen.misfits)} of {seen.settled} settled repeats off that rule"
    domains = f"; {seen.domains} cache domains" if seen.domains > 1 else ""
    return _verdict(found, Status.PASS, f"cached tokens add up; {grid}{domains}; {_witnesses(found)}")


def _witnesses(found: _Findings) -> str:
    sources = {"usage": True, "counters": found.counters.usable, "time": found.time.usable}
    agreeing = [name for name, usable in sources.items() if usable]
    if len(agreeing) == len(sources):
        return "usage, counters and time agree"
    if len(agreeing) == 1:
        return "usage alone says so"
    return f"{' and '.join(agreeing)} agree"


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    violations: Sequence[Violation] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.history.answers),
        examined=sum(row.cached_tokens is not None for row in found.rows),
        violations=len(violations),
        evidence=_shown(violations),
        follow_up=follow_up,
        details=_details(found, violations),
    )


def _shown(violations: Sequence[Violation]) -> tuple[Evidence, ...]:
    """At most MOST_EVIDENCE findings, every class of fault in turn."""
    by_fault: dict[str, list[Evidence]] = {}
    for each in violations:
        by_fault.setdefault(each.fault, []).append(each.evidence)
    in_turn = chain.from_iterable(zip_longest(*by_fault.values()))
    return tuple(islice((each for each in in_turn if each is not None), MOST_EVIDENCE))


def _details(found: _Findings, violations: Sequence[Violation]) -> dict[str, Json]:
    time, counters = found.time, found.counters
    return {
        "fault_classes": list(dict.fromkeys(each.fault for each in violations)),
        **found.reuse.details(),
        "salt_honoured": found.history.capabilities.salt,
        "witness_counters": counters.problem if counters.problem is not None else f"{len(counters.cached)} requests",
        "witness_time": time.problem if time.problem is not None else _time_in_words(time),
        "cut_short": found.history.cut_short,
    }


def _time_in_words(time: TimeWitness) -> str:
    return (
        f"{time.base_ms:.3g} ms + {time.ms_per_token * 1000:.3g} ms per 1,000 tokens,"
        f" noise {time.noise_ms:.2g} ms, {time.cold} cold prompts"
    )
