"""The report page in a real browser: nothing on the console, every picture drawn, nothing fetched from elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.commands import engine, run_ling_bench, sweep
from tests.servers.chromium import chromium_path, look_at


@pytest.mark.chromium
def test_the_page_opens_clean_with_every_picture(tmp_path: Path) -> None:
    executable = chromium_path()
    assert executable is not None, "chromium is missing: bash tests/servers/install.sh brings it"
    with engine() as url:
        run = sweep(url, "1,4", tmp_path, "--num-prompts", "8")
    rebuilt = run_ling_bench("report", str(run), cwd=tmp_path)
    page = tmp_path / rebuilt.stdout.splitlines()[-1]
    report = asyncio.run(look_at(page.resolve().as_uri(), executable))
    assert not report.errors
    assert len(report.pictures) >= 5
    assert all(drawn for drawn, _ in report.pictures), report.pictures
    assert report.requests == (page.resolve().as_uri(),)
