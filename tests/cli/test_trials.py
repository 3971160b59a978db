"""Trials in processes of their own: results come as they end, trouble ends the others, and closing stops them."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing

import pytest

from harness.cli.trials import default_jobs, side_by_side

LONG_S = 60.0


async def slept(seconds: float) -> tuple[float, int]:
    await asyncio.sleep(seconds)
    return seconds, os.getpid()


async def refused(words: str) -> str:
    raise ValueError(words)


async def died(code: int) -> int:
    os._exit(code)


def test_every_trial_has_a_process_and_its_place() -> None:
    async def played() -> dict[int, tuple[float, int]]:
        async with aclosing(side_by_side(slept, [0.0, 0.01, 0.0], 2)) as ended:
            return {each.place: each.result async for each in ended}

    found = asyncio.run(played())
    assert {place: seconds for place, (seconds, _) in found.items()} == {0: 0.0, 1: 0.01, 2: 0.0}
    assert len({pid for _, pid in found.values()} | {os.getpid()}) == 4


def test_trouble_in_a_trial_is_raised_here() -> None:
    async def played() -> None:
        async with aclosing(side_by_side(refused, ["no such thing"], 1)) as ended:
            async for _ in ended:
                pytest.fail("it has no result")

    with pytest.raises(ValueError, match="no such thing"):
        asyncio.run(played())


def test_a_process_that_dies_is_no_result() -> None:
    async def played() -> None:
        async with aclosing(side_by_side(died, [3], 1)) as ended:
            async for _ in ended:
                pytest.fail("it has no result")

    with pytest.raises(RuntimeError, match="without a result"):
        asyncio.run(played())


def test_closing_stops_what_still_runs() -> None:
    async def played() -> None:
        async with aclosing(side_by_side(slept, [0.0, LONG_S], 2)) as ended:
            async for each in ended:
                assert each.place == 0
                return

    asyncio.run(asyncio.wait_for(played(), LONG_S / 2))


def test_jobs_are_one_or_two() -> None:
    assert default_jobs() in (1, 2)
