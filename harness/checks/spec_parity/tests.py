"""The tests of rescored answers, and the two samples of tokens drawn at temperature 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.checks.history import Answer
from harness.checks.spec_parity.drawing import Draws, draws, frequent
from harness.checks.spec_parity.scores import LOUD, Scored, excess_scores, usual_noise
from harness.records import Outcome, TokenLogprob
from workloads.spec_parity import SAMPLED

RATIO = math.log(2.25)
LEVEL, CONFIRMING_LEVEL = 1e-4, 0.01
# Nats RMS by which the median answer must differ at least.
GATE = 0.15
SPARSE_SCORE = 2.5
# A token that prefill would not have chosen counts from so many nats on, or from so many times what the noise of this
# server reaches: at its clean positions, and at the worst later position of its median answer.
HARD_NATS = 2.0
HARD_CLEAN, HARD_USUAL = 2.0, 3.0
FOREIGN_TEST = "foreign"
FEWEST_ANSWERS = 8
FEWEST_SINGLE = 2
FEWEST_SAMPLES = 16
UNLIKE_LEVEL = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """mean: many answers are a little off. sparse, hard: single ones far off, by table and by token. foreign: what is
    decoded has nothing to do with its text.

    p_value: of the mean. median_rms, clean_rms: nats, None without tables. hard_nats: from where on a token is hard.
    """

    mean: bool
    sparse: tuple[Scored, ...]
    hard: tuple[Scored, ...]
    foreign: tuple[Scored, ...]
    p_value: float
    median_rms: float | None
    clean_rms: float | None
    hard_nats: float
    answers: int
    tabled: int

    @property
    def names(self) -> list[str]:
        """Tests that alarm; single answers count from two on, for a race or a near tie may make one, and foreign ones
        from half of all on: no noise makes them, but fewer are for the other tests."""
        found = {
            "mean": self.mean,
            "sparse": len(self.sparse) >= FEWEST_SINGLE,
            "hard": len(self.hard) >= FEWEST_SINGLE,
            FOREIGN_TEST: self.answers >= FEWEST_ANSWERS and 2 * len(self.foreign) >= self.answers,
        }
        return [name for name, alarm in found.items() if alarm]


def run_tests(scored: Sequence[Scored], level: float = LEVEL, openings: Sequence[Scored] = ()) -> Alarms:
    """All tests of some answers; openings tell more of the noise."""
    from harness.stats.tests import t_greater

    scores = excess_scores(scored, openings)
    later = [gap for each in scored if (gap := each.gap(clean=False)) is not None]
    clean = usual_noise([*scored, *openings])
    rms = math.sqrt(median(later)) if later else None
    p_value = t_greater([score for _, score in scores], RATIO)
    loud = rms is not None and rms > GATE
    beyond = hard_limit(scored, openings)
    return Alarms(
        mean=len(scores) >= FEWEST_ANSWERS and p_value <= level and loud,
        sparse=tuple(each for each, score in scores if score > SPARSE_SCORE and _loud(each)),
        foreign=tuple(each for each in scored if each.foreign),
        hard=tuple(each for each in scored if each.preference(clean=False) > beyond),
        p_value=p_value,
        median_rms=rms,
        clean_rms=None if clean is None else math.sqrt(clean),
        hard_nats=beyond,
        answers=len(scored),
        tabled=len(later),
    )


def hard_limit(scored: Sequence[Scored], openings: Sequence[Scored] = ()) -> float:
    """Nats beyond which a single token is not this server's noise.

    Faults in more than half of the answers raise it themselves; the mean finds them.
    """
    known = (*scored, *openings)
    clean = max((max(each.reach(clean=True), each.preference(clean=True)) for each in known), default=0.0)
    usual = median(each.reach(clean=False) for each in scored) if scored else 0.0
    return max(HARD_NATS, HARD_CLEAN * clean, HARD_USUAL * usual)


def _loud(scored: Scored) -> bool:
    gap = scored.gap(clean=False)
    return gap is not None and math.sqrt(gap) > LOUD


def alarms_in_both_halves(scored: Sequence[Scored]) -> list[str]:
    """Tests that alarm over all answers, and over every second one and the others by themselves."""
    whole = run_tests(scored)
    halves = [run_tests(scored[start::2], CONFIRMING_LEVEL) for start in (0, 1)]
    return [name for name in whole.names if all(name in half.names for half in halves)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Tokens at temperature 1 against their tables, in the same groups each time.

    drawn, fresh: those after the first of an answer, in the first round and in later ones. others: those that are never
    drafted, of all rounds. one_by_one: the groups are single tokens.
    """

    drawn: Draws
    fresh: Draws
    others: Draws
    one_by_one: bool

    @property
    def off_tables(self) -> bool:
        """Whether tokens of the first round are not drawn from what the server tells."""
        p_value = self.drawn.p_value()
        return p_value is not None and p_value <= LEVEL

    @property
    def off_again(self) -> bool:
        """Whether fresh ones are not either."""
        p_value = self.fresh.p_value()
        return p_value is not None and p_value <= CONFIRMING_LEVEL

    @property
    def unlike_others(self) -> bool:
        """Whether they are off otherwise than tokens that are never drafted.

        One by one there are too many groups for so few others: only what the first round showed is compared.
        """
        if self.one_by_one:
            return self.drawn.along(self.fresh, self.others) <= UNLIKE_LEVEL
        return self.drawn.with_more(self.fresh).against(self.others) <= UNLIKE_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Two sets of tokens drawn at temperature 1: those after the first of an answer, where drafts are judged, and
    others that never are.

    Surprise is log p(token) less its expectation under the table the server gives beside it: 0 on average, whatever the
    context, if tokens are drawn from what is told. difference: in nats; p_value: two-sided, Welch's; None with too few.
    by_share, by_token: tokens against their tables, in groups of their probability and one by one.
    """

    drafted: int
    undrafted: int
    difference: float | None
    p_value: float | None
    by_share: Counted
    by_token: Counted

    @property
    def off_tables(self) -> tuple[Counted, ...]:
        """The ways of counting by which tokens of the first round are not drawn from what the server tells."""
        return tuple(each for each in (self.by_share, self.by_token) if each.off_tables)


def sampling(answers: Sequence[Answer], other: Sequence[Answer] = ()) -> Sampling:
    """Compare the two samples, one value an answer for tokens after the first.

    The undrafted ones are the same tokens of another server, where one was asked, else the first tokens of this one.
    """
    from scipy import stats

    sampled, elsewhere = _tables(answers), _tables(other)
    sets = (
        [position for fresh, logprobs in sampled if not fresh for position in logprobs[1:]],
        [position for fresh, logprobs in sampled if fresh for position in logprobs[1:]],
        [logprobs[0] for _, logprobs in sampled] + [position for _, logprobs in elsewhere for position in logprobs[1:]],
    )
    first = [value for _, logprobs in sampled if (value := surprise(logprobs[0])) is not None]
    if elsewhere:
        first = [fmean(values) for _, logprobs in elsewhere if (values := _surprises(logprobs[1:]))]
    means = [fmean(values) for _, logprobs in sampled if (values := _surprises(logprobs[1:]))]
    enough = min(len(first), len(means)) >= FEWEST_SAMPLES
    return Sampling(
        drafted=len(means),
        undrafted=len(first),
        difference=fmean(means) - fmean(first) if enough else None,
        p_value=float(stats.ttest_ind(means, first, equal_var=False).pvalue) if enough else None,
        by_share=_counted(*sets, tokens=()),
        by_token=_counted(*sets, tokens=frequent(sets[0])),
    )


def _counted(
    early: Sequence[TokenLogprob], late: Sequence[TokenLogprob], others: Sequence[TokenLogprob], tokens: Sequence[str]
) -> Counted:
    drawn, fresh, undrafted = (draws(positions, tokens) for positions in (early, late, others))
    return Counted(drawn=drawn, fresh=fresh, others=undrafted, one_by_one=bool(tokens))


def _tables(answers: Sequence[Answer]) -> list[tuple[bool, tuple[TokenLogprob, ...]]]:
    """Of every sampled answer: whether it came in a later round, and its tables."""
    return [
        (not answer.record.invoke.cell.endswith("-r0"), answer.logprobs)
        for answer in answers
        if answer.record.invoke.labels.get("kind") == SAMPLED
        and answer.record.complete.outcome is Outcome.OK
        and answer.logprobs
    ]


def _surprises(logprobs: Sequence[TokenLogprob]) -> list[float]:
    return [value for position in logprobs if (value := surprise(position)) is not None]


def surprise(position: TokenLogprob) -> float | None:
    """log p(token) - E[log p], in nats; tokens below the table count as its last one. None without a table."""
    if position.logprob is None or not position.top:
        return None
    values = [value for _, value in position.top]
    floor = min(values)
    listed = sum(math.exp(value) for value in values)
    expected = sum(math.exp(value) * value for value in values) + max(0.0, 1 - listed) * floor
    return max(position.logprob, floor) - expected
