"""The verdict where a server gives no log-probabilities: weaker, and it says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.checks.eviction.arms import HIT, REFILLED, RETURNED, PromptArms
from harness.checks.eviction.exercise import Exercise
from harness.checks.eviction.text_tier import LostCodes, Parting, lost_codes, partings, smallest_share
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.stats.tests import holm

NAME = "eviction"
FAMILY_WISE = 1e-3
CONFIRM_LEVEL = 0.01
LARGEST_SHARE = 0.8
"""A run that would have missed what changes so many of an arm's answers does not pass; a lost state changes all."""


def judge_texts(prompts: Sequence[PromptArms], done: Exercise) -> Verdict:
    """Judge by texts alone."""
    first = [prompt for prompt in prompts if prompt.round_index == 0]
    fresh = [prompt for prompt in prompts if prompt.round_index > 0]
    alarms = _alarms(first, None)
    confirmed = sorted(set(alarms) & set(_alarms(fresh, CONFIRM_LEVEL)))
    shares = _shares(first)
    status, reason, follow_up = _conclusion(alarms, confirmed, bool(fresh), done, shares)
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=done.prompts,
        examined=min(done.prompts, len(first)),
        violations=len(alarms),
        evidence=tuple(Evidence(request_ids=(), text=_told(first, arm)) for arm in alarms),
        null_size=sum(len(prompt.of("virgin")) > 1 for prompt in first),
        follow_up=follow_up,
        details={"tier": "text", "alarms": list(alarms), "confirmed": confirmed, "smallest_shares": dict(shares)},
    )


def _alarms(prompts: Sequence[PromptArms], level: float | None) -> list[str]:
    """Names of arms that alarm, each at `level`; None shares the family-wise level among them by Holm's procedure."""
    tests = _tests(prompts)
    if level is None:
        return sorted(holm(tests, FAMILY_WISE))
    return [name for name, p_value in tests.items() if p_value <= level]


def _tests(prompts: Sequence[PromptArms]) -> dict[str, float]:
    """P-values by name."""
    tests = {f"{each.arm} parts": each.p_value for each in partings(prompts) if each.exposure}
    return tests | {f"{each.arm} loses codes": each.p_value for each in lost_codes(prompts) if each.lost or each.found}


def _shares(prompts: Sequence[PromptArms]) -> dict[str, float]:
    """What the arms that every prompt goes through are blind to: shares of their answers."""
    level = FAMILY_WISE / max(1, len(_tests(prompts)))
    always = [each for each in partings(prompts) if each.arm in (HIT, RETURNED, REFILLED)]
    return {each.arm: smallest_share(each, level) for each in always if each.answers}


def _conclusion(
    alarms: Sequence[str], confirmed: Sequence[str], asked_again: bool, done: Exercise, shares: Mapping[str, float]
) -> tuple[Status, str, FollowUp | None]:
    by_text = "judged by texts alone (no log-probabilities)"
    if confirmed:
        return Status.FAIL, f"wrong answers: {', '.join(confirmed)}; {by_text}", None
    if alarms and asked_again:
        return Status.SUSPECT, f"an alarm that fresh prompts did not repeat: {', '.join(alarms)}; {by_text}", None
    if alarms:
        count = 2 * max(done.prompts, 1)
        follow_up = FollowUp(check=NAME, stratum={"families": list(alarms)}, count=count, why=", ".join(alarms))
        return Status.SUSPECT, f"{', '.join(alarms)}; would ask for {count} fresh prompts; {by_text}", follow_up
    if missing := done.missing():
        return Status.INCONCLUSIVE, f"not exercised: {'; '.join(missing)}; {by_text}", None
    blind = max(shares.values(), default=1.0)
    if blind > LARGEST_SHARE:
        reason = f"too few answers or too unsteady ones: a fault that changes less than {blind:.0%} of them goes unseen"
        return Status.INCONCLUSIVE, f"{reason}, {LARGEST_SHARE:.0%} are allowed; {by_text}", None
    reason = "no text parts sooner than controls do"
    return Status.PASS, f"{reason}; blind to what changes less than {blind:.0%} of an arm's answers; {by_text}", None


def _told(prompts: Sequence[PromptArms], name: str) -> str:
    arm = name.split(" ")[0]
    parting: Parting = next(each for each in partings(prompts) if each.arm == arm)
    lost: LostCodes = next(each for each in lost_codes(prompts) if each.arm == arm)
    return (
        f"{arm}: {parting.events} answers part within {parting.exposure} characters, controls {parting.null_events} in "
        f"{parting.null_exposure}; codes lost {len(lost.lost)}, found {len(lost.found)}"
    )
