"""Real texts found on the machine."""

from __future__ import annotations

import sys

import pytest

from harness.cli.found_texts import found_texts
from workloads.mtp import DOCUMENTATION, SOURCE


def test_pythons_own_reference_and_modules_are_long_enough_to_draw_from() -> None:
    found = found_texts()
    assert len(found[DOCUMENTATION]) > 100_000 and "statement" in found[DOCUMENTATION]
    assert len(found[SOURCE]) > 100_000 and "def parse_args" in found[SOURCE]


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert set(found_texts()) == {SOURCE}
