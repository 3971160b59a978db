"""Unlike runs are refused, each difference in words; a cache that never hits is one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.compare.alike import Unlike, unlike
from tests.report.compare.build import side, write_side
from workloads.plan import Json


def differences(tmp_path: Path, **other: object) -> list[Unlike]:
    one = side(write_side(tmp_path, "aaaaaa"), "A")
    two = side(write_side(tmp_path, "bbbbbb", **other), "B")  # type: ignore[arg-type]
    return unlike(one, two, list(one.rounds))


def test_alike_runs_differ_in_nothing(tmp_path: Path) -> None:
    assert differences(tmp_path) == []


def test_another_plan_is_told_by_its_digest(tmp_path: Path) -> None:
    [found] = differences(tmp_path, digest="cd")
    assert (found.what, "digest ab against cd" in found.text) == ("plan", True)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ({"sampling": {"temperature": 1.0}}, "sampling"),
        ({"num_warmups": 4}, "warm-up requests"),
        ({"cache": "warm"}, "cache mode"),
        ({"endpoint_type": "completions"}, "route"),
    ],
)
def test_each_setting_that_changes_the_question_is_named(tmp_path: Path, option: dict[str, Json], what: str) -> None:
    [found] = differences(tmp_path, options=option)
    assert found.what == what


def test_other_output_lengths_are_told_once_for_all_points(tmp_path: Path) -> None:
    [found] = differences(tmp_path, output_tokens=40)
    assert found.what == "output length" or "output length" in found.text


@pytest.mark.parametrize(("cached", "words"), [(0, "reported no cached tokens"), (None, "silent on cached tokens")])
def test_a_cache_that_never_hits_is_told(tmp_path: Path, cached: int | None, words: str) -> None:
    [found] = differences(tmp_path, cached=cached)
    assert found.what == "no cache hit"
    assert words in found.text


def test_where_nothing_repeats_no_hit_is_missed(tmp_path: Path) -> None:
    one = side(write_side(tmp_path, "aaaaaa", turns=1, cached=0), "A")
    two = side(write_side(tmp_path, "bbbbbb", turns=1, cached=0), "B")
    assert unlike(one, two, list(one.rounds)) == []
