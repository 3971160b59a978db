"""The verdict on billing: no cost told, costs that prices contradict, cached tokens no cheaper, or sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.billing.facts import RELATIVE_SLACK, Row, rows_of
from harness.checks.billing.fitting import Fitted, fitted
from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from workloads.billing import NAME
from workloads.plan import Json

FEWEST_ANSWERS = 6
# One answer may have met another price; two, or one again, are the rule.
FEWEST_WRONG = 2
# Without named prices: how much of the price of others a cached token may cost and still be called cheaper.
CHEAPER_SHARE = 0.95
UNEXPLAINED_SHARE = 0.03
MOST_EVIDENCE = 16


@dataclass(frozen=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]

    @property
    def told(self) -> list[Row]:
        """Answers with a cost."""
        return [row for row in self.rows if row.cost is not None]

    @property
    def hits(self) -> list[Row]:
        """Answers with a cost whose prompt came from the cache in part."""
        return [row for row in self.told if row.cached is not None and row.cached > 0]

    @cached_property
    def fits(self) -> list[Fitted]:
        return fitted(self.told)

    @cached_property
    def wrong(self) -> list[tuple[Row, str]]:
        """Answers that break a rule by themselves, and which."""
        prices, found = self.history.prices, []
        for row in self.rows:
            if row.cost is None and self.told:
                found.append((row, "no cost is told, though other answers have one"))
            elif not row.possible:
                found.append((row, "no cost can be that"))
            elif prices.complete and not row.agrees(prices):
                found.append((row, f"the prices make it {_money(row.due(prices))}"))
        return found


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a history without answers is undecided."""
    found = _Findings(history=history, rows=rows_of(history.answers))
    return _absent(found) or _wrong(found) or _undecided(found) or _by_fit(found) or _sound(found)


def _money(due: tuple[float, float] | None) -> str:
    if due is None:
        return "unknown"
    return f"{due[0]:.6g}" if due[0] == due[1] else f"{due[0]:.6g} to {due[1]:.6g}"


def _absent(found: _Findings) -> Verdict | None:
    if not found.rows:
        return _verdict(found, Status.INCONCLUSIVE, f"nothing was answered{_cut(found)}")
    if found.told:
        return None
    reason = "no answer tells what it cost"
    if "billing" in found.history.required:
        flag = "a gateway tells it as usage.cost (OpenRouter does)"
        return _verdict(found, Status.INCONCLUSIVE, f"billing is required, and {reason}: {flag}")
    return _verdict(found, Status.NOT_APPLICABLE, reason)


def _wrong(found: _Findings) -> Verdict | None:
    if not found.wrong:
        return None
    row, why = found.wrong[0]
    first = f"{row.describe()}; {why}"
    if len(found.wrong) >= FEWEST_WRONG:
        reason = f"{len(found.wrong)} of {len(found.rows)} answers are billed wrongly. First: {first}"
        return _verdict(found, Status.FAIL, reason)
    wanted = None
    if found.history.rounds == 1:
        count = 2 * len({row.prompt for row in found.rows})
        wanted = FollowUp(check=NAME, stratum={"rule": "cost"}, count=count, why="one answer is billed wrongly")
    return _verdict(found, Status.SUSPECT, f"one answer that has to repeat: {first}", wanted)


def _undecided(found: _Findings) -> Verdict | None:
    if len(found.told) < FEWEST_ANSWERS or not all(row.counted for row in found.told):
        counted = sum(row.counted for row in found.told)
        reason = f"only {counted} answers have counts and a cost, {FEWEST_ANSWERS} are needed{_cut(found)}"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if not found.hits:
        return _verdict(found, Status.INCONCLUSIVE, "no answer reports cached tokens, so that their price was not seen")
    return None


def _by_fit(found: _Findings) -> Verdict | None:
    """Without named prices: costs have to be explained by counts, and cached tokens to be cheaper."""
    if found.history.prices.complete:
        return None
    named = "name the prices with --price-input, --price-cached-input and --price-output"
    if not found.fits:
        return _verdict(found, Status.INCONCLUSIVE, f"too few answers of one provider to read prices from; {named}")
    for each in found.fits:
        if each.worst_share > UNEXPLAINED_SHARE:
            reason = f"no prices explain the costs: {each.worst.describe()}, {each.worst_share:.0%} off the best fit"
            return _verdict(found, Status.SUSPECT, f"{reason}; {named}")
        if each.cached_input > CHEAPER_SHARE * each.input:
            reason = f"cached tokens cost {each.cached_input:.4g} a million, others {each.input:.4g}: no less"
            return _verdict(found, Status.SUSPECT, f"{reason}; if that is agreed, {named}")
    return None


def _cut(found: _Findings) -> str:
    return "" if found.history.cut_short is None else f" ({found.history.cut_short})"


def _sound(found: _Findings) -> Verdict:
    prices = found.history.prices
    if prices.complete:
        reason = (
            f"{len(found.told)} answers, {len(found.hits)} of them cached in part, cost what their counts and the"
            f" prices say, within {RELATIVE_SLACK:.0%}"
        )
        return _verdict(found, Status.PASS, reason)
    fit = found.fits[0]
    reason = (
        f"one set of prices explains the costs of {len(found.told)} answers, and by it cached tokens cost"
        f" {fit.cached_input / fit.input:.0%} of others. Not tested: whether these are the agreed prices"
        " (--price-input, --price-cached-input, --price-output)"
    )
    return _verdict(found, Status.PASS, reason)


def _verdict(found: _Findings, status: Status, reason: str, follow_up: FollowUp | None = None) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.history.answers),
        examined=len(found.told),
        violations=len(found.wrong),
        evidence=tuple(_evidence(found, row, why) for row, why in found.wrong[:MOST_EVIDENCE]),
        follow_up=follow_up,
        details=_details(found),
    )


def _evidence(found: _Findings, row: Row, why: str) -> Evidence:
    due = row.due(found.history.prices) if found.history.prices.complete else None
    table: dict[str, Json] = {
        "cost": row.cost,
        "least_due": None if due is None else due[0],
        "most_due": None if due is None else due[1],
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached,
        "completion_tokens": row.completion_tokens,
        "provider": row.provider,
    }
    return Evidence(request_ids=(row.request_id,), text=f"{row.describe()}; {why}", table=table)


def _details(found: _Findings) -> dict[str, Json]:
    costs = [row.cost for row in found.told if row.cost is not None]
    return {
        "answers_with_a_cost": f"{len(found.told)} of {len(found.rows)}",
        "answers_cached_in_part": len(found.hits),
        "cost_of_all": sum(costs) if costs else None,
        "prices_read_from_costs": [
            {
                "provider": each.provider,
                "input": each.input,
                "cached_input": each.cached_input,
                "output": each.output,
                "worst_share": each.worst_share,
            }
            for each in found.fits
        ],
        "cut_short": found.history.cut_short,
    }
