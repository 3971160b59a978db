"""What llama.cpp alone has: timings, slots, one piece an event, lenient fields."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.reference.server.serving import Site, events, post, server_options, serving

PROMPT = list(range(20, 120))


def run(check: Any, **options: object) -> None:
    async def whole() -> None:
        async with serving(server_options(dialect="llamacpp", **options)) as site:
            await check(site)

    asyncio.run(whole())


def test_timings_split_the_prompt_into_cached_and_computed() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        await post(site, "/v1/completions", body)
        _, answer = await post(site, "/v1/completions", body)
        timings: Any = answer["timings"]
        usage: Any = answer["usage"]
        assert timings["cache_n"] == usage["prompt_tokens_details"]["cached_tokens"] == 96
        assert timings["prompt_n"] == 4 and timings["predicted_n"] == 4
        assert "draft_n" not in timings

    run(check)


def test_a_prompt_is_computed_anew_where_the_cache_is_not_to_be_read_and_a_salt_means_nothing() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0}
        cached = []
        for more in ({}, {"cache_salt": "other"}, {"cache_prompt": False}, {"cache_prompt": True}):
            _, answer = await post(site, "/v1/completions", {**body, **more})
            usage: Any = answer["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
        assert cached == [0, 96, 0, 96]

    run(check)


def test_drafted_tokens_come_one_an_event_without_alternatives() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "max_tokens": 16, "temperature": 0, "ignore_eos": True, "logprobs": 5}
        stream: list[Any] = await events(site, "/v1/completions", body)
        pieces = [event["choices"][0] for event in stream[:-2]]
        assert all(len(piece["logprobs"]["content"]) == 1 for piece in pieces)
        assert all(piece["logprobs"]["content"][0]["top_logprobs"] == [] for piece in pieces)
        timings = stream[-2]["timings"]
        assert timings["draft_n"] >= timings["draft_n_accepted"] >= 0
        assert timings["predicted_n"] == 16

    run(check, speculative_tokens=2)


def test_erasing_a_slot_empties_the_cache_and_counts_tokens() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0}
        await post(site, "/v1/completions", body)
        _, erased = await post(site, "/slots/0?action=erase", {})
        assert erased == {"id_slot": 0, "n_erased": 96}
        _, answer = await post(site, "/v1/completions", body)
        usage: Any = answer["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        status, _ = await post(site, "/slots/99?action=erase", {})
        assert status == 400

    run(check)


def test_a_long_prompt_is_refused_with_its_length_and_a_long_answer_is_cut() -> None:
    async def check(site: Site) -> None:
        status, answer = await post(site, "/v1/completions", {"prompt": [9] * 2000})
        error: Any = answer["error"]
        assert status == 400 and error["type"] == "exceed_context_size_error"
        assert (error["n_prompt_tokens"], error["n_ctx"]) == (2000, 1024)
        cut = {"prompt": [9] * 1020, "max_tokens": 500, "ignore_eos": True}
        _, answer = await post(site, "/v1/completions", cut)
        usage: Any = answer["usage"]
        assert usage["completion_tokens"] == 4

    run(check)


def test_usage_counts_one_choice_only() -> None:
    async def check(site: Site) -> None:
        body = {"prompt": PROMPT, "max_tokens": 4, "n": 2, "ignore_eos": True}
        _, answer = await post(site, "/v1/completions", body)
        usage: Any = answer["usage"]
        assert len(answer["choices"]) == 2 and usage["completion_tokens"] == 4  # type: ignore[arg-type]

    run(check)


def test_properties_slots_and_tokens() -> None:
    async def check(site: Site) -> None:
        props: Any = await (await site.client.get("/props")).json()
        assert props["total_slots"] == 4 and props["default_generation_settings"]["n_ctx"] == 1024
        slots: Any = await (await site.client.get("/slots")).json()
        assert [slot["is_processing"] for slot in slots] == [False] * 4
        _, tokens = await post(site, "/tokenize", {"content": "hello world"})
        _, text = await post(site, "/detokenize", tokens)
        assert text == {"content": "hello world"}
        missing = await site.client.get("/v1/nope")
        assert (await missing.json())["error"]["message"] == "File Not Found"
        text_of_metrics = await (await site.client.get("/metrics")).text()
        assert "llamacpp:prompt_tokens_total 0.0" in text_of_metrics

    run(check)
