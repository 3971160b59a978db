"""What the capability round showed: pure, so that an old run can be read again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from harness.checks.history import Answer, Capabilities, StepRecord
from harness.records import CounterSample, Outcome
from workloads.capabilities import LOGPROB_COUNTS, SHORT_TOKENS
from workloads.plan import Json

_LABEL = re.compile(r'(\w+)="([^"]*)"')


def read_capabilities(
    answers: Sequence[Answer],
    steps: Sequence[StepRecord],
    counters: Sequence[CounterSample],
    *,
    engine: str | None,
    details: Mapping[str, Json],
    deterministic: bool | None,
) -> Capabilities:
    """Read the round of `workloads.capabilities`; whatever it did not come to is None.

    engine, details: what the server says of itself. deterministic: what its operator says.
    """
    by_key = {answer.record.invoke.key: answer for answer in answers}
    cached = {key: _cached(answer) for key, answer in by_key.items()}
    return Capabilities(
        engine=engine,
        salt=_keeps_apart(by_key, cached, "salted"),
        bypass=_keeps_apart(by_key, cached, "bypassed"),
        flush=_flushes(steps, cached),
        logprobs=_logprobs(by_key),
        token_id_prompts=_takes_ids(by_key),
        cached_tokens=_reported(cached.values()),
        cached_in_stream=_reported([cached[key] for key in cached if key != "whole"]),
        cached_in_whole=_reported([cached[key] for key in cached if key == "whole"]),
        speculation=_speculates(answers, counters),
        deterministic=deterministic,
        cache_tokens=_cache_tokens(details),
        chunk_tokens=_whole(details.get("chunked_prefill_size")),
        block_tokens=_block_tokens(details),
        host_tier=_host_tier(details),
        answers=sum(_ok(answer) for answer in answers) if answers else None,
    )


def _cached(answer: Answer) -> int | None:
    usage = answer.record.complete.usage
    return None if usage is None else usage.cached_tokens


def _ok(answer: Answer | None) -> bool:
    return answer is not None and answer.record.complete.outcome is Outcome.OK


def _hit(count: int | None) -> bool:
    return count is not None and count > 0


def _reported(counts: Iterable[int | None]) -> bool | None:
    known = [count is not None for count in counts]
    return any(known) if known else None


def _keeps_apart(by_key: Mapping[str, Answer], cached: Mapping[str, int | None], key: str) -> bool | None:
    """Whether a request that asked to be kept from the cache was, where the same prompt hits before and after."""
    if key not in by_key:
        return None
    if not _ok(by_key[key]):
        return False
    if not (_hit(cached.get("sighting-3")) and _hit(cached.get("hit-again"))):
        return None
    return cached[key] == 0


def _flushes(steps: Sequence[StepRecord], cached: Mapping[str, int | None]) -> bool | None:
    """The server's word and the next count must agree; None if it was not asked or no hit could be seen."""
    flushed = next((step.complete for step in steps if step.invoke.key == "flush"), None)
    if flushed is None:
        return None
    if flushed.outcome is not Outcome.OK:
        return False
    after = cached.get("after-flush")
    if not _hit(cached.get("hit-again")) or after is None:
        return None
    return after == 0


def _logprobs(by_key: Mapping[str, Answer]) -> int | None:
    """The most alternatives that were asked for and came for every token."""
    asked = [count for count in LOGPROB_COUNTS if f"logprobs-{count}" in by_key]
    if not asked:
        return None
    for count in asked:
        answer = by_key[f"logprobs-{count}"]
        if _ok(answer) and answer.logprobs and all(len(position.top) > 0 for position in answer.logprobs):
            return min(count, min(len(position.top) for position in answer.logprobs))
    return 0


def _takes_ids(by_key: Mapping[str, Answer]) -> bool | None:
    """The server may put one token of its own before the ids."""
    if "token-ids" not in by_key:
        return None
    usage = by_key["token-ids"].record.complete.usage
    counted = None if usage is None else usage.prompt_tokens
    return _ok(by_key["token-ids"]) and counted in (None, SHORT_TOKENS, SHORT_TOKENS + 1)


def _speculates(answers: Sequence[Answer], counters: Sequence[CounterSample]) -> bool | None:
    """Drafts in any answer's own fields or in the counters; None without answers."""
    if not answers:
        return None
    drafts = [sample.values["spec_drafts"] for sample in counters if "spec_drafts" in sample.values]
    if len(drafts) > 1 and drafts[-1] > drafts[0]:
        return True
    return any(_drafted(answer.record.complete.extra) for answer in answers)


def _drafted(extra: Mapping[str, Json]) -> bool:
    timings, metrics = extra.get("timings"), extra.get("metrics")
    by_timings = isinstance(timings, Mapping) and isinstance(timings.get("draft_n"), int)
    return by_timings or (isinstance(metrics, Mapping) and metrics.get("speculative_decoding") is not None)


def _cache_labels(details: Mapping[str, Json]) -> dict[str, str]:
    """The labels of vllm:cache_config_info; empty on other engines."""
    info = details.get("cache_config_info")
    return dict(_LABEL.findall(info)) if isinstance(info, str) else {}


def _cache_tokens(details: Mapping[str, Json]) -> int | None:
    labels = _cache_labels(details)
    size, blocks = _whole(labels.get("kv_cache_size_tokens")), _whole(labels.get("num_gpu_blocks"))
    block = _whole(labels.get("block_size"))
    if size is None and blocks is not None and block is not None:
        return blocks * block
    return size if size is not None else _whole(details.get("max_total_num_tokens"))


def _host_tier(details: Mapping[str, Json]) -> bool | None:
    """Whether the server says that it has a tier behind the device; None if it says nothing of it."""
    hierarchical = details.get("enable_hierarchical_cache")
    if isinstance(hierarchical, bool):
        return hierarchical
    size = _cache_labels(details).get("kv_offloading_size")
    return None if size is None else size not in ("None", "0", "0.0")


def _block_tokens(details: Mapping[str, Json]) -> int | None:
    labels = _cache_labels(details)
    stated = _whole(labels.get("cache_hit_alignment_tokens"))
    return stated if stated is not None else _whole(labels.get("block_size"))


def _whole(value: Json) -> int | None:
    """A positive whole number, also as text; None for anything else."""
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
