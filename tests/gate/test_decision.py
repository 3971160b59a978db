"""From verdicts to a decision: requirements, thresholds, waivers, the order of rows, the exit code."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from harness.checks.history import Capabilities
from harness.checks.judgement import Judgement
from harness.checks.verdict import Status, Verdict
from harness.gate.decision import decide
from harness.gate.order import PULSE, is_asked
from harness.gate.profile import CheckEntry, Limit, Profile, Waiver
from harness.gate.pulse import WENT_WRONG_AFTER
from harness.gate.row import GateResult, Kind, Row

TODAY = datetime.date(2027, 1, 10)
KNOWN = Capabilities(engine="vllm", cached_tokens=True, speculation=False, salt=None)


def judged(check: str, status: Status, reason: str = "because", **more: Any) -> Judgement:
    examined = 1 if status is Status.PASS else 0
    return Judgement(check=check, verdict=Verdict(check=check, status=status, reason=reason, examined=examined, **more))


def decided(profile: Profile, *judgements: Judgement, objectives: tuple[Row, ...] = ()) -> GateResult:
    return decide(profile, judgements, KNOWN, objectives, TODAY)


def profile(*checks: CheckEntry, **more: Any) -> Profile:
    return Profile(name="p", checks=checks, **more)


def objective(status: Status) -> Row:
    return Row(name="objective o", kind=Kind.OBJECTIVE, status=status, reason="slow")


@pytest.mark.parametrize(
    ("statuses", "code", "verdict"),
    [
        ((Status.PASS,), 0, "pass"),
        ((Status.PASS, Status.NOT_APPLICABLE), 0, "pass"),
        ((Status.PASS, Status.SUSPECT, Status.INCONCLUSIVE), 3, "suspect"),
        ((Status.INCONCLUSIVE,), 3, "inconclusive"),
        ((Status.SUSPECT, Status.FAIL), 1, "fail"),
    ],
)
def test_the_gravest_row_decides(statuses: tuple[Status, ...], code: int, verdict: str) -> None:
    names = ("stream", "mtp", "eviction")
    found = decided(profile(), *(judged(name, status) for name, status in zip(names, statuses, strict=False)))
    assert (found.exit_code, found.verdict) == (code, verdict)


def test_a_broken_check_is_4_unless_another_failed() -> None:
    broken = Judgement(check="mtp", traceback="mtp.traceback.txt")
    assert decided(profile(), judged("stream", Status.SUSPECT), broken).exit_code == 4
    assert decided(profile(), judged("stream", Status.FAIL), broken).exit_code == 1


def test_an_unsound_harness_spoils_objectives_but_no_failed_check() -> None:
    unsound = judged("soundness", Status.FAIL)
    assert decided(profile(), unsound, objectives=(objective(Status.FAIL),)).exit_code == 4
    assert decided(profile(), judged("soundness", Status.PASS), objectives=(objective(Status.FAIL),)).exit_code == 1
    assert decided(profile(), judged("stream", Status.FAIL), unsound).exit_code == 1
    assert decided(profile(), judged("soundness", Status.INCONCLUSIVE)).exit_code == 0


def test_absent_and_not_required_passes_absent_and_required_names_the_flag() -> None:
    absent = judged("mtp", Status.NOT_APPLICABLE, "no draft seen")
    assert decided(profile(CheckEntry(name="mtp")), absent).exit_code == 0
    for demanding in (
        profile(CheckEntry(name="mtp"), require=("speculation",)),
        profile(CheckEntry(name="mtp", required=True)),
    ):
        found = decided(demanding, absent)
        row = next(row for row in found.rows if row.name == "mtp")
        assert (found.exit_code, row.status) == (3, Status.INCONCLUSIVE)
        assert "--speculative-config" in row.reason


def test_a_required_feature_is_a_row_of_its_own() -> None:
    found = {row.name: row for row in decided(profile(require=("cached-tokens", "speculation", "salt"))).rows}
    assert found["require cached-tokens"].status is Status.PASS
    assert found["require speculation"].status is Status.INCONCLUSIVE
    assert "switch it on" in found["require speculation"].reason
    assert found["require salt"].status is Status.INCONCLUSIVE
    assert "could not be tried" in found["require salt"].reason


def test_thresholds_on_details() -> None:
    entry = CheckEntry(name="mtp", limits=(Limit(detail="all.length", min=2.0),))
    low = judged("mtp", Status.PASS, details={"all": {"length": 1.5}})
    enough = judged("mtp", Status.PASS, details={"all": {"length": 2.0}})
    assert decided(profile(entry), low).exit_code == 1
    assert decided(profile(entry), enough).exit_code == 0
    assert decided(profile(entry), judged("mtp", Status.PASS)).exit_code == 3
    assert decided(profile(entry), judged("mtp", Status.NOT_APPLICABLE)).exit_code == 0


def test_a_pass_that_could_have_missed_too_much_is_none() -> None:
    entry = CheckEntry(name="eviction", blind_below_nats=0.2)
    assert decided(profile(entry), judged("eviction", Status.PASS, smallest_effect={"hit/cold": 0.1})).exit_code == 0
    assert decided(profile(entry), judged("eviction", Status.PASS, smallest_effect={"hit/cold": 0.3})).exit_code == 3
    assert decided(profile(entry), judged("eviction", Status.PASS)).exit_code == 3


def test_a_waiver_holds_until_its_day_is_over_and_for_what_it_names() -> None:
    failed = judged("mtp", Status.FAIL, "layer 3 is off")

    def with_waiver(**more: Any) -> GateResult:
        waiver = Waiver(**{"check": "mtp", "reason": "bug 17", "expires": TODAY, **more})
        return decided(profile(waivers=(waiver,)), judged("stream", Status.PASS), failed)

    held = with_waiver()
    assert held.exit_code == 0
    assert held.rows[0].name == "mtp"
    assert held.rows[0].status is Status.FAIL
    assert held.rows[0].waived == "waived until 2027-01-10: bug 17"
    expired = with_waiver(expires=TODAY - datetime.timedelta(days=1))
    assert expired.exit_code == 1
    assert "its waiver expired on 2027-01-09" in expired.rows[0].reason
    assert with_waiver(statuses=(Status.SUSPECT,)).exit_code == 1
    assert with_waiver(containing="layer 4").exit_code == 1
    assert with_waiver(containing="layer 3").exit_code == 0


def test_a_check_that_broke_cannot_be_waived() -> None:
    waiver = Waiver(check="mtp", reason="never mind", expires=TODAY)
    broken = Judgement(check="mtp", traceback="mtp.traceback.txt")
    assert decided(profile(waivers=(waiver,)), broken).exit_code == 4


def test_failures_lead_in_the_order_of_asking() -> None:
    found = decided(
        profile(),
        judged("eviction", Status.FAIL),
        judged("stream", Status.PASS),
        judged(PULSE, Status.FAIL, details={WENT_WRONG_AFTER: "eviction"}),
        judged("isolation", Status.FAIL),
        judged("mtp", Status.SUSPECT),
        objectives=(objective(Status.FAIL),),
    )
    assert [row.name for row in found.rows] == ["eviction", "isolation", "objective o", PULSE, "mtp", "stream"]
    assert found.went_wrong_after == "eviction"


def test_what_is_about_drafts_comes_after_the_rest_where_none_was_seen() -> None:
    failed = (judged("spec-parity", Status.FAIL), judged("isolation", Status.FAIL))
    silent = decide(profile(), failed, Capabilities(speculation=False), (), TODAY)
    assert [row.name for row in silent.rows] == ["isolation", "spec-parity"]
    drafting = decide(profile(), failed, Capabilities(speculation=True), (), TODAY)
    assert [row.name for row in drafting.rows] == ["spec-parity", "isolation"]


def test_after_a_failed_pulse_only_the_check_that_explains_it_is_asked() -> None:
    assert all(is_asked(name, None) for name in ("stream", "eviction", "overload"))
    assert [name for name in ("tools", "eviction", "isolation") if is_asked(name, PULSE)] == ["eviction"]
    assert not is_asked("eviction", "cached-tokens")
