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

    Attributes:
        checks_model: a name other than the served model's is refused with 404.
        max_logprobs: the most alternatives given per token, None for no limit.
        zero_tokens: what ``max_tokens`` 0 means for completions.
        zero_tokens_chat: the same for chats.
        scores_read_cache: a request for logprobs of its prompt may start from the cache.
        clips_length: an answer that the context cannot hold is cut instead of refused.
        default_tokens: length of a completion that names none, None for all that the context holds.
        default_temperature: temperature of a request that names none.
        checks_temperature: a negative temperature is refused instead of taken for 0.
        named_tools: ``tool_choice`` may name a function; else such a choice counts as ``auto``.
        unknown_tool: refusal of a function that no tool has, with ``{name}``.
        checks_salt: a cache salt has at most 128 characters and no ``@``, slash or NUL.
        knows_salt: ``cache_salt`` keeps a request's prefixes apart; else it means nothing.
        cache_field: body field that, false, has a prompt computed from its start, None where there is none.
        scores_prompts: prompt logprobs and echo are known.
        streams_chat_ids: token ids may be asked of a streamed chat.
        id_field: body field in which a client may name its request.
        flags: further boolean fields of the body that the dialect looks at.
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
    checks_salt: bool = False
    knows_salt: bool = True
    cache_field: str | None = None
    scores_prompts: bool = True
    streams_chat_ids: bool = True
    id_field: str = "request_id"
    flags: tuple[str, ...] = ()
