from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.report.build import build_report
from harness.report.figures import FIGURES
from tests.report.chromium import browser, executable
from tests.report.synthetic import write_run

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(executable() is None, reason="needs Chromium (Debian's package)"),
]

PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
LOADED = "[...document.images].filter(each => each.complete && each.naturalWidth > 0).length"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_the_page_opens_without_errors_and_every_picture_loads(tmp_path: Path) -> None:
    index_html = build_report([write_run(tmp_path, unfinished=[32])], tmp_path / "out").index_html

    async def visit() -> tuple[object, list[str]]:
        async with browser(tmp_path / "profile") as page:
            await page.open(index_html.as_uri())
            return await page.evaluate(LOADED), page.messages

    loaded, messages = asyncio.run(visit())
    assert messages == []
    assert loaded == len(FIGURES)


def test_the_page_fits_a_phone(tmp_path: Path) -> None:
    index_html = build_report([write_run(tmp_path)], tmp_path / "out").index_html

    async def visit() -> object:
        async with browser(tmp_path / "profile") as page:
            await page.call("Emulation.setDeviceMetricsOverride", **PHONE)
            await page.open(index_html.as_uri())
            return await page.evaluate(OVERFLOW)

    assert asyncio.run(visit()) == 0
