"""Verdicts for people: worst first, with what they could not have seen, on the terminal and on the page."""

from __future__ import annotations

from pathlib import Path

from harness.checks.judgement import Judgement
from harness.checks.verdict import Evidence, FollowUp, Status, Verdict
from harness.report.build import build_report
from harness.report.verdicts import read_judgements, verdict_table, views
from harness.store import RunFolder, write_derived
from tests.store import samples

PASSED = Verdict(
    check="eviction", status=Status.PASS, reason="answers agree", eligible=40, examined=32, null_size=64,
    smallest_effect={"0-3": 0.034}, details={"misfits": [], "step": 64, "note": None},
)  # fmt: skip
FAILED = Verdict(
    check="cached-tokens", status=Status.FAIL, reason="counts are wrong <b>", eligible=9, examined=9, violations=1,
    evidence=(Evidence(request_ids=("q1", "q2"), text="12 cached of 9", position=3, table={"cached": [12, 9]}),),
)  # fmt: skip
SUSPECTED = Verdict(
    check="recall", status=Status.SUSPECT, reason="an alarm", eligible=3, examined=3,
    follow_up=FollowUp(check="recall", stratum={}, count=32, why="an alarm"),
)  # fmt: skip
JUDGEMENTS = (
    Judgement(check="eviction", verdict=PASSED),
    Judgement(check="broken-one", traceback="broken-one.traceback.txt"),
    Judgement(check="recall", verdict=SUSPECTED),
    Judgement(check="cached-tokens", verdict=FAILED),
)


def check_run(folder: Path) -> RunFolder:
    run = RunFolder.create(folder, samples.run_info())
    write_derived(run, "verdicts.json", {"run": "x", "checks": JUDGEMENTS})
    return run


def test_the_worst_comes_first() -> None:
    assert [view.status for view in views(JUDGEMENTS)] == ["fail", "broken", "suspect", "pass"]


def test_the_table_says_power_follow_up_and_where_to_look() -> None:
    table = verdict_table(JUDGEMENTS)
    assert "blind below 0-3: 0.034 nats, noise measured on 64 pairs" in table
    assert "would ask for 32 fresh prompts: an alarm" in table
    assert "cached-tokens#1: 12 cached of 9 (generated token 3) [q1, q2]" in table
    assert "its traceback is in broken-one.traceback.txt" in table
    assert max(map(len, table.splitlines())) <= 118


def test_what_is_not_known_is_left_out_and_zero_is_not() -> None:
    shown = dict(views([Judgement(check="eviction", verdict=PASSED)])[0].details)
    assert shown == {"step": "64"}
    zero = Verdict(check="c", status=Status.PASS, reason="r", examined=1, details={"misfit_count": 0, "flag": False})
    assert dict(views([Judgement(check="c", verdict=zero)])[0].details) == {"misfit count": "0", "flag": "false"}


def test_verdicts_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    assert read_judgements(check_run(tmp_path).path) == JUDGEMENTS


def test_a_run_without_verdicts_has_none(tmp_path: Path) -> None:
    assert read_judgements(tmp_path) == ()


def test_the_page_shows_verdicts_with_their_evidence(tmp_path: Path) -> None:
    run = check_run(tmp_path)
    files = build_report([run.path], tmp_path / "report")
    page = files.index_html.read_text()
    assert "counts are wrong &lt;b&gt;" in page and "12, 9" in page
    assert page.index("cached-tokens") < page.index("would ask for 32") < page.index("answers agree")
    assert "counts are wrong" in files.index_md.read_text()


def test_values_are_written_without_brackets_where_commas_are_enough() -> None:
    details = {
        "classes": ["K31", "K32"],
        "share": {"sighting 1": 1.0},
        "saved": 1664,
        "pairs": [[519, 0.5], [1, []]],
        "deep": [[[1], 2]],
    }
    verdict = Verdict(check="c", status=Status.PASS, reason="r", examined=1, details=details)
    shown = dict(views([Judgement(check="c", verdict=verdict)])[0].details)
    assert shown == {
        "classes": "K31, K32",
        "share": "sighting 1: 1",
        "saved": "1,664",
        "pairs": "519: 0.5, 1: none",
        "deep": "[[[1], 2]]",
    }


def test_a_check_that_was_not_asked_is_a_row_of_the_gate_and_no_section_of_its_own(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, samples.run_info())
    skipped = Verdict(check="tools", status=Status.INCONCLUSIVE, reason="not run: why")
    rows = [{"name": each.check, "status": each.status.value, "reason": each.reason, "evidence": [], "kind": "check"}
            for each in (FAILED, skipped)]  # fmt: skip
    judged = [Judgement(check=each.check, verdict=each) for each in (FAILED, skipped)]
    write_derived(run, "verdicts.json", {"run": "x", "checks": judged})
    write_derived(run, "gate.json", {"verdict": "fail", "exit_code": 1, "profile": "p", "checks": rows})
    page = build_report([run.path], tmp_path / "report").index_html.read_text()
    assert page.count("not run: why") == 1 and "0 of 0 examined" not in page
    assert f'href="#{run.info.run_id}-cached-tokens"' in page and f'href="#{run.info.run_id}-tools"' not in page
