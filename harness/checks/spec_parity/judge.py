"""The verdict: alarms first, then whether drafts were made and rejected at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import CheckHistory
from harness.checks.spec_parity.scores import Rescoring, Scored, between_servers, rescoring, table_of
from harness.checks.spec_parity.tests import (
    CONFIRMING_LEVEL,
    FEWEST_ANSWERS,
    FOREIGN_TEST,
    GATE,
    LEVEL,
    Alarms,
    Counted,
    Sampling,
    alarms_in_both_halves,
    run_tests,
    sampling,
)
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.records import Outcome
from harness.stats.drafts import Drafts, counted_drafts, drafts_of
from workloads.plan import Json
from workloads.spec_parity import ANSWER, NAME

FEWEST_STEPS = 50
SPECULATION, SAMPLING, ONE_BY_ONE = "speculation", "sampling", "one by one"
_SHOWN = 6


# On a real hybrid server without drafts (vLLM, bfloat16, random weights) single tokens came out over 1 nat apart.
NOT_BY_DRAFTS = "no draft was seen: this is decoding against prefill, whose differences grow along an answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rescoring: Rescoring
    first: Alarms
    fresh: Alarms
    sampling: Sampling
    drafts: Drafts | None
    between: Sequence[Scored]

    @property
    def repeated(self) -> list[str]:
        """Tests that alarmed on the first prompts and on fresh ones."""
        again = {*self.fresh.names, *(["sparse"] if self.fresh.sparse else []), *(["hard"] if self.fresh.hard else [])}
        return [name for name in self.first.names if name in again]

    @property
    def sampled_otherwise(self) -> bool:
        return self.sampling.p_value is not None and self.sampling.p_value <= LEVEL


def judge(history: CheckHistory) -> Verdict:
    """The verdict; where nothing drafts, decoding is compared with prefill all the same, and at most suspected."""
    found = _find(history)
    if found.repeated:
        how = _in_words(found.first)
        reason = (
            f"tokens are not those that prefill gives ({', '.join(found.repeated)}; fresh prompts repeat it): {how}"
        )
        if not _drafted(found) and FOREIGN_TEST not in found.repeated:
            return _verdict(found, Status.SUSPECT, f"{reason}; {NOT_BY_DRAFTS}", _evidence(found))
        return _verdict(found, Status.FAIL, reason, _evidence(found))
    if found.first.names:
        return _once(found)
    if found.between and (differs := _other_differs(found)) is not None:
        return differs
    return _unexercised(found) or _sampled(found) or _sound(found)


def _drafted(found: _Findings) -> bool:
    """Whether a draft was counted, so that a rollback can have gone wrong."""
    return found.drafts is not None and found.drafts.steps > 0


def _find(history: CheckHistory) -> _Findings:
    joined = rescoring(history)
    first = [each for each in joined.scored if each.round_index == 0]
    fresh = [each for each in joined.scored if each.round_index > 0]
    return _Findings(
        history=history,
        rescoring=joined,
        first=run_tests(first, openings=joined.openings),
        fresh=run_tests(fresh, CONFIRMING_LEVEL, openings=joined.openings),
        sampling=sampling(history.answers, history.other),
        drafts=_drafts(history),
        between=between_servers(history),
    )


def _other_differs(found: _Findings) -> Verdict | None:
    """The other server gives other answers to the same prompts: sure where both halves of them show it."""
    alarms, certain = run_tests(found.between), alarms_in_both_halves(found.between)
    if not alarms.names:
        return None
    if certain:
        reason = f"the other server answers otherwise ({', '.join(certain)}; both halves of the prompts show it)"
        return _verdict(found, Status.FAIL, f"{reason}: {_in_words(alarms, 'the other server')}", _worst(found.between))
    reason = f"the other server answers otherwise ({', '.join(alarms.names)}; half of the prompts does not show it)"
    return _verdict(found, Status.SUSPECT, f"{reason}: {_in_words(alarms, 'the other server')}", _worst(found.between))


def _drafts(history: CheckHistory) -> Drafts | None:
    """All drafts of the check: by the answers' own fields, else by the counters from first to last."""
    own = [
        account
        for answer in history.answers
        if answer.record.complete.outcome is Outcome.OK
        and (account := drafts_of(answer.record.complete.extra, answer.record.complete.output_tokens)) is not None
    ]
    if own:
        drafted = [each.drafted for each in own if each.drafted is not None]
        return Drafts(
            steps=sum(each.steps for each in own),
            accepted=sum(each.accepted for each in own),
            drafted=sum(drafted) if len(drafted) == len(own) else None,
        )
    samples = sorted(history.counters, key=lambda sample: sample.at_ns)
    return counted_drafts(samples[0].values, samples[-1].values, len(history.answers)) if len(samples) > 1 else None


def _once(found: _Findings) -> Verdict:
    reason = f"an alarm ({', '.join(found.first.names)}): {_in_words(found.first)}"
    if found.history.rounds > 1:
        return _verdict(found, Status.SUSPECT, f"{reason}; fresh prompts did not repeat it", _evidence(found))
    follow_up = FollowUp(
        check=NAME, stratum={"tests": found.first.names}, count=max(1, found.first.answers), why=reason
    )
    return _verdict(found, Status.SUSPECT, reason, _evidence(found), follow_up)


def _unexercised(found: _Findings) -> Verdict | None:
    scored, drafts = len(found.rescoring.scored), found.drafts
    if not found.history.answers and found.history.capabilities.token_id_prompts is not True:
        return _verdict(
            found, Status.INCONCLUSIVE, "not testable: the server was not found to take prompts as token ids"
        )
    if scored < FEWEST_ANSWERS:
        reason = f"only {scored} answers could be rescored: token ids and log-probabilities of each answer are needed"
        if found.rescoring.misaligned:
            reason += f"; {found.rescoring.misaligned} tokens have a text before them that their ids do not give again"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if drafts is None or drafts.steps == 0:
        if found.history.capabilities.speculation or SPECULATION in found.history.required:
            return _verdict(found, Status.INCONCLUSIVE, "not exercised: no draft was counted during the check")
        return None
    rejected = drafts.drafted is None or drafts.accepted < drafts.drafted
    if drafts.steps < FEWEST_STEPS or not rejected:
        reason = f"not exercised: {drafts.steps} verify steps" + ("" if rejected else ", and no draft was rejected")
        return _verdict(found, Status.INCONCLUSIVE, reason)
    return None


def _sampled(found: _Findings) -> Verdict | None:
    """Tokens drawn otherwise than is told: an alarm, and a failure if fresh ones show it and undrafted ones do not."""
    by = found.sampling
    if by.off_tables:
        return _drawn_otherwise(found, by.off_tables)
    if not found.sampled_otherwise:
        return None
    reason = (
        f"at temperature 1, tokens after the first are {by.difference:+.3f} nats off what their own tables expect,"
        f" against first tokens (p = {by.p_value:.1e})"
    )
    if found.history.rounds > 1:
        return _verdict(found, Status.FAIL, f"{reason}; with fresh prompts too")
    return _verdict(found, Status.SUSPECT, reason, (), _more_samples(found, reason))


def _drawn_otherwise(found: _Findings, counted: Sequence[Counted]) -> Verdict:
    """counted: the ways of counting that alarmed, of which one has to do so again."""
    reason = f"at temperature 1, tokens are not drawn as their own tables say ({counted[0].drawn.worst()})"
    if found.history.rounds < 2:
        one_by_one = all(each.one_by_one for each in counted)
        return _verdict(found, Status.SUSPECT, reason, (), _more_samples(found, reason, one_by_one=one_by_one))
    again = [each for each in counted if each.off_again]
    if not again:
        return _verdict(found, Status.SUSPECT, f"{reason}; fresh prompts did not repeat it")
    if not any(each.unlike_others for each in again):
        return _verdict(found, Status.SUSPECT, f"{reason}; nor are tokens that are never drafted: not by drafting")
    return _verdict(found, Status.FAIL, f"{reason}; fresh prompts repeat it, and tokens that are never drafted do not")


def _more_samples(found: _Findings, why: str, *, one_by_one: bool = False) -> FollowUp:
    tests: list[Json] = [SAMPLING, ONE_BY_ONE] if one_by_one else [SAMPLING]
    return FollowUp(check=NAME, stratum={"tests": tests}, count=max(1, found.first.answers), why=why)


def _sound(found: _Findings) -> Verdict:
    drafts = found.drafts
    if drafts is None or not _drafted(found):
        reason = f"no draft was seen; decoding agrees with prefill: {_in_words(found.first)}"
    else:
        rejected = "" if drafts.drafted is None else f", {drafts.drafted - drafts.accepted} drafts rejected"
        agreed = f"{_in_words(found.first)}; {drafts.steps} verify steps{rejected}"
        reason = f"drafting changes nothing beyond noise: {agreed}"
    if found.between:
        reason += f"; {_in_words(run_tests(found.between), 'the other server')}"
    return _verdict(found, Status.PASS, reason)


def _in_words(alarms: Alarms, reference: str = "prefill") -> str:
    if alarms.median_rms is None or alarms.clean_rms is None:
        return f"{alarms.answers} answers, compared by token alone"
    if 2 * len(alarms.foreign) >= alarms.answers:
        return f"{len(alarms.foreign)} of {alarms.answers} answers have nothing to do with their text after one token"
    return (
        f"the median of {alarms.tabled} answers is {alarms.median_rms:.3f} nats RMS from {reference},"
        f" {alarms.clean_rms:.3f} where no rollback can have been"
    )


def _evidence(found: _Findings) -> list[Evidence]:
    return _worst(found.rescoring.scored)


def _worst(scored: Sequence[Scored]) -> list[Evidence]:
    """The answers that are furthest off, by table and then by token."""
    gravest = sorted(scored, key=_gravity, reverse=True)
    return [_shown(each) for each in gravest[:_SHOWN]]


def _gravity(scored: Scored) -> tuple[float, float]:
    gap = scored.gap(clean=False)
    return (0.0 if gap is None else gap, scored.preference(clean=False))


def _shown(scored: Scored) -> Evidence:
    worst = max(scored.positions, key=lambda each: (each.gap if each.gap is not None else 0.0, each.preference))
    rms = 0.0 if worst.gap is None else math.sqrt(worst.gap)
    return Evidence(
        request_ids=(scored.request_id, worst.request_id),
        text=f"{scored.name}: token {worst.position} is {rms:.2f} nats RMS from the reference after the same text",
        position=worst.position,
        table=table_of(scored),
    )


def _verdict(
    found: _Findings,
    status: Status,
    reason: str,
    evidence: Sequence[Evidence] = (),
    follow_up: FollowUp | None = None,
) -> Verdict:
    asked = sum(answer.record.invoke.labels.get("kind") == ANSWER for answer in found.history.answers)
    scored = found.rescoring.scored
    clean = found.first.clean_rms
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=asked,
        examined=len(scored),
        violations=len({each.name for each in (*found.first.hard, *found.first.sparse, *found.first.foreign)}),
        evidence=tuple(evidence),
        null_size=sum(each.noise() is not None for each in (*scored, *found.rescoring.openings)),
        smallest_effect={} if clean is None else {"median of later positions": max(GATE, 1.5 * clean)},
        follow_up=follow_up,
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    contents = dict.fromkeys(each.content for each in found.rescoring.scored)
    by_content: dict[str, Json] = {}
    for content in contents:
        alarms = run_tests([each for each in found.rescoring.scored if each.content == content])
        by_content[content] = None if alarms.median_rms is None else round(alarms.median_rms, 4)
    drafts = found.drafts
    return {
        "median_rms_nats_by_content": by_content,
        "alarms": found.first.names,
        "repeated": found.repeated,
        "single_answers_off": len(found.first.sparse),
        "tokens_prefill_rejects": len(found.first.hard),
        "answers_unlike_their_text": len(found.first.foreign),
        "rejected_beyond_nats": round(found.first.hard_nats, 3),
        "compared_with_other_server": len(found.between),
        "misaligned": found.rescoring.misaligned,
        "verify_steps": None if drafts is None else drafts.steps,
        "accepted": None if drafts is None else drafts.accepted,
        "drafted": None if drafts is None else drafts.drafted,
        "sampling_difference_nats": found.sampling.difference,
        "sampling_p_value": found.sampling.p_value,
        "drawn_against_tables_p_value": found.sampling.by_share.drawn.p_value(),
        "drawn_token_by_token_p_value": found.sampling.by_token.drawn.p_value(),
        "cut_short": found.history.cut_short,
    }
