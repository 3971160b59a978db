"""What a dialect accepts and what it takes for granted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ZeroTokens(Enum):
    """What ``max_tokens`` 0 means."""

    REFUSED = "refused"
    EMPTY = "empty"
    ONE = "one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one dialect reads requests.

    ``max_logprobs`` is the most alternatives it gives, None for no limit; ``scores_read_cache`` says whether a request
    for prompt logprobs may start from the cache; ``clips_length`` says that an answer may be cut by the context instead
    of being refused; ``default_tokens`` is the length of a completion that names none, None for all the context holds;
    ``named_tools`` says that tool_choice may name a function (else such a choice counts as auto) and ``unknown_tool``
    is the refusal of a name that no tool has, with ``{name}``; ``scores_prompts`` that prompt logprobs and echo are
    known; ``streams_chat_ids`` that token ids may be asked of a streamed chat.
    """

    checks_model: bool
    max_logprobs: int | None
    zero_tokens: ZeroTokens
    zero_tokens_chat: ZeroTokens
    scores_read_cache: bool
    clips_length: bool
    default_tokens: int | None
    default_temperature: float
    checks_temperature: bool
    named_tools: bool
    unknown_tool: str | None
    scores_prompts: bool = True
    streams_chat_ids: bool = True
    flags: tuple[str, ...] = ()
