"""The verdict on the context: too short, cut silently, refused badly, its beginning unread, or served as promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.context.facts import Row, rows_of
from harness.checks.history import CheckHistory
from harness.checks.verdict import Evidence, Status, Verdict
from workloads.context import AT, CURVE, FAR, NAME, NEAR, NEEDLE, OVER_PROMPT, OVER_TOTAL
from workloads.plan import Json

# Estimated lengths of texts are good to a few in a hundred.
CUT_SHARE = 0.9
FEWEST_NEEDLES = 4
# Of the needles of one part: so many of those at the end say that the model could.
ABLE_SHARE = 0.75
BEYOND = (OVER_TOTAL, OVER_PROMPT, FAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    history: CheckHistory
    rows: Sequence[Row]

    def of(self, *steps: str) -> list[Row]:
        return [row for row in self.rows if row.step in steps]

    @property
    def limit(self) -> int | None:
        return next((row.limit for row in self.rows if row.limit is not None), None)

    @property
    def wanted(self) -> int | None:
        return next((row.wanted for row in self.rows if row.wanted is not None), None)

    @property
    def longest(self) -> int | None:
        """The longest prompt that was answered, as the server counted it."""
        return max((row.prompt_tokens for row in self.rows if row.ok and row.prompt_tokens is not None), default=None)

    def needles(self, part: str) -> list[Row]:
        """Needles of one part of the longest texts."""
        return [row for row in self.of(NEEDLE) if row.part == part and row.ok]


def judge(history: CheckHistory) -> Verdict:
    """The verdict; without answers, or without any length to hold the server to, it is undecided."""
    found = _Findings(history=history, rows=rows_of(history.answers))
    return _too_short(found) or _cut(found) or _refusals(found) or _unread(found) or _undecided(found) or _sound(found)


def _too_short(found: _Findings) -> Verdict | None:
    """Less than is wanted, or less than is promised."""
    limit, wanted = found.limit, found.wanted
    if limit is not None and wanted is not None and limit < wanted:
        reason = f"{limit:,} tokens are served, {wanted:,} are wanted (vLLM --max-model-len, SGLang --context-length)"
        return _verdict(found, Status.FAIL, reason)
    for row in found.of(CURVE, NEEDLE, NEAR, AT):
        if row.refused or row.broke:
            sure = row.sure or row.broke or row.step not in (NEAR, AT)
            unsure = "" if sure else "; its length is an estimate"
            status = Status.FAIL if sure else Status.SUSPECT
            return _verdict(found, status, f"within what is served, {row.describe()}{unsure}", [row])
    return None


def _cut(found: _Findings) -> Verdict | None:
    """Fewer tokens counted than sent: the rest was dropped without a word."""
    for row in found.rows:
        if not row.ok or row.prompt_tokens is None or row.expected is None:
            continue
        over_limit = row.step in (OVER_PROMPT, FAR) and row.limit is not None and row.prompt_tokens <= row.limit
        if over_limit or row.prompt_tokens < CUT_SHARE * row.expected:
            return _verdict(found, Status.FAIL, f"cut without a word: {row.describe()}", [row])
    return None


def _refusals(found: _Findings) -> Verdict | None:
    """What lies beyond the limit has to be refused as the client's mistake, with a reason."""
    rows = found.of(*BEYOND)
    broken = [row for row in rows if row.broke or row.lost]
    if broken:
        status = Status.FAIL if broken[0].broke or len(broken) > 1 else Status.SUSPECT
        return _verdict(found, status, f"beyond the limit, {broken[0].describe()} (a 4xx is due)", broken)
    taken = [row for row in rows if row.ok and not _clipped(row)]
    if taken:
        limit = found.limit
        reason = f"more is served than the {limit:,} tokens that the server names: {taken[0].describe()}"
        return _verdict(found, Status.INCONCLUSIVE, reason, taken)
    unclear = [row for row in rows if row.refused and not row.clear]
    if unclear:
        reason = f"refused without a reason that a client could use: {unclear[0].describe()}"
        return _verdict(found, Status.SUSPECT, reason, unclear)
    return None


def _clipped(row: Row) -> bool:
    """Whether prompt and answer stayed within the limit, the answer made shorter than it was allowed to be."""
    if row.limit is None or row.prompt_tokens is None or row.completion_tokens is None:
        return False
    return row.step == OVER_TOTAL and row.prompt_tokens + row.completion_tokens <= row.limit


def _unread(found: _Findings) -> Verdict | None:
    """The beginning or the middle lost altogether, where short texts and the end are remembered."""
    end, short = found.needles("end"), [row for row in found.of(CURVE) if row.ok]
    if not _able(end) or not _able(short):
        return None
    for part in ("start", "middle"):
        rows = found.needles(part)
        if len(rows) >= FEWEST_NEEDLES and not any(row.right for row in rows):
            reason = (
                f"none of {len(rows)} needles at the {part} of {rows[0].prompt_tokens} tokens comes back, those at the"
                " end and those of shorter texts do: it may not reach the model"
            )
            return _verdict(found, Status.SUSPECT, reason, rows)
    return None


def _able(rows: Sequence[Row]) -> bool:
    return len(rows) >= FEWEST_NEEDLES and sum(row.right is True for row in rows) >= ABLE_SHARE * len(rows)


def _undecided(found: _Findings) -> Verdict | None:
    if not any(row.ok for row in found.rows):
        return _verdict(found, Status.INCONCLUSIVE, "nothing was answered")
    if found.limit is None and found.wanted is None:
        reason = "the server does not say how long a context it serves: name it with --context LENGTH"
        return _verdict(found, Status.INCONCLUSIVE, reason)
    if not any(row.ok for row in found.of(AT)):
        cut = "" if found.history.cut_short is None else f" ({found.history.cut_short})"
        counted = any(row.prompt_tokens is not None for row in found.rows)
        why = "no answer came at the limit" if counted else "prompts are not counted: no usage is reported"
        return _verdict(found, Status.INCONCLUSIVE, f"{why}{cut}")
    return None


def _sound(found: _Findings) -> Verdict:
    at, beyond = found.of(AT)[0], [row for row in found.of(*BEYOND) if row.refused]
    reason = f"a prompt of {at.prompt_tokens:,} tokens and its answer are served" if at.prompt_tokens else "served"
    if beyond:
        reason += f", more is refused with HTTP {', '.join(sorted({str(row.status) for row in beyond}))}"
    missing = []
    if not beyond:
        missing.append("what happens beyond the limit (the server names none, or one far above what is wanted)")
    ends = [*found.needles("start"), *found.needles("middle")]
    if any(row.right for row in ends):
        reason += f"; {sum(row.right is True for row in ends)} of {len(ends)} needles at its start and middle come back"
    else:
        missing.append("whether the model reads its start (no needle comes back; its length is counted in full)")
    return _verdict(found, Status.PASS, f"{reason}. Not tested: {'; '.join(missing)}" if missing else reason)


def _verdict(found: _Findings, status: Status, reason: str, shown: Sequence[Row] = ()) -> Verdict:
    return Verdict(
        check=NAME,
        status=status,
        reason=reason,
        eligible=len(found.rows),
        examined=sum(row.ok or row.refused for row in found.rows),
        violations=len(shown),
        evidence=tuple(
            Evidence(
                request_ids=(row.request_id,),
                text=f"{row.step}: {row.describe()}",
                table={"expected_tokens": row.expected, "prompt_tokens": row.prompt_tokens, "status": row.status},
            )
            for row in shown[:8]
        ),
        details=_details(found),
    )


def _details(found: _Findings) -> dict[str, Json]:
    curve = [row for row in found.of(CURVE, NEEDLE) if row.ttft_ms is not None and row.prompt_tokens is not None]
    return {
        "advertised_tokens": found.limit,
        "wanted_tokens": found.wanted,
        "longest_prompt_tokens": found.longest,
        "ttft_ms_by_tokens": [[row.prompt_tokens, round(row.ttft_ms, 1)] for row in curve if row.ttft_ms is not None],
        **{f"needles_{part}": _recalled(found.needles(part)) for part in ("start", "middle", "end")},
        "needles_of_shorter_texts": _recalled([row for row in found.of(CURVE) if row.ok]),
        **{row.step.replace("-", "_"): row.describe() for row in found.of(AT, *BEYOND)},
        "cut_short": found.history.cut_short,
    }


def _recalled(rows: Sequence[Row]) -> str | None:
    return f"{sum(row.right is True for row in rows)} of {len(rows)}" if rows else None
