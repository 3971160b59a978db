"""A drill for each difference between the wires of real engines, on what they were recorded to send."""

from __future__ import annotations

import orjson
import pytest

from harness.endpoint.wire import Reading, decode
from harness.records import ErrorKind, Outcome, TokenSource
from tests.endpoint.recordings import raw_answer, recorded

ENGINES = ("vllm-qwen3", "sglang-qwen3", "llama-bailing3")


def streamed(name: str) -> Reading:
    return decode(recorded(name), stream=True)


def whole(name: str) -> Reading:
    return decode(recorded(name), stream=False)


@pytest.mark.parametrize("name", [*(f"{engine}/chat_stream" for engine in ENGINES), "transformers-qwen3/chat_stream"])
def test_the_role_chunk_carries_no_token_whether_its_content_is_empty_null_or_absent(name: str) -> None:
    body = recorded(name).body
    first = orjson.loads(body.split(b"data: ", 2)[1])["choices"][0]["delta"]
    assert first["role"] == "assistant" and not first.get("content")
    reading = streamed(name)
    assert reading.outcome is Outcome.OK
    usage = reading.usage
    assert usage is not None and usage.completion_tokens is not None
    assert len(reading.event_times_ns) <= usage.completion_tokens


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("vllm-qwen3/chat_stream", (24, 12, 0)),
        ("sglang-qwen3/chat_stream", (24, 12, 23)),
        ("llama-bailing3/chat_stream", (24, 12, 20)),
        ("llama-bailing3/comp_stream_nousage", (6, 12, 2)),
        ("transformers-qwen3/chat_stream", (16, 6, None)),
    ],
)
def test_usage_is_found_wherever_it_stands(name: str, usage: tuple[int, int, int | None]) -> None:
    """In a chunk without choices; on the final chunk with choices, even unasked; on the finish chunk."""
    found = streamed(name).usage
    assert found is not None
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == usage


@pytest.mark.parametrize(("engine", "tokens"), [("vllm-qwen3", 8), ("sglang-qwen3", 8), ("llama-bailing3", 4)])
def test_the_usage_of_two_choices_counts_one_of_them_on_llama_cpp(engine: str, tokens: int) -> None:
    reading = whole(f"{engine}/comp_n2")
    assert (len(reading.other_texts), reading.output_tokens) == (1, tokens)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_finish_comes_with_the_last_text_or_after_it(engine: str) -> None:
    reading = streamed(f"{engine}/chat_stream")
    assert reading.finish_reason == "length"
    finish = [
        part for part in recorded(f"{engine}/chat_stream").body.split(b"data: ") if b'"finish_reason":"length"' in part
    ]
    with_text = orjson.loads(finish[0])["choices"][0]["delta"].get("content")
    assert bool(with_text) is (engine == "vllm-qwen3")


def test_chunks_are_not_tokens_under_speculation() -> None:
    reading = streamed("vllm-qwen3-ngram/comp_stream")
    assert (len(reading.event_times_ns), reading.output_tokens) == (67, 80)
    assert reading.event_tokens is not None and max(reading.event_tokens) == 5
    assert sum(reading.event_tokens) == 80
    assert streamed("vllm-bailing3-mtp2/comp_stream").event_tokens != (1,) * 30


def test_alternatives_are_empty_while_llama_cpp_drafts_and_the_chosen_token_is_still_read() -> None:
    position = {"token": "a", "logprob": -0.5, "top_logprobs": [], "id": 7}
    choice = {"index": 0, "text": "a", "logprobs": {"content": [position]}, "finish_reason": "length"}
    reading = decode(raw_answer(orjson.dumps({"choices": [choice]})), stream=False)
    assert reading.logprobs is not None
    assert (reading.logprobs[0].top, reading.logprobs[0].logprob, reading.logprobs[0].token_id) == ((), -0.5, 7)


def test_a_token_that_ends_inside_a_character_is_an_empty_chunk_or_none_at_all() -> None:
    vllm = streamed("vllm-qwen3/comp_stream")
    assert (len(vllm.event_times_ns), vllm.output_tokens) == (12, 12)
    llama = streamed("llama-bailing3/chat_stream")
    assert (len(llama.event_times_ns), llama.output_tokens) == (11, 12)
    merged = streamed("llama-bailing3/chat_lp20_stream")
    assert merged.logprobs is not None and (len(merged.logprobs), merged.output_tokens) == (2, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_logprobs_of_completions_come_in_two_shapes(engine: str) -> None:
    shape = orjson.loads(recorded(f"{engine}/comp_logprobs20").body)["choices"][0]["logprobs"]
    assert ("content" in shape) is (engine == "llama-bailing3")
    if engine == "sglang-qwen3":
        assert set(shape["text_offset"]) == {-1}
    logprobs = whole(f"{engine}/comp_logprobs20").logprobs
    assert logprobs is not None
    assert [len(position.top) for position in logprobs] == [20] * 4


@pytest.mark.parametrize(
    ("engine", "by_field", "by_echo"),
    [("vllm-qwen3", True, True), ("sglang-qwen3", False, True), ("llama-bailing3", False, False)],
)
def test_prompt_logprobs_by_their_field_by_echo_or_not_at_all(engine: str, by_field: bool, by_echo: bool) -> None:
    assert ("prompt_logprobs" in whole(f"{engine}/comp_promptlogprobs").extra) is by_field
    echoed = whole(f"{engine}/comp_echo_lp")
    assert echoed.logprobs is not None and echoed.output_tokens is not None
    assert (len(echoed.logprobs) > echoed.output_tokens) is by_echo


def test_sglang_refuses_token_ids_in_a_streamed_chat() -> None:
    reading = streamed("sglang-qwen3/chat_tokenids")
    assert reading.error is not None
    assert (reading.outcome, reading.error.http_status) == (Outcome.REFUSED, 400)
    assert streamed("vllm-qwen3/chat_tokenids").token_ids is not None


def test_reasoning_has_two_names() -> None:
    assert whole("vllm-qwen3-ngram/chat_reasoning").reasoning == "utually inclurun diffmod"
    message = {"role": "assistant", "content": None, "reasoning_content": "let me see"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    assert decode(raw_answer(orjson.dumps({"choices": [choice]})), stream=False).reasoning == "let me see"


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm-qwen3", "This model's maximum context length is 8192 tokens"),
        ("sglang-qwen3", "The input (46141 tokens) is longer than the model's context length"),
        ("llama-bailing3", "request (46141 tokens) exceeds the available context size (8192 tokens)"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_too_long_is_refused_in_three_shapes(engine: str, words: str, stream: bool) -> None:
    name = f"{engine}/err_ctx_too_long{'_stream' if stream else ''}"
    reading = decode(recorded(name), stream=stream)
    assert reading.error is not None and reading.error.message.startswith(words)
    assert (reading.outcome, reading.error.kind) == (Outcome.REFUSED, ErrorKind.HTTP_STATUS)


@pytest.mark.parametrize(("ending", "done"), [(b"data: [DONE]\n\n", "vLLM"), (b"", "llama.cpp")])
def test_an_error_in_mid_stream_is_a_failure_with_or_without_the_last_line(ending: bytes, done: str) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
    error = {"error": {"message": f"{done} broke", "type": "internal", "code": 500}}
    body = b"".join(b"data: " + orjson.dumps(each) + b"\n\n" for each in (chunk, error)) + ending
    reading = decode(raw_answer(body, headers={"content-type": "text/event-stream"}), stream=True)
    assert reading.error is not None
    assert (reading.outcome, reading.error.kind) == (Outcome.UNKNOWN, ErrorKind.STREAM_ERROR)
    assert (reading.error.message, reading.error.http_status) == (f"{done} broke", 500)


@pytest.mark.parametrize(
    ("engine", "outcome"),
    [("vllm-qwen3", Outcome.REFUSED), ("sglang-qwen3", Outcome.OK), ("llama-bailing3", Outcome.OK)],
)
def test_a_model_that_is_not_served_is_refused_or_served_all_the_same(engine: str, outcome: Outcome) -> None:
    assert whole(f"{engine}/err_unknown_model").outcome is outcome


@pytest.mark.parametrize(
    ("engine", "text", "chat"),
    [("vllm-qwen3", None, None), ("sglang-qwen3", None, 0), ("llama-bailing3", 1, 1)],
)
def test_no_tokens_at_all_is_refused_an_empty_answer_or_one_token(
    engine: str, text: int | None, chat: int | None
) -> None:
    assert whole(f"{engine}/err_max_tokens_0").output_tokens == text
    assert whole(f"{engine}/err_max_tokens_0_chat").output_tokens == chat


@pytest.mark.parametrize(("engine", "tokens"), [("vllm-qwen3", None), ("sglang-qwen3", None), ("llama-bailing3", 8186)])
def test_a_huge_limit_is_refused_or_runs_until_the_context_is_full(engine: str, tokens: int | None) -> None:
    reading = whole(f"{engine}/err_maxtok_over_ctx")
    assert (reading.output_tokens, reading.outcome is Outcome.OK) == (tokens, tokens is not None)


def test_a_stream_without_its_last_line_is_whole_if_it_finished() -> None:
    assert b"[DONE]" not in recorded("transformers-qwen3/chat_stream").body
    reading = streamed("transformers-qwen3/chat_stream")
    assert (reading.outcome, reading.output_tokens_source) == (Outcome.OK, TokenSource.USAGE)
    assert reading.usage is not None and reading.usage.cached_tokens is None
