"""The verdict on two servers: the tests of the eviction check between them, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.checks.eviction.arms import VIRGIN, PromptArms, sort_by_prompt
from harness.checks.eviction.decision import Decision, by_family, decide
from harness.checks.eviction.pairs import Pair
from harness.checks.eviction.shown import effects_with_distances, named, worst_pairs
from harness.checks.eviction.tests import BENIGN_OFFSET, FEWEST, Result
from harness.checks.history import CheckHistory
from harness.checks.parity.accounts import Accounts, compare_accounts
from harness.checks.parity.pairs import COLD, WARM, pairs_between
from harness.checks.verdict import Evidence, Status, Verdict
from workloads.parity import NAME
from workloads.plan import Json

SHOWN = 5
# What the absolute test finds: the ratio of its margin above the largest harmless offset.
ABSOLUTE_EFFECT = 1.5 * BENIGN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """prompts: of both servers, by prompt. texts: prompts whose cold texts both gave; alike: those that are the same.

    looks: decisions with either half as the first look.
    """

    history: CheckHistory
    prompts: Sequence[tuple[PromptArms, PromptArms]]
    pairs: Sequence[Pair]
    looks: tuple[Decision, Decision]
    accounts: Accounts
    texts: int
    alike: int

    @property
    def confirmed(self) -> list[Result]:
        return _once(result for look in self.looks for result in look.confirmed)

    @property
    def alarms(self) -> list[Result]:
        return _once(result for look in self.looks for result in look.alarms)

    def count(self, family: str) -> int:
        """Pairs of a family in the half that has fewer."""
        halves = [sum(p.family == family and p.round_index == half for p in self.pairs) for half in (0, 1)]
        return min(halves)


def _once(results: Iterable[Result]) -> list[Result]:
    """One result of each test of a family."""
    return list({(result.family, result.test): result for result in results}.values())


def judge(history: CheckHistory) -> Verdict:
    """The verdict; without another server there is nothing to compare."""
    if not history.other:
        return _nothing(history)
    found = _find(history)
    if found.accounts.failures:
        first = found.accounts.failures[0].text
        reason = f"{len(found.accounts.failures)} counts contradict each other: {first}"
        return _verdict(found, Status.FAIL, reason, found.accounts.failures)
    if found.confirmed:
        reason = f"the other server answers otherwise: {named('confirmed', found.confirmed)} by both halves"
        return _verdict(found, Status.FAIL, reason, _worst(found, found.confirmed))
    if found.alarms:
        reason = f"{named('an alarm', found.alarms)}; the other half of the prompts does not confirm it"
        return _verdict(found, Status.SUSPECT, reason, _worst(found, found.alarms))
    if found.accounts.doubts:
        return _verdict(found, Status.SUSPECT, "; ".join(found.accounts.doubts))
    return _undecided(found) or _sound(found)


def _nothing(history: CheckHistory) -> Verdict:
    if history.answers:
        reason = "the other server was not asked, or its answers are lost"
        return Verdict(check=NAME, status=Status.INCONCLUSIVE, reason=reason)
    reason = "no other server was named (--other-url), so there is nothing to compare with"
    return Verdict(check=NAME, status=Status.NOT_APPLICABLE, reason=reason)


def _find(history: CheckHistory) -> _Findings:
    here = {arms.prompt: arms for arms in sort_by_prompt(history)}
    there = {arms.prompt: arms for arms in sort_by_prompt(replace(history, answers=history.other))}
    prompts = [(here[name], there[name]) for name in here if name in there]
    pairs = [pair for mine, theirs in prompts for pair in pairs_between(mine, theirs)]
    turned = [replace(pair, round_index=1 - pair.round_index) for pair in pairs]
    texts = [(mine.of(VIRGIN)[0].text, theirs.of(VIRGIN)[0].text) for mine, theirs in prompts if _both(mine, theirs)]
    return _Findings(
        history=history,
        prompts=prompts,
        pairs=pairs,
        looks=(decide(pairs), decide(turned)),
        accounts=compare_accounts(history.answers, history.other),
        texts=len(texts),
        alike=sum(one == other for one, other in texts),
    )


def _both(mine: PromptArms, theirs: PromptArms) -> bool:
    return bool(mine.of(VIRGIN)) and bool(theirs.of(VIRGIN))


def _worst(found: _Findings, results: Sequence[Result]) -> tuple[Evidence, ...]:
    return worst_pairs([result.family for result in results], found.pairs)


def _undecided(found: _Findings) -> Verdict | None:
    if found.count(COLD) >= FEWEST:
        return None
    if not found.pairs and found.texts >= 2 * FEWEST and found.alike == found.texts:
        return None
    if not found.pairs and found.texts:
        reason = (
            f"without log-probabilities {found.texts - found.alike} of {found.texts} cold texts differ, which near ties"
            " explain as well as a fault"
        )
        return _verdict(found, Status.INCONCLUSIVE, reason)
    ended = "" if found.history.cut_short is None else f"; a round ended early: {found.history.cut_short}"
    reason = f"only {found.count(COLD)} prompts of a half were answered cold by both servers, {FEWEST} are needed"
    return _verdict(found, Status.INCONCLUSIVE, reason + ended)


def _sound(found: _Findings) -> Verdict:
    if not found.pairs:
        return _verdict(found, Status.PASS, f"all {found.texts} cold texts are the same (no log-probabilities)")
    cold, hit = (sum(pair.family == family for pair in found.pairs) for family in (COLD, WARM))
    warm = f"{hit} hits" if found.count(WARM) >= FEWEST else f"hits were not compared ({hit} on both servers)"
    reason = (
        f"{cold} cold answers and {warm}: none differ beyond {BENIGN_OFFSET} nats or by a clear token;"
        f" {found.alike} of {found.texts} cold texts are the same"
    )
    return _verdict(found, Status.PASS, reason)


def _verdict(found: _Findings, status: Status, reason: str, evidence: Sequence[Evidence] = ()) -> Verdict:
    effects = found.looks[0].smallest_effects
    first = by_family([pair for pair in found.pairs if pair.round_index == 0])
    stated = effects_with_distances(first, effects)
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.prompts),
        examined=len({pair.prompt for pair in found.pairs}) or found.texts,
        violations=len(evidence),
        evidence=tuple(evidence[:SHOWN]),
        smallest_effect={**({COLD: ABSOLUTE_EFFECT} if found.count(COLD) >= FEWEST else {}), **stated},
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    return {
        "cold_pairs": sum(pair.family == COLD for pair in found.pairs),
        "hit_pairs": sum(pair.family == WARM for pair in found.pairs),
        "texts_compared": found.texts,
        "texts_alike": found.alike,
        "prompt_token_offset": found.accounts.offset,
        "requests_compared": found.accounts.compared,
        "alarms": [f"{result.family} {result.test}" for result in found.alarms],
        "doubts": list(found.accounts.doubts),
        "cut_short": found.history.cut_short,
    }
