"""What the client makes sure of before it sends anything."""

from __future__ import annotations

import asyncio
import resource
import time

import pytest

from harness.endpoint import transport
from harness.endpoint.limits import raise_file_limit


def test_the_lean_path_works_with_this_aiohttp() -> None:
    assert asyncio.run(transport.lean_path_works(time.monotonic_ns))


def test_a_missing_hook_turns_the_lean_path_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_factory(*_: object, **__: object) -> None:
        raise AttributeError("_factory")

    monkeypatch.setattr(transport, "connector", without_factory)
    assert not asyncio.run(transport.lean_path_works(time.monotonic_ns))


def test_a_handler_that_keeps_nothing_turns_the_lean_path_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_is_plain_chunked", lambda head: False)
    assert not asyncio.run(transport.lean_path_works(time.monotonic_ns))


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "fit", "new_soft"),
    [
        (1024, 4096, 100, 100, 1024),
        (1024, 4096, 2000, 2000, 2128),
        (1024, 4096, 9000, 3968, 4096),
        (1024, resource.RLIM_INFINITY, 9000, 9000, 9128),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 9000, 9000, resource.RLIM_INFINITY),
        (64, 64, 10, 0, 64),
    ],
)
def test_the_file_limit_is_raised_as_far_as_it_goes(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, fit: int, new_soft: int
) -> None:
    limit = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limit.append(new))
    assert raise_file_limit(wanted) == fit
    assert limit[-1][0] == new_soft
