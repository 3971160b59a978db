"""A line of waiting requests that has an end: what comes beyond it is refused, and nothing of it stays behind."""

from __future__ import annotations

import asyncio

import pytest

from tests.reference.server.serving import Site, post, server_options, serving

BODY = {"prompt": list(range(5, 45)), "max_tokens": 24, "temperature": 0, "ignore_eos": True}


async def burst(site: Site, number: int, **more: object) -> list[tuple[int, str]]:
    """Status and body of so many requests at once."""

    async def one() -> tuple[int, str]:
        async with site.client.post("/v1/completions", json={"model": "tiny", **BODY, **more}) as response:
            return response.status, await response.text()

    return list(await asyncio.gather(*(one() for _ in range(number))))


@pytest.mark.parametrize(("dialect", "kind"), [("vllm", "ServiceUnavailableError"), ("sglang", "SERVICE_UNAVAILABLE")])
def test_beyond_the_line_requests_are_refused_and_the_rest_is_served(dialect: str, kind: str) -> None:
    async def check() -> None:
        async with serving(server_options(dialect=dialect, slots=2, max_num_queued_reqs=3)) as site:
            answers = await burst(site, 9)
            assert sorted(status for status, _ in answers) == [200] * 5 + [503] * 4
            assert all(kind in body for status, body in answers if status == 503)
            status, _ = await post(site, "/v1/completions", BODY)
            assert status == 200

    asyncio.run(check())


def test_sglang_refuses_streams_within_a_200() -> None:
    async def check() -> None:
        async with serving(server_options(dialect="sglang", slots=2, max_num_queued_reqs=1)) as site:
            answers = await burst(site, 5, stream=True)
            assert [status for status, _ in answers] == [200] * 5
            refused = [body for _, body in answers if "SERVICE_UNAVAILABLE" in body]
            assert len(refused) == 2
            assert all(body.rstrip().endswith("[DONE]") for body in refused)

    asyncio.run(check())


def test_without_a_limit_all_wait() -> None:
    async def check() -> None:
        async with serving(server_options(slots=2)) as site:
            assert [status for status, _ in await burst(site, 12)] == [200] * 12

    asyncio.run(check())
