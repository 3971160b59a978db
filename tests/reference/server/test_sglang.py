"""What SGLang alone has: native generation, scores from a start, flushes that wait, the extension object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.reference.server.serving import Site, events, post, server_options, serving, until

PROMPT = list(range(20, 120))


def run(check: Any, **options: object) -> None:
    async def whole() -> None:
        settings = {"dialect": "sglang", "policy": "fork", **options}
        async with serving(server_options(**settings)) as site:
            await check(site)

    asyncio.run(whole())


async def generate(site: Site, **body: object) -> Any:
    status, answer = await post(site, "/generate", {"input_ids": PROMPT, **body})
    assert status == 200, answer
    return answer


def test_a_score_from_a_start_reads_the_cache_before_it() -> None:
    async def check(site: Site) -> None:
        scored = {"return_logprob": True, "sampling_params": {"max_new_tokens": 0, "temperature": 0}}
        cold = await generate(site, **scored, logprob_start_len=0)
        assert cold["meta_info"]["cached_tokens"] == 0 and cold["meta_info"]["completion_tokens"] == 0
        entries = cold["meta_info"]["input_token_logprobs"]
        assert [entry[1] for entry in entries] == PROMPT and entries[0][0] is None
        warm = await generate(site, **scored, logprob_start_len=70)
        assert warm["meta_info"]["cached_tokens"] in (64, 48, 56)
        tail = warm["meta_info"]["input_token_logprobs"]
        assert [entry[1] for entry in tail] == PROMPT[70:] and tail[0][0] is None
        assert [e[0] for e in tail[1:]] == pytest.approx([e[0] for e in entries[71:]], abs=1e-4)

    run(check)


def test_native_streams_are_cumulative() -> None:
    async def check(site: Site) -> None:
        body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 5, "temperature": 0, "ignore_eos": True}}
        stream: list[Any] = await events(site, "/generate", body)
        assert stream[-1] == "[DONE]"
        assert [len(event["output_ids"]) for event in stream[:-1]] == [1, 2, 3, 4, 5]
        assert stream[-2]["meta_info"]["finish_reason"] == {"type": "length", "length": 5}

    run(check)


def test_the_extension_tells_tiers_and_drafts() -> None:
    async def check(site: Site) -> None:
        body = {
            "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True,
            "return_cached_tokens_details": True, "return_spec_tokens_details": True,
        }  # fmt: skip
        _, cold = await post(site, "/v1/completions", body)
        assert "cached_tokens_details" not in cold["sglext"]  # type: ignore[operator]
        await post(site, "/v1/completions", body)
        _, warm = await post(site, "/v1/completions", body)
        usage: Any = warm["usage"]
        extension: Any = warm["sglext"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert extension["cached_tokens_details"] == {"device": cached, "host": 0}
        spec = extension["spec_tokens_details"]
        assert spec["spec_accept_length"] == pytest.approx(12 / spec["spec_verify_ct"])
        streamed: list[Any] = await events(site, "/v1/completions", body)
        assert streamed[-2]["choices"] == [] and "sglext" in streamed[-2]

    run(check, speculative_tokens=2)


def test_a_flush_is_refused_while_busy_and_can_wait() -> None:
    async def check(site: Site) -> None:
        asked = {"prompt": PROMPT, "max_tokens": 60, "ignore_eos": True}
        running = asyncio.create_task(post(site, "/v1/completions", asked))
        await until(lambda: site.service.views()[0].running == 1)
        refused = await site.client.post("/flush_cache")
        assert refused.status == 400
        waited = await site.client.post("/flush_cache?timeout=30")
        assert waited.status == 200 and "Cache flushed" in await waited.text()
        assert running.done() or (await running)[0] == 200
        _, answer = await post(site, "/v1/completions", {**asked, "max_tokens": 1})
        usage: Any = answer["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0

    run(check)


def test_cached_tokens_need_the_report_flag() -> None:
    async def check(site: Site) -> None:
        _, answer = await post(site, "/v1/completions", {"prompt": PROMPT, "max_tokens": 1})
        usage: Any = answer["usage"]
        assert usage["prompt_tokens_details"] is None

    run(check, no_cache_report=True)


def test_an_unknown_model_is_served_and_an_abort_ends_a_request() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "model": "nope", "max_tokens": 900, "ignore_eos": True, "rid": "r1"}
        task = asyncio.create_task(site.client.post("/v1/completions", json=body))
        await until(lambda: site.service.views()[0].running == 1)
        await post(site, "/abort_request", {"rid": "r1"})
        answer: Any = await (await task).json()
        assert answer["model"] == "nope"
        assert answer["choices"][0]["finish_reason"] == "abort"

    run(check)


def test_server_info_and_metrics_name_what_sglang_names() -> None:
    async def check(site: Site) -> None:
        await post(site, "/v1/completions", {"prompt": PROMPT, "max_tokens": 3, "ignore_eos": True})
        info: Any = await (await site.client.get("/server_info")).json()
        assert info["internal_states"] and info["page_size"] == 8
        text = await (await site.client.get("/metrics")).text()
        labels = 'engine_type="unified",model_name="tiny"'
        assert f"sglang:prompt_tokens_total{{{labels}}} 100.0" in text
        assert 'sglang:cached_tokens_total{cache_source="total",' + labels in text
        assert 'moe_ep_rank="0",pp_rank="0",tp_rank="0"} ' in text

    run(check)


def test_the_host_tier_shows_in_usage_and_metrics() -> None:
    async def check(site: Site) -> None:
        asked = {"max_tokens": 1, "temperature": 0, "return_cached_tokens_details": True}
        await post(site, "/v1/completions", {**asked, "prompt": PROMPT})
        for start in range(200, 260, 10):
            await post(site, "/v1/completions", {**asked, "prompt": list(range(start, start + 100))})
        _, back = await post(site, "/v1/completions", {**asked, "prompt": PROMPT})
        details: Any = back["sglext"]
        assert details["cached_tokens_details"]["host"] > 0
        text = await (await site.client.get("/metrics")).text()
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("sglang:"))
        labels = 'engine_type="unified",model_name="tiny"'
        assert float(samples[f"sglang:load_back_tokens_total{{{labels}}}"]) > 0
        assert float(samples[f"sglang:backuped_tokens_total{{{labels}}}"]) > 0

    run(check, max_model_len=128, chunk=64, cache_bytes=60_000, host_bytes=1 << 20)
