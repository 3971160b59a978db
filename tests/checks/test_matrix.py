"""Which faults were found, which had to be, and who was accused wrongly."""

from __future__ import annotations

from harness.checks.matrix import Matrix, Seen, Trial
from harness.checks.verdict import Status


def trial(code: str, size: str, *statuses: Status | None, mode: str = "zero") -> Trial:
    seen = [
        Seen(check=f"check{number}", status=status, reason="so", requests=10) for number, status in enumerate(statuses)
    ]
    return Trial(code=code, mode=mode, size=size, engine=("--noise", "bf16"), seen=tuple(seen), run="trials/x")


FOUND = trial("K01", "gross", Status.PASS, Status.FAIL)
SUSPECTED = trial("K05", "medium", Status.SUSPECT)
SUBTLE = trial("K25", "subtle", Status.PASS)
SOUND = trial("", "healthy", Status.PASS, Status.SUSPECT, mode="bf16")


def test_found_means_failed() -> None:
    assert FOUND.detected_by == ("check1",)
    assert SUSPECTED.detected_by == ()


def test_only_sizes_that_have_to_be_found_are_missed() -> None:
    assert Matrix(faults=(FOUND, SUSPECTED, SUBTLE)).missed == (SUSPECTED,)
    assert Matrix(faults=(trial("K30", "accounting"),)).missed != ()


def test_a_healthy_variant_is_accused_by_a_failure_alone() -> None:
    assert Matrix(healthy=(SOUND,)).accused == ()
    accused = trial("", "healthy", Status.FAIL, mode="bf16")
    assert Matrix(healthy=(SOUND, accused)).accused == (accused,)


def test_a_crash_is_neither_found_nor_accused() -> None:
    matrix = Matrix(faults=(trial("K01", "gross", None),), healthy=(SOUND,))
    assert matrix.broken and matrix.missed and not matrix.accused
    assert not Matrix(healthy=(SOUND,)).broken


def test_the_json_has_faults_and_counts_over_healthy_verdicts() -> None:
    document = Matrix(faults=(FOUND,), healthy=(SOUND, SOUND)).as_json()
    faults = document["faults"]
    assert isinstance(faults, list)
    fault = faults[0]
    assert isinstance(fault, dict)
    assert fault["code"] == "K01" and fault["mode"] == "zero"
    assert fault["detected_by"] == ["check1"]
    assert fault["verdicts"] == {"check0": "pass", "check1": "fail"}
    healthy = document["healthy"]
    assert isinstance(healthy, dict)
    assert {name: healthy[name] for name in ("runs", "fail", "suspect", "inconclusive")} == {
        "runs": 4, "fail": 0, "suspect": 2, "inconclusive": 0,
    }  # fmt: skip


def test_nothing_tried_is_nothing_missed_and_nothing_accused() -> None:
    empty = Matrix()
    assert empty.missed == () and empty.accused == () and empty.checks == ()
    assert empty.as_json()["healthy"]["runs"] == 0  # type: ignore[index, call-overload]
