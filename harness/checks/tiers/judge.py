"""The verdict on the tiers behind the device: what came back from them, and whether the answers are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.eviction.arms import HIT, sort_by_prompt
from harness.checks.eviction.company import foreign_tokens
from harness.checks.eviction.decision import Decision, by_family, decide, passing_effect
from harness.checks.eviction.pairs import Pair, pairs_of
from harness.checks.eviction.shown import effects_with_distances, named, worst_pairs
from harness.checks.history import CheckHistory
from harness.checks.tiers.facts import Return, Source, returns_of, source_of
from harness.checks.tiers.ranks import FEWEST, RankCount, count_ranks, idle_replica, shards_apart, told_of
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from workloads.plan import Json
from workloads.tiers import NAME

LARGEST_BLIND_SPOT = 0.35
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """returns: of all rounds. hits: prompts of the first look that were hits of the device. ranks: none if not told."""

    history: CheckHistory
    pairs: Sequence[Pair]
    decision: Decision
    returns: Sequence[Return]
    hits: int
    ranks: Sequence[RankCount]

    @property
    def slack(self) -> int:
        """What the last return may have added on one rank and not yet on another."""
        return max((each.cached or 0 for each in self.returns), default=0)

    @property
    def restored(self) -> list[Return]:
        return [each for each in self.returns if each.restored]

    @property
    def cold(self) -> list[Return]:
        return [each for each in self.returns if not each.cached]

    @property
    def wrongly_told(self) -> list[Return]:
        """Answers whose tiers add up to more than their prompt, or to something else than their cached tokens."""
        told = [each for each in self.returns if each.told]
        return [each for each in told if each.cached is not None and sum(each.told.values()) != each.cached]


def judge(history: CheckHistory) -> Verdict:
    """The verdict on all rounds."""
    prompts = sort_by_prompt(history)
    pairs = [pair for prompt in prompts for pair in pairs_of(prompt)]
    found = _Findings(
        history=history,
        pairs=pairs,
        decision=decide(pairs),
        returns=returns_of(history),
        hits=sum(any(shot.warm for shot in prompt.of(HIT)) for prompt in prompts if prompt.round_index == 0),
        ranks=count_ranks(history),
    )
    if foreign := foreign_tokens(history):
        reason = f"not alone: the counters saw {foreign} prompt tokens that were not ours"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if found.decision.confirmed:
        reason = f"wrong answers after a return: {named('confirmed', found.decision.confirmed)}"
        return _verdict(found, Status.FAIL, reason, _worst(found))
    if found.decision.alarms:
        return _suspicion(found)
    if len(found.wrongly_told) > 1:
        return _verdict(found, Status.FAIL, _miscounted(found), [_told_evidence(each) for each in found.wrongly_told])
    if (apart := shards_apart(found.ranks, found.slack)) is not None:
        return _verdict(found, Status.SUSPECT, apart)
    return _absent(found) or _undecided(found) or _sound(found)


def _suspicion(found: _Findings) -> Verdict:
    words = named("an alarm", found.decision.alarms)
    if found.decision.asked_again:
        words += "; short tails alone repeat it" if found.decision.unmatched else "; fresh prompts did not repeat it"
        return _verdict(found, Status.SUSPECT, words, _worst(found))
    follow_up = FollowUp(check=NAME, stratum={"long_tails": True}, count=2 * max(found.hits, 1), why=words)
    return _verdict(found, Status.SUSPECT, words, _worst(found), follow_up)


def _absent(found: _Findings) -> Verdict | None:
    """No tier behind: the server says so, or what left the device is computed anew, or nothing is cached at all."""
    reason = None
    if not found.returns:
        reason = _never_asked(found.history)
    elif len(found.cold) >= FEWEST and len(found.cold) == len(found.returns):
        reason = f"all {len(found.cold)} prompts that left the device were computed anew: there is no other tier"
    return None if reason is None else _verdict(found, Status.NOT_APPLICABLE, reason)


def _never_asked(history: CheckHistory) -> str | None:
    """Why nothing had to return; None if something should have."""
    known = history.capabilities
    if known.host_tier is False:
        return "the server says that it has no tier behind the device"
    if known.cached_tokens is False:
        return "the server was not seen to cache prompts"
    if known.host_tier is None and known.cached_tokens and history.answers and history.cut_short is None:
        return "the server tells of no tier behind the device, and holds more there than a flood may cost"
    return None


def _undecided(found: _Findings) -> Verdict | None:
    reason = None
    if not found.returns:
        reason = "nothing returned: " + (
            "no prompt was ever a hit, or the device holds more than a flood may cost (a larger --max-tokens-total)"
            if found.history.answers
            else "nothing was asked"
        )
    elif source_of(found.returns) is Source.NOBODY:
        reason = (
            "the server does not tell from which tier cached tokens came (SGLang: --enable-cache-report; vLLM: the"
            " counter vllm:external_prefix_cache_hits)"
        )
    elif len(found.restored) < FEWEST:
        reason = f"not exercised: {len(found.restored)} of {len(found.returns)} returns came from behind the device"
    elif (idle := idle_replica(found.ranks)) is not None:
        reason = idle
    elif found.decision.placebo:
        reason = "cold answers to one prompt differ from each other more than hits do: no sound reference"
    elif (worst := passing_effect(found.decision.smallest_effects)) > LARGEST_BLIND_SPOT:
        reason = f"too noisy or too few prompts: blind below {worst:.2f} nats, {LARGEST_BLIND_SPOT} are allowed"
    if reason is None:
        return None
    ended = "" if found.history.cut_short is None else f"; a round ended early: {found.history.cut_short}"
    return _verdict(found, Status.INCONCLUSIVE, reason + ended)


def _sound(found: _Findings) -> Verdict:
    got, expected = _restored_tokens(found.returns)
    share = "" if not expected else f", {got:,} of {expected:,} tokens ({got / expected:.1%})"
    worst = passing_effect(found.decision.smallest_effects)
    reason = (
        f"{len(found.restored)} of {len(found.returns)} returns came from behind the device{share}, and are answered as"
        f" before; blind below {worst:.2f} nats; told by {source_of(found.returns).value};"
        f" {told_of(found.ranks, found.history.capabilities.engine)}"
    )
    return _verdict(found, Status.PASS, reason)


def _restored_tokens(returns: Sequence[Return]) -> tuple[int, int]:
    """Cached tokens of the returns that came from behind, and what the device gave for the same prompts."""
    known = [each for each in returns if each.restored and each.cached is not None and each.expected is not None]
    return sum(each.cached or 0 for each in known), sum(each.expected or 0 for each in known)


def _miscounted(found: _Findings) -> str:
    first = found.wrongly_told[0]
    return (
        f"in {len(found.wrongly_told)} answers the tiers do not add up to the cached tokens: {dict(first.told)} against"
        f" {first.cached}"
    )


def _told_evidence(each: Return) -> Evidence:
    text = f"{each.prompt} {each.arm}: {dict(each.told)}, {each.cached} cached of {each.prompt_tokens}"
    return Evidence(request_ids=(each.request_id,), text=text)


def _worst(found: _Findings) -> tuple[Evidence, ...]:
    shown = [*found.decision.confirmed, *found.decision.unmatched, *found.decision.alarms]
    return worst_pairs([result.family for result in shown], found.pairs)


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    evidence: Sequence[Evidence] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    first = by_family([pair for pair in found.pairs if pair.round_index == 0])
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.returns),
        examined=len(found.restored),
        violations=len(evidence),
        evidence=tuple(evidence[:SHOWN]),
        smallest_effect=effects_with_distances(first, found.decision.smallest_effects),
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    got, expected = _restored_tokens(found.returns)
    return {
        "returns": len(found.returns),
        "restored": len(found.restored),
        "computed_anew": len(found.cold),
        "restored_tokens": got,
        "device_tokens": expected,
        "restored_share": got / expected if expected else None,
        "tiers_told_by": source_of(found.returns).value,
        "ranks": {
            str(each.rank): {"tier_tokens": each.tier_tokens, "returns": each.served, "restored": each.restored}
            for each in found.ranks
        },
        "alarms": [f"{result.family} {result.test}" for result in found.decision.alarms],
        "cut_short": found.history.cut_short,
    }
