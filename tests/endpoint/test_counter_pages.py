"""Counters of several endpoints: workers behind a router, each page's values apart, the key only where it belongs."""

from __future__ import annotations

import asyncio

import pytest

from harness.clock import MonotonicClock
from harness.endpoint.client import Client
from harness.endpoint.counters import by_rank, engine_of_counters, scrape_all, total
from harness.endpoint.dialects.prometheus import parse_counters, with_label
from harness.endpoint.errors import EndpointError
from harness.endpoint.secret import Secret
from harness.endpoint.target import Target
from harness.endpoint.url import normalise_base_url
from harness.records import CounterSample
from tests.endpoint.bad_server import BadServer, always, plain
from tests.endpoint.recordings import page

KEY = Secret("sk-a-key-of-some-length")


def counters(prompt: int) -> bytes:
    return plain("200 OK", f'vllm:prompt_tokens_total{{engine="0"}} {prompt}\n'.encode())


async def scraped(*answers: bytes, own: bytes) -> tuple[CounterSample, list[dict[str, str]]]:
    """One sample of the server's own page and two others, and the headers that the others saw."""
    async with BadServer(always(own)) as server, BadServer(always(answers[0])) as a, BadServer(always(answers[1])) as b:
        target = Target(base=normalise_base_url(server.url), model="m", api_key=KEY)
        async with Client(target, MonotonicClock()) as client:
            pages = ("/metrics", f"{a.url}/metrics", f"{b.url}/metrics")
            sample = await scrape_all(client, MonotonicClock(), pages)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY.reveal()}"
        return sample, [request.headers for other in (a, b) for request in other.requests]


def test_pages_are_added_up_and_other_hosts_do_not_get_the_key() -> None:
    router = plain("200 OK", b"dynamo_frontend_requests_total 3\n")
    sample, headers = asyncio.run(scraped(counters(100), counters(23), own=router))
    assert engine_of_counters(sample.values) == "vllm"
    assert total(sample, "vllm", "prompt_tokens") == 123
    assert len(headers) == 2 and not any("authorization" in each for each in headers)


def test_a_worker_that_cannot_be_read_is_an_error_and_not_a_smaller_sum() -> None:
    with pytest.raises(EndpointError):
        asyncio.run(scraped(counters(1), plain("404 Not Found", b""), own=counters(2)))


def test_labels_are_added_in_front() -> None:
    assert with_label("a", "page", 'x"y') == 'a{page="x\\"y"}'
    assert with_label('a{b="1"}', "page", "x") == 'a{page="x",b="1"}'


@pytest.mark.parametrize(
    ("text", "engine", "meaning", "value"),
    [
        ("vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 7\n", "vllm", "kv_usage", 0.5),
        ("vllm:gpu_prefix_cache_hits_total 7\n", "vllm", "cached_tokens", 7),
        ("vllm:prefix_cache_hits_total 8\nvllm:gpu_prefix_cache_hits_total 7\n", "vllm", "cached_tokens", 8),
        ("trtllm_prompt_cached_tokens_total 9\n", "tensorrt-llm", "cached_tokens", 9),
        ('dynamo_frontend_cached_tokens_sum{model="m"} 11\n', "dynamo", "cached_tokens", 11),
        ("dynamo_frontend_inflight_requests 2\n", "dynamo", "running", 2),
    ],
)
def test_older_names_and_other_engines(text: str, engine: str, meaning: str, value: float) -> None:
    sample = CounterSample(at_ns=0, values=parse_counters(text))
    assert engine_of_counters(sample.values) == engine
    assert total(sample, engine, meaning) == value


def test_recorded_speculation_gives_the_acceptance_length() -> None:
    sample = CounterSample(at_ns=0, values=parse_counters(page("vllm-qwen3-ngram/metrics")))
    drafts, accepted = total(sample, "vllm", "spec_drafts"), total(sample, "vllm", "spec_accepted")
    assert drafts is not None and accepted is not None and drafts > 0
    per_position = sum(
        value
        for name, value in sample.values.items()
        if name.startswith("vllm:spec_decode_num_accepted_tokens_per_pos")
    )
    assert per_position == accepted


@pytest.mark.parametrize(
    ("server", "engine", "found"),
    [
        ("vllm-qwen3next", "vllm", {"prompt_tokens@engine=0|": 29_101.0, "tier_tokens@engine=0|": 0.0}),
        (
            "sglang-qwen3",
            "sglang",
            {"prompt_tokens@|tp_rank=0,pp_rank=0": 29_161.0, "tier_tokens@|tp_rank=0,pp_rank=0": 0.0},
        ),
        ("llama-bailing3", "llamacpp", {}),
    ],
)
def test_a_recorded_page_tells_what_each_rank_counted(server: str, engine: str, found: dict[str, float]) -> None:
    values = parse_counters(page(f"{server}/get_metrics_end"))
    assert by_rank(CounterSample(at_ns=0, values=values), engine) == found


def test_ranks_of_a_tensor_are_shards_and_pages_are_replicas() -> None:
    name, labels = "sglang:prefill_effective_tokens_total", 'moe_ep_rank="0",pp_rank="0"'
    text = "".join(
        f'{name}{{mode="{mode}",{labels},tp_rank="{rank}"}} {value}\n'
        for rank in (0, 1)
        for mode, value in (("input", 10), ("device_hit", 20), ("host_hit", 3 + rank), ("storage_hit", 4))
    )
    values = {with_label(key, "page", "http://a"): value for key, value in parse_counters(text).items()}
    assert by_rank(CounterSample(at_ns=0, values=values), "sglang") == {
        "prompt_tokens@page=http://a|tp_rank=0,pp_rank=0": 37.0,
        "prompt_tokens@page=http://a|tp_rank=1,pp_rank=0": 38.0,
        "tier_tokens@page=http://a|tp_rank=0,pp_rank=0": 7.0,
        "tier_tokens@page=http://a|tp_rank=1,pp_rank=0": 8.0,
    }
