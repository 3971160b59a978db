"""The verdict on isolation: somebody else's codeword, an answer no model gives, answers that company changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.checks.history import CheckHistory
from harness.checks.isolation.counts import found_under_own_salt
from harness.checks.isolation.deviations import FLIP_LIMIT_NATS, Deviations, deviations
from harness.checks.isolation.facts import Row, rows_of
from harness.checks.isolation.leaks import Leaks, leaks_in
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.records import ErrorKind
from harness.stats.tests import fisher_greater
from workloads.isolation import NAME
from workloads.plan import Json

MOST_EVIDENCE = 16
# So many in one round are no accident of one request; fewer have to come again on fresh content.
WRONG_AT_ONCE = 3
FEWEST_IN_COMPANY = 16
CHANCE_LIMIT = 1e-4
FISHER_LIMIT = 1e-3
FOLLOW_UP_CYCLES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]
    leaks: Leaks
    deviations: Deviations
    miscounted: Sequence[Evidence]

    @property
    def garbage(self) -> list[Row]:
        """Answers that no sound model gives."""
        return [row for row in self.rows if row.broken is not None]

    @property
    def rounds_with_wrong(self) -> dict[str, int]:
        """Wrong answers by round."""
        counts: dict[str, int] = {}
        for each in self.deviations.wrong:
            cell = each.row.cycle.rpartition("/")[0]
            counts[cell] = counts.get(cell, 0) + 1
        return counts

    @property
    def blind(self) -> bool:
        """Whether neither log-probabilities nor codewords say anything: the model repeats none even when alone."""
        return self.deviations.limit is None and not any(row.own for row in self.rows if row.alone)


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history without answers is undecided."""
    rows = rows_of(history)
    found = _Findings(
        history=history,
        rows=rows,
        leaks=leaks_in(rows),
        deviations=deviations(rows),
        miscounted=tuple(found_under_own_salt(history)),
    )
    return _beyond_doubt(found) or _repeated(found) or _miscounted(found) or _undecided(found) or _sound(found)


def _beyond_doubt(found: _Findings) -> Verdict | None:
    if found.leaks.certain or found.leaks.chance < CHANCE_LIMIT:
        first = (found.leaks.certain or found.leaks.found)[0]
        reason = (
            f"{first.row.session} ({first.row.arm}) was answered with {first.codeword}, which {first.other} was told"
        )
        return _verdict(found, Status.FAIL, f"a foreign codeword: {reason}")
    if found.garbage:
        first_row = found.garbage[0]
        return _verdict(found, Status.FAIL, f"{first_row.session} ({first_row.arm}): {first_row.broken}")
    return None


def _repeated(found: _Findings) -> Verdict | None:
    """Wrong answers: many in one round, or again in another one."""
    by_round = found.rounds_with_wrong
    if not by_round:
        return None
    if len(by_round) < 2 and max(by_round.values()) < WRONG_AT_ONCE:
        return None
    wrong, company = found.deviations.wrong, found.deviations.in_company
    if found.deviations.limit is None and _by_chance(found) > FISHER_LIMIT:
        return None
    reason = f"{len(wrong)} answers are not what the same request got alone ({len(company)} in company)"
    return _verdict(found, Status.FAIL, f"{reason}. First: {wrong[0].describe()}")


def _miscounted(found: _Findings) -> Verdict | None:
    """Tokens that nobody can have left, said to be cached (K31, or K27 if they really were)."""
    if not found.miscounted:
        return None
    reason = f"{len(found.miscounted)} answers report cached tokens that nobody left. First: {found.miscounted[0].text}"
    return _verdict(found, Status.FAIL, reason)


def _by_chance(found: _Findings) -> float:
    """Fisher's p-value of the wrong answers in company against those alone."""
    bad = {id(each.row) for each in found.deviations.wrong}
    alone = [id(each.row) in bad for each in found.deviations.compared if each.row.alone]
    company = [id(each.row) in bad for each in found.deviations.in_company]
    return fisher_greater(sum(company), len(company), sum(alone), len(alone))


def _undecided(found: _Findings) -> Verdict | None:
    if not found.rows:
        return _verdict(found, Status.INCONCLUSIVE, "nothing was answered")
    if found.deviations.wrong or found.leaks.found:
        what = (
            found.deviations.wrong[0].describe() if found.deviations.wrong else "a codeword that may be a coincidence"
        )
        why = f"an alarm that has to repeat: {what}"
        wanted = FollowUp(check=NAME, stratum={"family": "codewords"}, count=FOLLOW_UP_CYCLES, why=why)
        return _verdict(found, Status.SUSPECT, why, wanted)
    if found.blind:
        return _verdict(
            found, Status.INCONCLUSIVE, "no log-probabilities, and the model repeats no codeword even alone"
        )
    if len(found.deviations.in_company) < FEWEST_IN_COMPANY:
        cut = "" if found.history.cut_short is None else f": {found.history.cut_short}"
        count = len(found.deviations.in_company)
        return _verdict(found, Status.INCONCLUSIVE, f"only {count} answers in company could be compared{cut}")
    return None


def _sound(found: _Findings) -> Verdict:
    company = len(found.deviations.in_company)
    limit = found.deviations.limit
    how = "by their codewords alone" if limit is None else f"within {limit:.2g} nats"
    return _verdict(found, Status.PASS, f"{company} answers in company are those the same requests got alone, {how}")


def _verdict(found: _Findings, status: Status, reason: str, follow_up: FollowUp | None = None) -> Verdict:
    limit = found.deviations.limit
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.rows),
        examined=len(found.deviations.compared),
        violations=len(found.leaks.found) + len(found.garbage) + len(found.deviations.wrong) + len(found.miscounted),
        evidence=tuple(_evidence(found))[:MOST_EVIDENCE],
        null_size=sum(each.row.alone for each in found.deviations.compared),
        smallest_effect={} if limit is None else {"one answer": limit, "another token": FLIP_LIMIT_NATS},
        follow_up=follow_up,
        details=_details(found),
    )


def _evidence(found: _Findings) -> Iterator[Evidence]:
    for leak in found.leaks.found:
        text = f"{leak.row.session} ({leak.row.arm}, {leak.row.size} at once): {leak.row.text.strip()!r}"
        told = f"{text}; {leak.codeword} belongs to {leak.other}"
        yield Evidence(request_ids=(leak.row.request_id,), text=told, table={"own": leak.row.codeword})
    for row in found.garbage:
        yield Evidence(request_ids=(row.request_id,), text=f"{row.session} ({row.arm}): {row.broken}")
    yield from found.miscounted
    for each in found.deviations.wrong:
        yield Evidence(
            request_ids=(each.row.request_id, each.reference),
            text=each.describe(),
            table={"nats": each.rms, "flip_nats": each.flip, "in_company_of": each.row.size},
        )


def _details(found: _Findings) -> dict[str, Json]:
    recalled = [row.own for row in found.rows if row.alone and row.codeword is not None]
    dropped = [
        answer.record.complete.error
        for answer in found.history.answers
        if answer.record.invoke.abort_after_events is not None
    ]
    return {
        **found.deviations.details(),
        "recalled_alone": f"{sum(recalled)} of {len(recalled)}",
        "dropped": sum(error is not None and error.kind is ErrorKind.CANCELLED for error in dropped),
        "cut_short": found.history.cut_short,
    }
