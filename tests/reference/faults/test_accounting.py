"""Faults that leave answers alone and miscount, or only slow things down: seen in what a client is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache

import pytest

from harness.reference.assembly import build_engine
from harness.reference.faults.spec import parse_fault
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Usage
from tests.reference.driving import Answer, ask, drive, tiny_engine, tiny_options
from tests.reference.faults.playing import healthy, material, play
from tests.reference.server.serving import Site, events, post, served, server_options, serving

BLOCK = 8
HIT = 7 * BLOCK
PROMPT = material("a", HIT + 5)
EXACT = material("b", 8 * BLOCK)
FORKED = PROMPT[: 5 * BLOCK] + material("c", BLOCK + 5)

Json = dict[str, object]


@dataclass
class Told:
    """The usage objects of a fixed series of requests."""

    cold: Json
    hit: Json
    stream: list[Json]
    continuous: list[Json]
    choices: Json
    exact: Json
    forked: Json
    chat: Json
    metrics: str = field(repr=False)


def cached(usage: Json) -> object:
    details = usage["prompt_tokens_details"]
    assert isinstance(details, dict)
    return details["cached_tokens"]


def said(usage: Json) -> Json:
    """A usage object without what is null, as streams write it."""
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        return {**usage, "prompt_tokens_details": {k: v for k, v in details.items() if v is not None}}
    return usage


async def usage(site: Site, prompt: list[int], **more: object) -> Json:
    body = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "ignore_eos": True, **more}
    found = (await post(site, "/v1/completions", body))[1]["usage"]
    assert isinstance(found, dict)
    return found


async def streamed(site: Site, **stream_options: bool) -> list[Json]:
    body: Json = {"prompt": PROMPT, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
    found = await events(site, "/v1/completions", {**body, "stream_options": stream_options})
    return [event["usage"] for event in found if isinstance(event, dict) and isinstance(event.get("usage"), dict)]  # type: ignore[misc]


async def ask_all(site: Site) -> Told:
    message = {"role": "user", "content": "Say something."}
    await usage(site, EXACT)
    chat = (await post(site, "/v1/chat/completions", {"messages": [message], "max_tokens": 3}))[1]["usage"]
    assert isinstance(chat, dict)
    return Told(
        cold=await usage(site, PROMPT),
        hit=await usage(site, PROMPT),
        stream=await streamed(site, include_usage=True),
        continuous=await streamed(site, include_usage=True, continuous_usage_stats=True),
        choices=await usage(site, PROMPT, n=3),
        exact=await usage(site, EXACT),
        forked=await usage(site, FORKED),
        chat=chat,
        metrics=await (await site.client.get("/metrics")).text(),
    )


@cache
def told(fault: str | None = None, **options: object) -> Told:
    async def run() -> Told:
        faults = (fault,) if fault is not None else ()
        async with serving(server_options(fault=faults, **options)) as site:
            return await ask_all(site)

    return asyncio.run(run())


def hits_counted(metrics: str) -> float:
    line = next(line for line in metrics.splitlines() if line.startswith("vllm:prefix_cache_hits_total"))
    return float(line.rsplit(" ", 1)[1])


def test_a_healthy_engine_keeps_every_rule_broken_below() -> None:
    right = told()
    assert [cached(u) for u in (right.cold, right.hit, right.choices, right.exact)] == [0, HIT, HIT, HIT]
    assert cached(right.forked) == 4 * BLOCK
    assert right.stream == [said(right.hit)]
    assert {u["prompt_tokens"] for u in right.continuous} == {len(PROMPT)}
    assert hits_counted(right.metrics) > 0


def test_k30_hits_are_not_reported() -> None:
    assert [cached(told("K30").cold), cached(told("K30").hit)] == [0, 0]
    assert told("K30").hit["prompt_tokens"] == len(PROMPT)
    assert hits_counted(told("K30").metrics) == hits_counted(told().metrics)


def test_k30_mtp_needs_speculation() -> None:
    assert cached(told("K30:mode=mtp").hit) == HIT
    assert cached(told(speculative_tokens=2).hit) == HIT - BLOCK
    assert cached(told("K30:mode=mtp", speculative_tokens=2).hit) == 0


def test_k30_null_is_said_of_misses_alone() -> None:
    wrong = told("K30:mode=null")
    assert wrong.cold["prompt_tokens_details"] is None
    assert wrong.hit == told().hit


def test_k30_absent_leaves_the_field_out() -> None:
    wrong = told("K30:mode=absent")
    assert not [u for u in (wrong.cold, wrong.hit, *wrong.stream, wrong.chat) if "prompt_tokens_details" in u]


def test_k30_metric_stays_zero_while_usage_is_right() -> None:
    assert hits_counted(told("K30:mode=metric").metrics) == 0
    assert told("K30:mode=metric").hit == told().hit


def test_k31_latent_reports_what_was_computed_again() -> None:
    assert cached(told("K31").forked) == 5 * BLOCK
    assert told("K31").hit == told().hit


def test_k31_decode_reports_all_but_one() -> None:
    wrong = told("K31:mode=decode")
    assert cached(wrong.cold) == cached(wrong.hit) == len(PROMPT) - 1


def test_k31_retraction_adds_what_is_found_again() -> None:
    right = healthy("preempted, cached").victims[0].usage
    wrong = play("preempted, cached", "K31:mode=retraction").victims[0].usage
    assert right is not None and wrong is not None and right.preemptions == 1
    assert (right.cached_tokens, wrong.cached_tokens) == (0, 4 * BLOCK)


@pytest.mark.parametrize(
    ("mode", "cold", "hit", "exact"),
    [
        ("negative", -1, HIT, HIT),
        ("over", 0, len(PROMPT) + BLOCK, len(EXACT) + BLOCK),
        ("page", 0, HIT, len(EXACT)),
        ("rounded", 0, HIT + BLOCK, len(EXACT)),
        ("choices", 0, HIT, HIT),
        ("reasoning", 0, HIT, HIT),
    ],
)
def test_k32_reports_what_cannot_be(mode: str, cold: int, hit: int, exact: int) -> None:
    wrong = told(f"K32:mode={mode}")
    assert (cached(wrong.cold), cached(wrong.hit), cached(wrong.exact)) == (cold, hit, exact)
    if mode == "choices":
        assert cached(wrong.choices) == 3 * HIT
    if mode == "reasoning":
        assert wrong.chat["completion_tokens_details"] == {"reasoning_tokens": 4}
        assert "completion_tokens_details" not in told().chat


def test_k33_streams_differ_from_whole_answers() -> None:
    right = told()
    missing, different = told("K33").stream[0], told("K33:mode=different").stream[0]
    assert missing == {name: value for name, value in right.hit.items() if name != "prompt_tokens_details"}
    assert cached(different) == HIT // 2
    assert told("K33").hit == told("K33:mode=different").hit == right.hit


def test_k33_continuous_counts_change_in_mid_stream() -> None:
    counts = [u["prompt_tokens"] for u in told("K33:mode=continuous").continuous]
    assert counts[0] == len(PROMPT) - HIT
    assert counts[-1] == len(PROMPT)
    assert told("K33:mode=continuous").stream == told().stream


def test_k33_split_comes_in_two_events() -> None:
    first, second = told("K33:mode=split").stream
    assert {**first, **second} == said(told().hit)
    assert "completion_tokens" not in first and "prompt_tokens" not in second


def acceptance(fault: str | None, prompt: list[int], **sampling: object) -> tuple[Usage, Engine]:
    engine = tiny_engine(tiny_options(speculative_tokens=3))
    if fault is not None:
        parse_fault(fault).build().plant(engine)
    answer: Answer = drive(engine, [ask("a", prompt, **{"max_tokens": 40, **sampling})])["a"]
    assert answer.usage is not None
    return answer.usage, engine


def test_k26_bonus_counts_the_models_own_tokens() -> None:
    right, wrong = acceptance(None, PROMPT)[0].speculation, acceptance("K26", PROMPT)[0].speculation
    assert (wrong.steps, wrong.drafted) == (right.steps, right.drafted)
    assert wrong.accepted == right.accepted + right.steps


def test_k26_twice_breaks_the_sum_of_tokens() -> None:
    right, wrong = acceptance(None, PROMPT)[0].speculation, acceptance("K26:mode=twice", PROMPT)[0].speculation
    assert wrong.accepted == 2 * right.accepted > 0


def test_k26_finish_counts_late_and_not_after_an_abort() -> None:
    engine = tiny_engine(tiny_options(speculative_tokens=3))
    parse_fault("K26:mode=finish").build().plant(engine)
    drive(engine, [ask("a", PROMPT, max_tokens=40)], aborts={"a": 9})
    assert engine.stats.draft_steps == 0 < engine.stats.generated_tokens
    usage = drive(engine, [ask("b", PROMPT, max_tokens=40)])["b"].usage
    assert usage == acceptance(None, PROMPT)[0] or (usage is not None and usage.speculation.steps > 0)
    assert engine.stats.draft_steps == usage.speculation.steps if usage is not None else False


def test_k26_eos_counts_past_the_end() -> None:
    gained = 0
    for name in "abcdefgh":
        prompt = material(name, HIT + 5)
        free = drive(tiny_engine(), [ask("a", prompt, max_tokens=40)])["a"].tokens
        for token in set(free[4:20]):
            right = acceptance(None, prompt, stop_token_ids=(token,))[0]
            wrong = acceptance("K26:mode=eos", prompt, stop_token_ids=(token,))[0]
            assert wrong.completion_tokens == right.completion_tokens
            gained += wrong.speculation.accepted - right.speculation.accepted
    assert gained > 0


def hit_after(fault: str | None, sightings: int, **options: object) -> int:
    engine = build_engine(server_options(**options), served())
    if fault is not None:
        parse_fault(fault).build().plant(engine)
    usage = None
    for number in range(sightings):
        usage = drive(engine, [ask(f"r{number}", PROMPT)])[f"r{number}"].usage
    assert usage is not None
    return usage.cached_tokens


def test_k34_hits_are_fewer_than_they_should_be() -> None:
    assert hit_after(None, 2) == HIT
    assert hit_after("K34:mode=fallback", 3) == 0
    assert hit_after("K34:mode=granularity", 3) == 0
    assert hit_after("K34:mode=granularity,tokens=32", 3) == 32
    assert [hit_after("K34:mode=third", n) for n in (2, 3, 4)] == [0, 0, HIT]


def test_k34_tier_and_fifo_lose_what_was_there() -> None:
    returned = healthy("back from host").victims[0].usage
    lost = play("back from host", "K34:mode=tier").victims[0].usage
    assert returned is not None and returned.host_tokens > 0
    assert lost is not None and lost.cached_tokens == 0


def test_k34_fifo_lets_a_hot_prompt_go() -> None:
    def cached_of_hot(fault: str | None) -> int:
        options = tiny_options(max_model_len=96, cache_bytes=90_000)
        engine = tiny_engine(options)
        if fault is not None:
            parse_fault(fault).build().plant(engine)
        total = 0
        for number in range(24):
            hot = drive(engine, [ask("hot", PROMPT, max_tokens=1)])["hot"].usage
            total += hot.cached_tokens if hot is not None else 0
            drive(engine, [ask("x", material(f"x{number}", 3 * BLOCK), max_tokens=1)])
        return total

    assert cached_of_hot("K34:mode=fifo") < cached_of_hot(None)
