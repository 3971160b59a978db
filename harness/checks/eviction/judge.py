"""The eviction check's judge: a pure function of the history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.checks.eviction.arms import FAR, FORKED, HIT, PARTIAL, TOGETHER, TRAFFIC_HIT, sort_by_prompt
from harness.checks.eviction.company import foreign_tokens
from harness.checks.eviction.decision import Decision, by_family, decide, passing_effect
from harness.checks.eviction.exact import Exact, exact_tier
from harness.checks.eviction.exercise import Exercise, exercise
from harness.checks.eviction.pairs import Pair, Path, pairs_of
from harness.checks.eviction.shown import effects_with_distances, named, worst_pairs
from harness.checks.eviction.tests import Result
from harness.checks.eviction.text_judge import judge_texts
from harness.checks.eviction.text_tier import ForeignCode, foreign_codes
from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict

NAME = "eviction"
LARGEST_BLIND_SPOT = 0.35
"""Nats: a run that could have missed more than this does not pass."""
LOUDEST = 2 * LARGEST_BLIND_SPOT
"""Nats: where a comparison of many prompts is blind below more, something moves answers that no noise explains."""
APART = (PARTIAL, TOGETHER, FORKED, FAR)
"""Arms that a pass tells apart: few prompts go through them, or, of the far one, it is a control first."""
_SHOWN = 5


def judge(history: CheckHistory) -> Verdict:
    """Judge all rounds of one eviction check."""
    prompts = sort_by_prompt(history)
    done = exercise(prompts)
    if not prompts:
        return _nothing(history)
    if foreign := foreign_codes(prompts):
        return _foreign(foreign, done)
    pairs = [pair for prompt in prompts for pair in pairs_of(prompt)]
    if any(pair.path is not Path.PLACEBO for pair in pairs):
        return _in_company(history, _judge_pairs(history, pairs, done))
    return _in_company(history, judge_texts(prompts, done))


def _in_company(history: CheckHistory, verdict: Verdict) -> Verdict:
    """Nothing is decided about a server that others used meanwhile; a round that ended early is named."""
    if foreign := foreign_tokens(history):
        reason = f"not alone: the counters saw {foreign} prompt tokens that were not ours; else: {verdict.reason}"
        return replace(verdict, status=Status.INCONCLUSIVE, reason=reason, follow_up=None)
    if history.cut_short is not None and verdict.status not in (Status.PASS, Status.FAIL):
        return replace(verdict, reason=f"{verdict.reason}; a round ended early: {history.cut_short}")
    return verdict


def _nothing(history: CheckHistory) -> Verdict:
    if history.capabilities.cached_tokens is False:
        return Verdict(
            check=NAME,
            status=Status.NOT_APPLICABLE,
            reason="the server was not seen to cache prompts, so there is nothing to evict",
        )
    asked = len(history.answers)
    if asked and any(answer.record.invoke.arm == "probe" for answer in history.answers):
        reason = f"no prompt was ever served from the cache ({asked} requests were sent): nothing to evict"
        return Verdict(check=NAME, status=Status.INCONCLUSIVE, reason=reason)
    return Verdict(
        check=NAME, status=Status.INCONCLUSIVE, reason=f"no prompt was answered ({asked} requests were sent)"
    )


def _foreign(found: Sequence[ForeignCode], done: Exercise) -> Verdict:
    evidence = tuple(
        Evidence(
            request_ids=(each.request_id,),
            text=f"the {each.arm} answer to {each.prompt} holds {each.code}, the code of {each.owner}",
        )
        for each in found[:_SHOWN]
    )
    return Verdict(
        check=NAME,
        status=Status.FAIL,
        reason=f"{len(found)} answers hold the code of another prompt: one request read another's memory",
        eligible=done.prompts,
        examined=done.prompts,
        violations=len(found),
        evidence=evidence,
    )


def _judge_pairs(history: CheckHistory, pairs: Sequence[Pair], done: Exercise) -> Verdict:
    decision = decide(pairs)
    first = by_family([pair for pair in pairs if pair.round_index == 0])
    exact = exact_tier(first, decision.level, deterministic=history.capabilities.deterministic is True)
    fresh = by_family([pair for pair in pairs if pair.round_index > 0])
    again = exact_tier(fresh, 0.01, deterministic=history.capabilities.deterministic is True)
    exact_confirmed = [family for family in exact.alarms if family in again.alarms]
    status, reason, follow_up = _conclusion(history, decision, exact, exact_confirmed, done)
    shown = [*decision.confirmed, *decision.unmatched, *decision.alarms]
    evidence = _evidence(shown, pairs, exact)
    null_size = sum(pair.path is Path.PLACEBO for pair in pairs)
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=done.prompts,
        examined=min(done.prompts, len({pair.prompt for pair in pairs if pair.round_index == 0})),
        violations=len({prompt for result in shown for prompt in result.prompts}) or len(decision.alarms),
        evidence=evidence,
        null_size=null_size,
        smallest_effect=effects_with_distances(first, decision.smallest_effects),
        follow_up=follow_up,
        details={
            "tests": decision.tests,
            "level": decision.level,
            "alarms": [f"{result.family} {result.test}" for result in decision.alarms],
            "confirmed": [f"{result.family} {result.test}" for result in decision.confirmed],
            "exact_tier": exact.active,
            "returned_cold": done.returned_cold,
            "returned_warm": done.returned_warm,
            "returned_partial": done.returned_partial,
            "refilled_together": done.together,
            "refilled_fork": done.forked,
            "sentinel_never_cold": done.never_cold,
            "blind_nats": _finite(blind_alone(decision.smallest_effects)),
        },
    )


def _conclusion(
    history: CheckHistory, decision: Decision, exact: Exact, exact_confirmed: Sequence[str], done: Exercise
) -> tuple[Status, str, FollowUp | None]:
    never = "; the sentinel never went cold, so what was evicted may still be mapped" if done.never_cold else ""
    if decision.confirmed:
        return Status.FAIL, named("wrong answers", decision.confirmed) + never, None
    if exact_confirmed and history.capabilities.deterministic:
        families = ", ".join(exact_confirmed)
        return Status.FAIL, f"answers differ where a server declared bit-exact must repeat itself: {families}", None
    if decision.alarms or exact.alarms:
        return _suspicion(decision, exact, done)
    if decision.placebo:
        reason = "cold answers to one prompt differ from each other more than hits do: no sound reference"
        return Status.INCONCLUSIVE, reason, None
    if missing := done.missing():
        return Status.INCONCLUSIVE, "not exercised: " + "; ".join(missing), None
    if not any(name.startswith((f"{HIT}/", f"{TRAFFIC_HIT}/")) for name in decision.smallest_effects):
        reason = "hits were not measured: too few prompts had a resume from far back beside them (several caches?)"
        return Status.INCONCLUSIVE, reason, None
    common = of_all_prompts(decision.smallest_effects)
    worst = passing_effect(common)
    if worst > LARGEST_BLIND_SPOT:
        reason = f"too noisy or too few prompts: blind below {worst:.2f} nats, {LARGEST_BLIND_SPOT} are allowed"
        return Status.INCONCLUSIVE, reason, None
    loudest = max(common, key=common.__getitem__)
    if common[loudest] > LOUDEST:
        nats = common[loudest]
        reason = f"too noisy: {loudest} is blind below {nats:.2f} nats: what it is held against is not to be relied on"
        return Status.INCONCLUSIVE, reason, None
    alone = blind_alone(decision.smallest_effects)
    same = [nats for name, nats in common.items() if "/cold" not in name]
    tight = f" ({max(same):.3f} where the path is the same)" if same else ""
    if worst > alone:
        tight += f", below {worst:.2f} beside other requests"
    how = f"{done.hits} prompts hit, {done.returned_cold} returned cold, {done.returned_warm} returned cached"
    if done.returned_partial:
        how += f", {done.returned_partial} in part{_apart(decision.smallest_effects, PARTIAL)}"
    if done.together:
        how += f", {done.together} refilled together{_apart(decision.smallest_effects, TOGETHER)}"
    if done.forked:
        how += f", {done.forked} behind a fork{_apart(decision.smallest_effects, FORKED)}"
    return Status.PASS, f"no difference beyond noise; blind below {alone:.2f} nats{tight}; {how}", None


def of_all_prompts(effects: Mapping[str, float]) -> dict[str, float]:
    """Smallest effects of the arms that all prompts go through: what a pass is judged by."""
    return _but(effects, *APART)


def blind_alone(effects: Mapping[str, float]) -> float:
    """Nats below which a pass is blind in what was asked while nothing else was; in everything if nothing was.

    Infinity if nothing was measured.
    """
    alone = _but(effects, TRAFFIC_HIT, *APART)
    return passing_effect(alone if alone else effects)


def _but(effects: Mapping[str, float], *arms: str) -> dict[str, float]:
    return {name: nats for name, nats in effects.items() if not name.startswith(tuple(f"{arm}/" for arm in arms))}


def _apart(effects: Mapping[str, float], arm: str) -> str:
    """What the few prompts of an arm were blind to, in words."""
    nats = passing_effect({name: nats for name, nats in effects.items() if name.startswith(f"{arm}/")})
    return f" (blind below {nats:.2f})" if math.isfinite(nats) else " (single answers alone)"


def _finite(nats: float) -> float | None:
    return nats if math.isfinite(nats) else None


def _suspicion(decision: Decision, exact: Exact, done: Exercise) -> tuple[Status, str, FollowUp | None]:
    names = named("an alarm", decision.alarms) if decision.alarms else "an alarm: " + ", ".join(exact.alarms)
    if decision.unmatched:
        reason = f"{names}; it repeats, but short tails alone show it, as a kernel chosen by the tail's length would"
        return Status.SUSPECT, reason, None
    if decision.asked_again:
        return Status.SUSPECT, f"{names}; fresh prompts did not repeat it", None
    families = sorted({result.family for result in decision.alarms} | set(exact.alarms))
    follow_up = FollowUp(
        check=NAME,
        stratum={"families": families, "long_tails": True},
        count=2 * max(done.prompts, 1),
        why=names,
    )
    return Status.SUSPECT, f"{names}; would ask for {follow_up.count} fresh prompts", follow_up


def _evidence(results: Sequence[Result], pairs: Sequence[Pair], exact: Exact) -> tuple[Evidence, ...]:
    """The worst pairs of each family that alarmed."""
    wanted = [result.family for result in results] + [family for family in exact.alarms if exact.differing[family]]
    return worst_pairs(wanted, pairs)
