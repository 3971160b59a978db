"""The verdict on acceptance: identities, then conditions against each other, then what others published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import CheckHistory
from harness.checks.mtp.acceptance import Estimate, by_group, conditional_rates, estimate, with_steps
from harness.checks.mtp.contrasts import (
    CONFIRMING_CONFIDENCE,
    MOST_OF_A_PROMPT,
    Contrast,
    against_baseline,
    hits_against_cold,
    returns_against_cold,
)
from harness.checks.mtp.facts import Row, rows_of
from harness.checks.mtp.identities import Broken, broken_identities
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from workloads.mtp import ALL_CONTENTS, CONTENTS, LEFT_OUT, NAME, RETURNED, SAMPLED
from workloads.plan import Json

FEWEST_REQUESTS = 10
FEWEST_STEPS = 100
EXPECTED_SLACK = 0.2
# A draft layer whose first drafts are taken and whose later ones never are does not see what it drafted.
COLLAPSED_SHARE = 0.2
FEWEST_FIRST_RATE = 0.2
ENOUGH_FIRST_STEPS = 50
# If one step in twenty accepted anything, so many in vain would come once in 28,000 times.
ENOUGH_SAMPLED_STEPS = 200
SPECULATION, EXACT_DRAFTS = "speculation", "exact-drafts"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]
    measured: Sequence[Row]
    broken: Sequence[Broken]
    custom: Sequence[Broken]
    overall: Estimate | None
    hits: Contrast | None
    most_hit: Contrast | None
    returns: Contrast | None
    baseline: Contrast | None

    @property
    def fresh(self) -> list[Row]:
        """What was asked to confirm."""
        return [row for row in self.measured if row.round_index > 0]


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a server that drafts nothing is not judged."""
    found = _find(history)
    if found.broken:
        rules = ", ".join(dict.fromkeys(each.rule for each in found.broken))
        reason = f"drafts are counted wrongly ({rules}): {found.broken[0].evidence.text}"
        return _verdict(found, Status.FAIL, reason, [each.evidence for each in found.broken])
    return _unexercised(found) or _drops(found) or _never_sampled(found) or _unexpected(found) or _sound(found)


def _find(history: CheckHistory) -> _Findings:
    rows = rows_of(history)
    measured = [row for row in with_steps(rows) if row.arm not in LEFT_OUT]
    first = [row for row in measured if row.round_index == 0]
    earlier = None if history.baseline is None else rows_of(history.baseline)
    identities = broken_identities(rows, history.counters, history.capabilities.engine)
    forgiven = EXACT_DRAFTS not in history.required
    return _Findings(
        history=history,
        rows=rows,
        measured=measured,
        broken=[each for each in identities if not (each.custom and forgiven)],
        custom=[each for each in identities if each.custom and forgiven],
        overall=estimate(measured),
        hits=hits_against_cold(first),
        most_hit=hits_against_cold(first, MOST_OF_A_PROMPT),
        returns=returns_against_cold(first),
        baseline=None if earlier is None else against_baseline(first, earlier),
    )


def _unexercised(found: _Findings) -> Verdict | None:
    """Why nothing can be said; None if enough was drafted and some of it rejected."""
    overall = found.overall
    if overall is None:
        return _nothing_drafted(found)
    if overall.requests < FEWEST_REQUESTS or overall.steps < FEWEST_STEPS:
        reason = f"not exercised: {overall.steps} verify steps in {overall.requests} requests are too few"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    rejected = any(_rejects(row) for row in found.measured)
    if not rejected:
        return _verdict(found, Status.INCONCLUSIVE, "not exercised: no draft was ever rejected")
    return None


def _rejects(row: Row) -> bool:
    """Whether a draft was rejected, by the first account that tells; taken for granted where none does."""
    for account in (row.own, row.counted):
        if account is not None and account.drafted is not None:
            return account.accepted < account.drafted
    return row.drafts is not None


def _nothing_drafted(found: _Findings) -> Verdict:
    speculates, answered = found.history.capabilities.speculation, bool(found.rows)
    if not answered:
        return _verdict(found, Status.INCONCLUSIVE, "nothing was answered")
    if speculates or SPECULATION in found.history.required:
        reason = (
            "acceptance is UNKNOWN: no counter, no field of an answer and no stream event tells steps apart"
            if speculates
            else "speculation is required, and no draft was seen"
        )
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return _verdict(
        found, Status.NOT_APPLICABLE, "no draft was seen: the server does not speculate, or does not say so"
    )


def _drops(found: _Findings) -> Verdict | None:
    """Acceptance that fell: against one's own baseline on the same prompts at once, else on fresh prompts too."""
    for contrast in (found.baseline, found.hits, found.most_hit, found.returns):
        if contrast is None or not contrast.dropped:
            continue
        certain = contrast is found.baseline and contrast.paired
        again = _again(found, contrast)
        if certain or (again is not None and again.dropped):
            return _verdict(found, Status.FAIL, contrast.evidence.text, [contrast.evidence])
        if found.fresh:
            reason = f"{contrast.evidence.text}; fresh prompts did not repeat it"
            return _verdict(found, Status.SUSPECT, reason, [contrast.evidence])
        asked = sum(row.arm != RETURNED for row in found.measured)
        count = max(4, 2 * asked // (3 * len(CONTENTS)))
        follow_up = FollowUp(check=NAME, stratum={"contrast": contrast.name}, count=count, why=contrast.evidence.text)
        return _verdict(found, Status.SUSPECT, contrast.evidence.text, [contrast.evidence], follow_up)
    return None


def _again(found: _Findings, contrast: Contrast) -> Contrast | None:
    if not found.fresh:
        return None
    if contrast is found.hits:
        return hits_against_cold(found.fresh)
    if contrast is found.most_hit:
        return hits_against_cold(found.fresh, MOST_OF_A_PROMPT)
    if contrast is found.returns:
        return returns_against_cold(found.fresh)
    earlier = [] if found.history.baseline is None else rows_of(found.history.baseline)
    return against_baseline(found.fresh, earlier, CONFIRMING_CONFIDENCE)


def _never_sampled(found: _Findings) -> Verdict | None:
    """Drafts accepted greedily and never at temperature 1: answers are right, and drafting is in vain (K25 exact)."""
    sampled, greedy = _at_temperature_1(found), found.overall
    if sampled is None or greedy is None or sampled.steps < ENOUGH_SAMPLED_STEPS:
        return None
    if sampled.length > 1 or greedy.length - 1 < FEWEST_FIRST_RATE:
        return None
    reason = (
        f"at temperature 1 none of the drafts of {sampled.steps} steps is accepted; otherwise the acceptance length is"
        f" {greedy.in_words()}"
    )
    ids = tuple(row.request_id for row in found.rows if row.arm == SAMPLED)
    return _verdict(found, Status.FAIL, reason, [Evidence(request_ids=ids, text=reason)])


def _at_temperature_1(found: _Findings) -> Estimate | None:
    return estimate([row for row in found.rows if row.arm == SAMPLED])


def _unexpected(found: _Findings) -> Verdict | None:
    """Figures that only look wrong: they were measured on other prompts, or have another explanation."""
    expected, overall = found.history.expected_acceptance, found.overall
    highest = None if overall is None else overall.high
    if expected is not None and overall is not None and highest is not None and highest < expected - EXPECTED_SLACK:
        reason = f"acceptance length {overall.in_words()} is below the expected {expected:g}, on other prompts"
        return _verdict(found, Status.SUSPECT, reason)
    rates = conditional_rates(found.measured)
    if len(rates) > 1 and rates[0] is not None and rates[1] is not None and rates[0] >= FEWEST_FIRST_RATE:
        reached = sum(row.drafts.steps for row in found.measured if row.drafts is not None) * rates[0]
        if reached >= ENOUGH_FIRST_STEPS and rates[1] < COLLAPSED_SHARE * rates[0]:
            reason = f"first drafts are accepted at {rates[0]:.0%}, second ones after them at {rates[1]:.0%}"
            return _verdict(found, Status.SUSPECT, reason)
    return None


def _sound(found: _Findings) -> Verdict:
    assert found.overall is not None, "only called with something measured"
    parts = [f"acceptance length {found.overall.in_words()} by {_source(found)}"]
    means = {name: value for name in ALL_CONTENTS if (value := estimate(_of(found, name))) is not None}
    if means:
        parts.append(", ".join(f"{name} {value.length:.2f}" for name, value in means.items()))
    if found.hits is None:
        parts.append("no prompt was a hit, so drafts after hits are untested")
    else:
        parts.append(f"hits accept {found.hits.ratio:.0%} of what the same prompts accept cold")
    if found.returns is not None:
        parts.append(f"those behind a flood {found.returns.ratio:.0%}")
    if found.baseline is not None:
        parts.append(f"{found.baseline.ratio:.0%} of the baseline")
    if found.custom:
        parts.append(f"{len(found.custom)} answers count accepted drafts behind their end, as this engine does")
    return _verdict(found, Status.PASS, "; ".join(parts))


def _of(found: _Findings, content: str) -> list[Row]:
    return [row for row in found.measured if row.content == content]


def _source(found: _Findings) -> str:
    return " and ".join(dict.fromkeys(row.source for row in found.measured if row.source is not None))


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    evidence: Sequence[Evidence] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.history.answers),
        examined=len(found.measured),
        violations=len(evidence),
        evidence=tuple(evidence[:10]),
        follow_up=follow_up,
        details=_details(found),
    )


def _sampling(history: CheckHistory) -> str:
    """How answers were sampled, by the body of the first request."""
    fields = history.answers[0].record.invoke.parameters if history.answers else {}
    told = [f"{name} {fields[name]}" for name in ("temperature", "top_p", "top_k", "seed") if name in fields]
    thinking = "thinking as the request says" if "chat_template_kwargs" in fields else "no thinking asked for"
    return ", ".join([*told, "natural stop", thinking])


def _details(found: _Findings) -> dict[str, Json]:
    contrasts = [each for each in (found.hits, found.most_hit, found.returns, found.baseline) if each is not None]
    sampled = _at_temperature_1(found)
    return {
        "source": _source(found) if found.measured else None,
        "acceptance": by_group(found.measured),
        "conditional_rates": [None if rate is None else round(rate, 3) for rate in conditional_rates(found.measured)],
        "contrasts": {each.name: round(each.ratio, 3) for each in contrasts},
        "smallest_drop_found": {each.name: round(each.smallest_drop, 3) for each in contrasts},
        "expected": found.history.expected_acceptance,
        "sampling": _sampling(found.history),
        "temperature_1": None if sampled is None else sampled.as_json(),
        "texts": "made by ling-bench, but for documentation and source: Python's own, under the PSF licence",
        "answers_counted_past_their_end": len(found.custom),
        "identities_broken": list(dict.fromkeys(each.rule for each in found.broken)),
        "cut_short": found.history.cut_short,
    }
