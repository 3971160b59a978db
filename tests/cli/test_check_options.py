"""Options that name a second server or an earlier run: mistakes are usage errors before anything is sent."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from harness.cli.check_options import CheckOptions
from harness.cli.other_server import parse_other
from tests.e2e.commands import run_ling_bench


def test_no_other_server_is_none() -> None:
    assert parse_other(None, None, None) is None


def test_another_servers_model_or_key_needs_its_address() -> None:
    for model, key in (("m", None), (None, "k")):
        with pytest.raises(click.UsageError, match="--other-url"):
            parse_other(None, model, key)


def test_a_key_is_kept_out_of_sight() -> None:
    other = parse_other("http://127.0.0.1:9/v1", "m", "very-secret")
    assert other is not None and "very-secret" not in repr(other)


def test_an_acceptance_length_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CheckOptions(checks=("mtp",), expect_acceptance=0.5)


def test_a_baseline_that_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    result = run_ling_bench(
        "check", "mtp", "--base-url", "http://127.0.0.1:9", "--baseline", str(tmp_path), cwd=tmp_path
    )
    assert result.returncode == 2 and "--baseline" in result.stderr
