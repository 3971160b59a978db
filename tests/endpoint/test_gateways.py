"""Gateways: rate limits waited out only where that was asked for, answers from their own cache, costs."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.complete import to_complete
from harness.endpoint.encode import encode_request
from harness.endpoint.raw import RawAnswer
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.endpoint.wire import Reading, decode
from harness.records import ErrorKind, Outcome
from tests.endpoint.bad_server import BadServer, Request, good_stream, plain
from tests.endpoint.recordings import raw_answer
from workloads.plan import Ask, Json, TextPrompt

LIMITED = plain("429 Too Many Requests", b'{"error":{"message":"slow down"}}', "Retry-After: 0.05")


def asked(refusals: int, retries: int) -> tuple[RawAnswer, Reading, int]:
    """One request to a gateway that refuses so many first; also how many it saw."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(LIMITED if len(seen) <= refusals else good_stream())
        await writer.drain()

    async def main() -> RawAnswer:
        async with BadServer(respond) as server:
            target = Target(base=normalise_base_url(server.url), model="m", rate_limit_retries=retries)
            ask = Ask(key="k", prompt=TextPrompt(text="hello"), max_tokens=4)
            async with Client(target, MonotonicClock()) as client:
                return await client.send(encode_request(ask, target, {}, "r1"))

    seen: list[Request] = []
    answer = asyncio.run(main())
    return answer, decode(answer, stream=True), len(seen)


def test_a_rate_limit_is_not_retried_by_default() -> None:
    answer, reading, requests = asked(1, 0)
    assert requests == 1 and answer.retries == 0
    assert reading.outcome is Outcome.REFUSED
    assert reading.error is not None and (reading.error.http_status, reading.error.retry_after_s) == (429, 0.05)


def test_with_retries_it_is_waited_out_and_counted() -> None:
    answer, reading, requests = asked(2, 3)
    assert requests == 3 and reading.outcome is Outcome.OK
    assert (answer.retries, answer.rate_limited) == (2, 2)
    assert to_complete("r1", answer, reading).extra["rate_limited"] == 2


def test_an_answer_that_came_at_once_says_nothing_of_limits() -> None:
    answer, reading, _ = asked(0, 2)
    assert (answer.retries, answer.rate_limited) == (0, 0)
    assert "rate_limited" not in to_complete("r1", answer, reading).extra


def test_a_limit_that_stays_is_refused_in_the_end() -> None:
    answer, reading, requests = asked(9, 2)
    assert requests == 3 and reading.outcome is Outcome.REFUSED and answer.rate_limited == 2


def whole(**fields: Json) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    return orjson.dumps({"choices": [choice], **fields})


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("x-litellm-cache-key", "abc", True),
        ("cf-aig-cache-status", "HIT", True),
        ("cf-cache-status", "DYNAMIC", False),
        ("x-cache", "Hit from cloudfront", True),
        ("x-cache", "Miss from cloudfront", False),
        ("helicone-cache", "MISS", False),
    ],
)
def test_an_answer_from_the_gateways_own_cache_is_dropped(name: str, value: str, kept: bool) -> None:
    reading = decode(raw_answer(whole(), headers={name: value}), stream=False)
    if not kept:
        assert reading.outcome is Outcome.OK
        return
    assert reading.outcome is Outcome.REFUSED and reading.error is not None
    assert reading.error.kind is ErrorKind.GATEWAY_CACHE and name in reading.error.message


def test_the_header_survives_the_wire() -> None:
    async def main() -> Reading:
        async with BadServer(cached) as server:
            target = Target(base=normalise_base_url(server.url), model="m")
            ask = Ask(key="k", prompt=TextPrompt(text="hello"), max_tokens=4, stream=False)
            async with Client(target, MonotonicClock()) as client:
                return decode(await client.send(encode_request(ask, target, {}, "r1")), stream=False)

    async def cached(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(plain("200 OK", whole(), "Content-Type: application/json", "X-LiteLLM-Cache-Key: k1"))
        await writer.drain()

    reading = asyncio.run(main())
    assert reading.error is not None and reading.error.kind is ErrorKind.GATEWAY_CACHE


def test_costs_are_kept() -> None:
    usage: Json = {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "cost": 0.0012,
        "cost_details": {"upstream_inference_cost": 0.001},
    }
    extra = decode(raw_answer(whole(usage=usage, provider="somebody")), stream=False).extra
    assert (extra["cost"], extra["cost_details"]) == (0.0012, {"upstream_inference_cost": 0.001})
    assert extra["provider"] == "somebody"
