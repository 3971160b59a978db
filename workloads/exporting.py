"""Plans and traces written in the public formats, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from workloads.plan import ChatPrompt, Json, Message
from workloads.trace import TracedRequest
from workloads.trace_stats import plain_text, text_blocks

MS_PER_S = 1000
MOONCAKE_BLOCK_TOKENS = 512


def openai_lines(requests: Sequence[TracedRequest]) -> Iterator[str]:
    """`messages`, `tools`, `max_tokens`; prompts that are no chats become one user message."""
    for request in requests:
        prompt = request.prompt
        chat = prompt if isinstance(prompt, ChatPrompt) else None
        if prompt is None:
            raise ValueError("lengths alone cannot be exported as text")
        messages: Json = (
            [_message(each) for each in chat.messages]
            if chat is not None
            else [{"role": "user", "content": plain_text(prompt)}]
        )
        row: dict[str, Json] = {"messages": messages}
        if chat is not None and chat.tools:
            row["tools"] = list(chat.tools)
        yield json.dumps(row | {"max_tokens": request.output_tokens})


def custom_lines(requests: Sequence[TracedRequest]) -> Iterator[str]:
    """vLLM's custom format: `prompt` and `output_tokens`."""
    for request in requests:
        if request.prompt is None:
            raise ValueError("lengths alone cannot be exported as text")
        yield json.dumps({"prompt": plain_text(request.prompt), "output_tokens": request.output_tokens})


def mooncake_lines(requests: Sequence[TracedRequest]) -> Iterator[str]:
    """`timestamp`, lengths and `hash_ids` of 512 tokens; equal prefixes of text have equal ids."""
    ids: dict[int, int] = {}
    block_chars = _block_chars(requests)
    for number, request in enumerate(requests):
        if request.prompt is None or request.input_tokens is None:
            raise ValueError("a prompt and its length are needed to number its blocks")
        blocks = -(-request.input_tokens // MOONCAKE_BLOCK_TOKENS)
        chained = text_blocks(request.prompt, block_chars)[:blocks]
        yield json.dumps(
            {
                "timestamp": round((request.at_s or number) * MS_PER_S),
                "input_length": request.input_tokens,
                "output_length": request.output_tokens,
                "hash_ids": [ids.setdefault(block, len(ids)) for block in chained],
            }
        )


EXPORTS: Mapping[str, Callable[[Sequence[TracedRequest]], Iterator[str]]] = {
    "openai": openai_lines,
    "custom": custom_lines,
    "mooncake": mooncake_lines,
}


def _block_chars(requests: Sequence[TracedRequest]) -> int:
    """Characters of a block: one ratio for all requests, so that equal text is cut alike."""
    chars = sum(len(plain_text(request.prompt)) for request in requests if request.prompt is not None)
    tokens = sum(request.input_tokens or 0 for request in requests)
    return max(1, round(chars * MOONCAKE_BLOCK_TOKENS / max(1, tokens)))


def _message(message: Message) -> dict[str, Json]:
    fields: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields
