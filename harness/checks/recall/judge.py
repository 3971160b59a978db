"""The verdict on recall: what the cache lost against cold answers, and how much comes back at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.history import CheckHistory
from harness.checks.recall.facts import ARMS, Row, rows_of
from harness.checks.recall.losses import Loss, Pair, loss
from harness.checks.recall.rates import details, recalled
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.stats.rates import smallest_share
from workloads.control import CONTROL
from workloads.recall import COLD, HIT, NAME, REFILLED, RETURNED

# With fewer documents not even the loss of all of them would be beyond doubt.
FEWEST_DOCUMENTS = 7
# Three arms, each alarming by chance once in 100 and again on fresh documents; at once only once in 50,000. Together
# a sound server fails less than once in 1,000 runs.
ALARM_LEVEL = 0.01
AT_ONCE_LEVEL = 2e-5
MOST_EVIDENCE = 16
WORDS = {HIT: "from the cache", RETURNED: "first after an eviction", REFILLED: "from the cache after an eviction"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]

    @property
    def cold(self) -> list[Row]:
        """Answers without any help of the cache."""
        return [row for row in self.rows if row.arm == COLD]

    @property
    def decidable(self) -> int:
        """Documents of which anything is recalled cold."""
        return len({row.document for row in self.cold if row.right})

    def of(self, arm: str) -> list[Row]:
        """Answers of an arm, exercised or not."""
        return [row for row in self.rows if row.arm == arm]


def judge(history: CheckHistory) -> Verdict:
    """The verdict; a model that recalls nothing cold leaves it undecided."""
    found = _Findings(history=history, rows=rows_of(history))
    return _failed(found) or _undecidable(found) or _alarmed(found) or _not_exercised(found) or _sound(found)


def _failed(found: _Findings) -> Verdict | None:
    for arm in ARMS:
        whole = loss(found.rows, arm)
        alarms = [index for index in _rounds(found) if loss(found.rows, arm, index).chance < ALARM_LEVEL]
        if whole.chance < AT_ONCE_LEVEL or len(alarms) > 1:
            return _verdict(found, Status.FAIL, f"{_lost_words(arm, whole)}. First: {_describe(whole.lost[0])}")
    return None


def _rounds(found: _Findings) -> list[int]:
    return sorted({row.round_index for row in found.rows})


def _lost_words(arm: str, lost: Loss) -> str:
    return (
        f"{WORDS[arm]}, {lost.worse} of {lost.documents} documents lose what they say when asked cold"
        f" and {lost.better} gain something ({len(lost.lost)} needles of {len(lost.pairs)})"
    )


def _undecidable(found: _Findings) -> Verdict | None:
    if not found.rows:
        return _verdict(found, Status.INCONCLUSIVE, "nothing was answered")
    cold = found.cold
    if not cold and found.of(CONTROL):
        right = recalled(found.of(CONTROL))
        return _verdict(found, Status.INCONCLUSIVE, f"not decidable: the model repeats {right} values of a short text")
    if found.decidable < FEWEST_DOCUMENTS:
        reason = f"not decidable: cold, {recalled(cold)} needles come back, in {found.decidable} documents"
        return _verdict(found, Status.INCONCLUSIVE, f"{reason}; {FEWEST_DOCUMENTS} are needed{_cut(found)}")
    return None


def _alarmed(found: _Findings) -> Verdict | None:
    """An alarm that nothing has repeated yet; with a second round behind it, it stays one."""
    for arm in ARMS:
        for index in _rounds(found):
            lost = loss(found.rows, arm, index)
            if lost.chance < ALARM_LEVEL:
                reason = f"an alarm that has to repeat on fresh documents: {_lost_words(arm, lost)}"
                return _verdict(found, Status.SUSPECT, reason, _follow_up(found, arm))
    return None


def _follow_up(found: _Findings, arm: str) -> FollowUp | None:
    if len(_rounds(found)) > 1 or found.history.rounds > 1:
        return None
    count = 2 * len({row.document for row in found.cold})
    return FollowUp(check=NAME, stratum={"arm": arm}, count=count, why=f"needles are lost {WORDS[arm]}")


def _not_exercised(found: _Findings) -> Verdict | None:
    hits = found.of(HIT)
    cold = f"cold, {recalled(found.cold)} needles come back"
    if hits and all(row.cached == 0 for row in hits):
        required = "cached-tokens" in found.history.required
        status = Status.INCONCLUSIVE if required else Status.NOT_APPLICABLE
        flag = "; vLLM: --enable-prefix-caching; SGLang: without --disable-radix-cache" if required else ""
        return _verdict(found, status, f"nothing came from the cache, so that nothing can be lost by it: {cold}{flag}")
    for arm in ARMS:
        asked, done = found.of(arm), loss(found.rows, arm)
        if (asked or arm == HIT) and done.documents < FEWEST_DOCUMENTS:
            reason = (
                f"only {done.documents} documents were seen {WORDS[arm]}, {FEWEST_DOCUMENTS} are needed{_cut(found)}"
            )
            return _verdict(found, Status.INCONCLUSIVE, f"{reason}; {cold}")
    return None


def _cut(found: _Findings) -> str:
    return "" if found.history.cut_short is None else f" ({found.history.cut_short})"


def _sound(found: _Findings) -> Verdict:
    seen = [arm for arm in ARMS if found.of(arm)]
    documents = min(loss(found.rows, arm).documents for arm in seen)
    lost = sum(len(loss(found.rows, arm).lost) for arm in seen)
    share = smallest_share(documents, ALARM_LEVEL)
    reason = (
        f"{recalled(found.cold)} needles come back cold, and no more are lost than by chance"
        f" {' or '.join(WORDS[arm] for arm in seen)} ({lost} in {documents} documents)"
    )
    if share is not None:
        reason += f"; a loss in {share:.0%} of documents would have been found"
    missing = [WORDS[arm] for arm in ARMS if arm not in seen]
    if missing:
        how = "it takes --exclusive-server and a flush, or a cache small enough to flood"
        reason += f". Not tested: {', '.join(missing)} ({how})"
    return _verdict(found, Status.PASS, reason)


def _verdict(found: _Findings, status: Status, reason: str, follow_up: FollowUp | None = None) -> Verdict:
    losses = {arm: loss(found.rows, arm) for arm in ARMS}
    lost = [pair for each in losses.values() for pair in each.lost]
    documents = min((losses[arm].documents for arm in ARMS if found.of(arm)), default=0)
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=sum(len(found.of(arm)) for arm in ARMS),
        examined=sum(len(each.pairs) for each in losses.values()),
        violations=len(lost),
        evidence=tuple(_evidence(pair) for pair in lost[:MOST_EVIDENCE]),
        follow_up=follow_up,
        details={
            **details(found.rows),
            **{f"p_{arm}": each.chance for arm, each in losses.items() if each.pairs},
            "smallest_share_found": smallest_share(documents, ALARM_LEVEL),
            "cut_short": found.history.cut_short,
        },
    )


def _describe(pair: Pair) -> str:
    other = pair.other
    where = f"{other.document}, {other.asked!r} at {other.begin:.0%} of {other.prompt_tokens} tokens"
    return f"{where}: {pair.cold.text.strip()[:40]!r} cold, {other.text.strip()[:40]!r} {WORDS[other.arm]}"


def _evidence(pair: Pair) -> Evidence:
    other = pair.other
    return Evidence(
        request_ids=(pair.cold.request_id, other.request_id),
        text=_describe(pair),
        table={
            "value": other.value,
            "kind": other.kind,
            "prompt_tokens": other.prompt_tokens,
            "cached_tokens": other.cached,
            "needle_begins_at": None if other.begin_tokens is None else round(other.begin_tokens),
        },
    )
