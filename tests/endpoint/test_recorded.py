"""Every recorded answer of a real server is read as it was read by hand."""

from __future__ import annotations

import pytest

from harness.endpoint.wire import Reading, decode
from harness.records import TokenSource
from tests.endpoint.recordings import ARRIVED_NS, EXPECTED, recorded


def read(name: str) -> Reading:
    return decode(recorded(name), stream=EXPECTED[name]["stream"])


@pytest.mark.parametrize("name", EXPECTED)
def test_text_tokens_usage_finish_and_error(name: str) -> None:
    expected, reading = EXPECTED[name], read(name)
    assert reading.outcome.value == expected["outcome"]
    if expected["status"] != 200:
        assert reading.error is not None
        assert reading.error.kind.value == expected["error_kind"]
        assert reading.error.http_status == expected["status"]
        assert reading.error.message[:290] == " ".join(expected["error"].split())[:290]
        return
    usage = reading.usage
    assert reading.text == expected["text"]
    assert reading.reasoning == expected["reasoning"]
    assert [call.name for call in reading.tool_calls] == expected["tool_names"]
    assert ("".join(call.arguments for call in reading.tool_calls) or None) == expected["tool_arguments"]
    assert reading.finish_reason == expected["finish_reason"]
    assert (usage.prompt_tokens if usage else None) == expected["prompt_tokens"]
    assert (usage.completion_tokens if usage else None) == expected["completion_tokens"]
    assert (usage.cached_tokens if usage else None) == expected["cached_tokens"]


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name]["status"] == 200])
def test_tokens_of_each_event(name: str) -> None:
    expected, reading = EXPECTED[name]["event_tokens"], read(name)
    tokens = reading.event_tokens if reading.event_tokens is not None else (1,) * len(reading.event_times_ns)
    assert list(tokens) == expected
    assert set(reading.event_times_ns) <= {ARRIVED_NS}


@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_is_dropped(name: str) -> None:
    reading = read(name)
    assert reading.unparsed_events == 0
    assert reading.unread_fields == ()


def test_output_tokens_come_from_usage_and_else_from_the_next_best_source() -> None:
    assert read("vllm-qwen3/chat_stream").output_tokens_source is TokenSource.USAGE
    without = decode(recorded("vllm-qwen3/chat_stream_nousage"), stream=True)
    assert (without.output_tokens, without.output_tokens_source) == (12, TokenSource.EVENTS)
    counted = decode(recorded("vllm-qwen3/chat_stream_nousage"), stream=True, count_tokens=len)
    assert counted.output_tokens == len(str(counted.text))
    assert counted.output_tokens_source is TokenSource.TOKENIZER


def test_several_tokens_in_an_event_are_counted_by_their_ids() -> None:
    reading = read("vllm-qwen3-ngram/comp_stream")
    assert reading.event_tokens is not None
    assert reading.event_tokens[:3] == (1, 5, 3)
    assert sum(reading.event_tokens) == reading.output_tokens == 80
    assert reading.token_ids is not None
    assert len(reading.token_ids) == 80


def test_engine_fields_are_kept_as_they_came() -> None:
    assert read("llama-bailing3/comp_stream").extra["timings"]["cache_n"] == 2  # type: ignore[index, call-overload]
    assert read("vllm-qwen3/chat_stream").extra["system_fingerprint"] == "vllm-0.32.0-1daceb69"
