"""Nonces: what keeps one cell's prompts out of the cache that another cell filled."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from workloads.plan import ChatPrompt, Json, Message, Prompt, TextPrompt, TokenPrompt
from workloads.ruler import with_nonce_pieces

_NONCE_BITS = 64


def new_nonce(run_id: str, cell: str, attempt: int) -> str:
    """16 hexadecimal digits, new for every run, cell and attempt at a cell."""
    return hashlib.sha256(f"{run_id}/{cell}/{attempt}".encode()).hexdigest()[: _NONCE_BITS // 4]


def with_nonce(prompt: Prompt, nonce: str, pieces: Sequence[str] = ()) -> Prompt:
    """The prompt with the nonce before everything it has to say.

    With `pieces`, texts of one token each, the nonce is made of them, so that its length is known beforehand.

    A chat carries it at the start of its first message and of its first tool's description, which is moved to the front
    of the definition, because some templates render the tools first. Token ids keep their number: the first ones are
    replaced by ids that occur in the prompt, 64 bits' worth or as many as there are.
    """
    if pieces and not isinstance(prompt, TokenPrompt):
        return with_nonce_pieces(prompt, nonce, pieces)
    if isinstance(prompt, ChatPrompt):
        first, *others = prompt.messages
        tools = prompt.tools
        if tools:
            tools = (_marked_tool(tools[0], nonce), *tools[1:])
        return replace(prompt, messages=(_marked_message(first, nonce), *others), tools=tools)
    if isinstance(prompt, TextPrompt):
        return TextPrompt(text=f"[{nonce}]\n{prompt.text}")
    return TokenPrompt(token_ids=_marked_ids(prompt.token_ids, nonce))


def _marked_message(message: Message, nonce: str) -> Message:
    content = "" if message.content is None else message.content
    return replace(message, content=f"[{nonce}]\n{content}")


def _marked_tool(tool: Mapping[str, Json], nonce: str) -> Mapping[str, Json]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return {"nonce": nonce, **tool}
    marked = {"description": f"[{nonce}] {function.get('description', '')}"}
    return {"function": marked | {key: value for key, value in function.items() if key != "description"}} | {
        key: value for key, value in tool.items() if key != "function"
    }


def _marked_ids(token_ids: tuple[int, ...], nonce: str) -> tuple[int, ...]:
    alphabet = sorted(set(token_ids))
    needed = math.ceil(_NONCE_BITS / math.log2(max(2, len(alphabet))))
    length = min(needed, len(token_ids))
    rng = random.Random(nonce)
    return (*(rng.choice(alphabet) for _ in range(length)), *token_ids[length:])
