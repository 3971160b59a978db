"""A handful of requests that show what an endpoint can do, before any check is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workloads.material import Material, Segment
from workloads.plan import Ask, Flush, Json, Prompt, Scrape, Step
from workloads.sequence import Sequence

NAME = "capabilities"
LOGPROB_COUNTS = (20, 5, 1)
LONG_TOKENS = 2100
SHORT_TOKENS = 48
OUTPUT_TOKENS = 8


def logprob_fields(endpoint_type: str, count: int) -> Mapping[str, Json]:
    """Body fields that ask for `count` alternatives of each generated token; none for a count of 0."""
    if count == 0:
        return {}
    return {"logprobs": True, "top_logprobs": count} if endpoint_type == "chat" else {"logprobs": count}


def capabilities(material: Material, *, endpoint_type: str, flush: bool, longest_prompt_tokens: int | None) -> Sequence:
    """The plan; `flush` allows emptying the server's cache, longest_prompt_tokens None means no known limit."""
    long_tokens = LONG_TOKENS if longest_prompt_tokens is None else min(LONG_TOKENS, longest_prompt_tokens // 2)
    return Sequence(
        name=NAME,
        version=1,
        steps=(*_forms(material, endpoint_type), *_cache(material, max(SHORT_TOKENS, long_tokens), flush)),
        parameters={"endpoint_type": endpoint_type, "flush": flush, "long_tokens": long_tokens, "seed": material.seed},
    )


def _forms(material: Material, endpoint_type: str) -> Iterator[Step]:
    """What may be asked: streamed and not, log-probabilities, token ids."""
    text = Material(seed=material.seed, count=material.count)
    for name, stream in (("streamed", True), ("whole", False)):
        yield _ask(name, text.prompt([Segment(name=f"capability {name}", tokens=SHORT_TOKENS)]), stream=stream)
    if endpoint_type == "completions" and material.exact:
        prompt = material.prompt([Segment(name="capability ids", tokens=SHORT_TOKENS)])
        yield _ask("token-ids", prompt, expected_prompt_tokens=SHORT_TOKENS)
    for count in LOGPROB_COUNTS:
        prompt = text.prompt([Segment(name=f"capability logprobs {count}", tokens=SHORT_TOKENS)])
        yield _ask(f"logprobs-{count}", prompt, fields=logprob_fields(endpoint_type, count))


def _cache(material: Material, tokens: int, flush: bool) -> Iterator[Step]:
    """The same long prompt until it is a hit, then by every way of not being one."""
    text = Material(seed=material.seed, count=material.count)
    prompt = text.prompt([Segment(name="capability cache", tokens=tokens)])
    yield Scrape(key="before-cache")
    for sighting in range(1, 4):
        yield _ask(f"sighting-{sighting}", prompt, expected_prompt_tokens=tokens)
    salt = material.salt("capability")
    yield _ask("salted", prompt, expected_prompt_tokens=tokens, fields={"cache_salt": salt})
    yield _ask("bypassed", prompt, expected_prompt_tokens=tokens, fields={"cache_prompt": False})
    yield _ask("hit-again", prompt, expected_prompt_tokens=tokens)
    if flush:
        yield Flush(key="flush")
        yield _ask("after-flush", prompt, expected_prompt_tokens=tokens)
    yield Scrape(key="after-cache")


def _ask(
    key: str,
    prompt: Prompt,
    *,
    stream: bool = True,
    expected_prompt_tokens: int | None = None,
    fields: Mapping[str, Json] | None = None,
) -> Ask:
    return Ask(
        key=key,
        prompt=prompt,
        max_tokens=OUTPUT_TOKENS,
        session=key,
        stream=stream,
        expected_prompt_tokens=expected_prompt_tokens,
        parameters={} if fields is None else fields,
    )
