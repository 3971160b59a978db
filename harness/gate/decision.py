"""From verdicts and figures to one decision: what the profile demands, thresholds, waivers, the exit code."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.checks.history import Capabilities
from harness.checks.judgement import Judgement
from harness.checks.soundness import NAME as SOUNDNESS
from harness.checks.verdict import Status, Verdict
from harness.gate.features import FEATURES, demanded_by, seen
from harness.gate.order import PULSE, order_of
from harness.gate.profile import CheckEntry, Limit, Profile
from harness.gate.pulse import WENT_WRONG_AFTER
from harness.gate.row import OVERALL_BROKEN, UNSOUND, GateResult, Kind, Row
from workloads.plan import Json

PASS, FAIL, UNDECIDED, BROKEN = 0, 1, 3, 4
_OPEN = (Status.SUSPECT, Status.INCONCLUSIVE)


def decide(
    profile: Profile,
    judgements: Sequence[Judgement],
    known: Capabilities,
    objectives: Sequence[Row],
    today: datetime.date,
) -> GateResult:
    """The decision on a run.

    judgements: of its checks, the heartbeat between phases and the harness. objectives: their rows, judged already.
    """
    rows = [
        *(_check_row(profile, each, known) for each in judgements),
        *_feature_rows(profile, known),
        *objectives,
    ]
    drafts = known.speculation is not False
    waived = [_waive(profile, row, today) for row in rows]
    rows = sorted(waived, key=lambda row: (-row.gravity, order_of(row.name, drafts=drafts)))
    code = exit_code(rows)
    return GateResult(
        profile=profile.name,
        verdict=_overall(rows, code),
        exit_code=code,
        rows=tuple(rows),
        went_wrong_after=_went_wrong_after(judgements),
    )


def _went_wrong_after(judgements: Sequence[Judgement]) -> str | None:
    """What the heartbeat between phases names."""
    verdicts = [each.verdict for each in judgements if each.check == PULSE and each.verdict is not None]
    phase = verdicts[0].details.get(WENT_WRONG_AFTER) if verdicts else None
    return phase if isinstance(phase, str) else None


def exit_code(rows: Sequence[Row]) -> int:
    """1 for a failed check; else 4 if the harness did not keep up; else 1 for a missed objective, which an unsound run
    does not prove; else 4 if a check broke; else 3 if anything is undecided; else 0. Waived rows do not count.
    """
    counted = [row for row in rows if row.waived is None]
    if any(row.status is Status.FAIL for row in counted if row.kind in (Kind.CHECK, Kind.FEATURE)):
        return FAIL
    if any(row.status is Status.FAIL for row in counted if row.kind is Kind.HARNESS):
        return BROKEN
    if any(row.status is Status.FAIL for row in counted):
        return FAIL
    if any(row.status is None for row in counted):
        return BROKEN
    return UNDECIDED if any(_is_open(row) for row in counted) else PASS


def _is_open(row: Row) -> bool:
    """Whether it leaves something undecided; what the harness could not say of itself does not."""
    return row.status in _OPEN and row.kind is not Kind.HARNESS


def _overall(rows: Sequence[Row], code: int) -> str:
    counted = [row for row in rows if row.waived is None]
    if code == BROKEN:
        return OVERALL_BROKEN if any(row.status is None for row in counted) else UNSOUND
    if code == UNDECIDED:
        return next(row.shown_status for row in counted if _is_open(row))
    return Status.FAIL.value if code == FAIL else Status.PASS.value


def _check_row(profile: Profile, judgement: Judgement, known: Capabilities) -> Row:
    name = judgement.check
    kind = Kind.HARNESS if name == SOUNDNESS else Kind.CHECK
    if judgement.verdict is None:
        reason = f"the check itself crashed; its traceback is in {judgement.traceback}"
        return Row(name=name, kind=kind, status=None, reason=reason)
    verdict = _demanded(profile, judgement.verdict, known)
    entry = profile.entry(name)
    if entry is not None:
        verdict = _within(verdict, entry)
    return Row(
        name=name,
        kind=kind,
        status=verdict.status,
        reason=verdict.reason,
        evidence=verdict.evidence,
    )


def _demanded(profile: Profile, verdict: Verdict, known: Capabilities) -> Verdict:
    """What is absent is not enough where it is required."""
    entry = profile.entry(verdict.check)
    feature = demanded_by(verdict.check, frozenset(profile.require))
    if verdict.status is not Status.NOT_APPLICABLE or (feature is None and (entry is None or not entry.required)):
        return verdict
    about = feature if feature is not None else next((n for n in FEATURES if verdict.check in FEATURES[n].checks), None)
    how = "" if about is None else f"; switch it on: {FEATURES[about].how(known.engine)}"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=f"required, and absent: {verdict.reason}{how}")


def _within(verdict: Verdict, entry: CheckEntry) -> Verdict:
    """The verdict held against the profile's own thresholds."""
    if verdict.status not in (Status.PASS, Status.SUSPECT, Status.INCONCLUSIVE):
        return verdict
    for limit in entry.limits:
        if (broken := _broken(limit, verdict.details)) is not None:
            return replace(verdict, status=Status.FAIL, reason=f"{broken}; else: {verdict.reason}")
    if verdict.status is not Status.PASS:
        return verdict
    if missing := [limit.detail for limit in entry.limits if _number(limit.detail, verdict.details) is None]:
        reason = f"the profile limits {', '.join(missing)}, which was not measured; else: {verdict.reason}"
        return replace(verdict, status=Status.INCONCLUSIVE, reason=reason)
    blind = max(verdict.smallest_effect.values(), default=math.inf)
    if entry.blind_below_nats is not None and blind > entry.blind_below_nats:
        stated = "no smallest effect is stated" if math.isinf(blind) else f"blind below {blind:.3g} nats"
        reason = f"{stated}, and the profile allows {entry.blind_below_nats:g}; else: {verdict.reason}"
        return replace(verdict, status=Status.INCONCLUSIVE, reason=reason)
    return verdict


def _broken(limit: Limit, details: Mapping[str, Json]) -> str | None:
    value = _number(limit.detail, details)
    if value is None:
        return None
    if limit.min is not None and value < limit.min:
        return f"{limit.detail} is {value:.4g}, below the profile's {limit.min:g}"
    if limit.max is not None and value > limit.max:
        return f"{limit.detail} is {value:.4g}, above the profile's {limit.max:g}"
    return None


def _number(path: str, details: Mapping[str, Json]) -> float | None:
    """The number at a path of names parted by dots; None if there is none."""
    value: Json = dict(details)
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _feature_rows(profile: Profile, known: Capabilities) -> list[Row]:
    """A row for each required feature that the capability round can tell of."""
    rows = []
    for name in profile.require:
        feature = FEATURES[name]
        found = seen(feature, known)
        if found is None and feature.attribute is None:
            continue
        status = Status.PASS if found else Status.INCONCLUSIVE
        words = "seen" if found else "required, and not seen" if found is False else "required, and could not be tried"
        how = "" if found else f"; switch it on: {feature.how(known.engine)}"
        row_name = f"require {name}"
        rows.append(Row(name=row_name, kind=Kind.FEATURE, status=status, reason=words + how))
    return rows


def _waive(profile: Profile, row: Row, today: datetime.date) -> Row:
    about = [waiver for waiver in profile.waivers if waiver.covers(row.name, row.status, row.reason)]
    held = next((waiver for waiver in about if waiver.holds(today)), None)
    if held is not None:
        return replace(row, waived=f"waived until {held.expires.isoformat()}: {held.reason}")
    if about:
        expired = f"its waiver expired on {about[0].expires.isoformat()} ({about[0].reason})"
        return replace(row, reason=f"{row.reason}; {expired}")
    return row
