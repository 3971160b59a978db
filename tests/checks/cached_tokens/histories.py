"""Hand-written histories: a few answers of a server that reuses prompts in steps of 64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.history import Answer, Capabilities, CheckHistory
from harness.records import Complete, CounterSample, Invoke, Outcome, Record, RequestError, Usage
from workloads.plan import Json, Phase

MS = 1_000_000
GAP_NS = 1_000 * MS
MS_PER_TOKEN = 0.1


def answer(
    number: int,
    *,
    arm: str = "repeat",
    name: str = "r0/rung0",
    sighting: int = 0,
    prompt_tokens: int | None = 1000,
    cached_tokens: int | None = 0,
    may_hit: int = 0,
    stream: bool = True,
    ttft_ms: float | None = None,
    outcome: Outcome = Outcome.OK,
    error: RequestError | None = None,
    cell: str = "cached-tokens-r0",
    prompt_hash: str | None = None,
    choices: int = 1,
    **labels: Json,
) -> Answer:
    """Request `number`, begun `number` seconds into the cell; its time to first token fits what was computed."""
    sent_ns = number * GAP_NS
    length = 1000 if prompt_tokens is None else prompt_tokens
    reused = 0 if cached_tokens is None else cached_tokens
    first_ms = 5 + MS_PER_TOKEN * (length - reused) if ttft_ms is None else ttft_ms
    invoke = Invoke(
        request_id=f"q{number}",
        cell=cell,
        step="ask",
        key=f"{name}/{sighting}",
        planned_ns=sent_ns,
        phase=Phase.MEASURE,
        session=name,
        arm=arm,
        prompt_hash=name if prompt_hash is None else prompt_hash,
        parameters={"stream": stream, "n": choices},
        labels={"sighting": sighting, "may_hit": may_hit, "tokens": length, "exact": True, **labels},
    )
    done = Complete(
        request_id=f"q{number}",
        outcome=outcome,
        error=error,
        sent_ns=sent_ns,
        first_token_ns=sent_ns + round(first_ms * MS) if stream else None,
        end_ns=sent_ns + round((first_ms + 20) * MS),
        usage=Usage(prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, completion_tokens=4),
    )
    return Answer(record=Record(invoke=invoke, complete=done))


def reused(length: int) -> int:
    return (length - 1) // 64 * 64


def repeats(lengths: Sequence[int] = (500, 704, 900, 1024, 1300, 1500), sightings: int = 4) -> list[Answer]:
    """Every length asked that often; all but the first are hits."""
    found: list[Answer] = []
    for length in lengths:
        for sighting in range(sightings):
            cached = reused(length) if sighting else 0
            found.append(
                answer(
                    len(found), arm="length", name=f"r0/length{length}", sighting=sighting, prompt_tokens=length,
                    cached_tokens=cached, may_hit=length if sighting else 0,
                )
            )  # fmt: skip
    return found


def counters(
    answers: Sequence[Answer], *, cached: dict[str, int] | None = None, foreign: int = 0
) -> list[CounterSample]:
    """A sample before everything and one half a second after each request; `cached` replaces what usage says."""
    prompt_total = cached_total = 0
    samples = [CounterSample(at_ns=-1, values={"prompt_tokens": 0.0, "cached_tokens": 0.0})]
    for each in answers:
        usage = each.record.complete.usage
        assert usage is not None and usage.prompt_tokens is not None
        reported = 0 if usage.cached_tokens is None else usage.cached_tokens
        prompt_total += usage.prompt_tokens + foreign
        cached_total += reported if cached is None else cached.get(each.record.invoke.request_id, reported)
        assert each.record.complete.sent_ns is not None
        at_ns = each.record.complete.sent_ns + GAP_NS // 2
        values = {"prompt_tokens": float(prompt_total), "cached_tokens": float(cached_total)}
        samples.append(CounterSample(at_ns=at_ns, values=values))
    return samples


def history(answers: Sequence[Answer], samples: Sequence[CounterSample] = (), **more: Any) -> CheckHistory:
    engine = more.pop("engine", "vllm")
    return CheckHistory(
        answers=tuple(answers), counters=tuple(samples), capabilities=Capabilities(engine=engine), **more
    )
