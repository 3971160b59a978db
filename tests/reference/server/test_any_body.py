"""Whatever a body holds, the server answers or refuses; it never breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.server.serving import server_options, serving

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([10**9, -1.5, 0.0, 0.5, 1e300, "", "e", "auto", "required", "none", "a b c"]),
    st.lists(st.one_of(st.integers(-1, 600), st.sampled_from(["x", ""]), st.none()), max_size=4),
    st.dictionaries(st.sampled_from(["type", "enable_thinking", "include_usage", "function", "text"]), st.booleans()),
)
FIELDS = [
    "model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p",
    "seed", "stop", "stop_token_ids", "n", "logprobs", "top_logprobs", "stream", "stream_options", "echo",
    "prompt_logprobs", "return_token_ids", "ignore_eos", "min_tokens", "cache_salt", "tools", "tool_choice",
    "response_format", "chat_template_kwargs", "thinking_token_budget", "text", "input_ids", "sampling_params",
    "return_logprob", "logprob_start_len", "top_logprobs_num", "rid", "request_id", "logit_bias",
]  # fmt: skip
GOOD: dict[str, Any] = {
    "prompt": "Once",
    "text": "Once",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 3,
    "sampling_params": {"max_new_tokens": 3},
}
bodies = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5).map(lambda body: GOOD | body)


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_no_body_breaks_the_server(dialect: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(batch=st.lists(bodies, min_size=1, max_size=6))
    def check(batch: list[dict[str, Any]]) -> None:
        asyncio.run(send(dialect, batch))

    check()


async def send(dialect: str, batch: list[dict[str, Any]]) -> None:
    routes = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"]
    async with serving(server_options(dialect=dialect, max_model_len=64)) as site:
        for index, body in enumerate(batch):
            route = routes[index % len(routes)] if dialect != "sglang" or index % 3 else "/generate"
            async with site.client.post(route, data=orjson.dumps(body)) as response:
                text = await response.text()
                assert response.status in (200, 400, 404), (route, body, text)
                assert '"code":500' not in text, (route, body, text)
        assert all(worker.failure is None for worker in site.service.workers)
