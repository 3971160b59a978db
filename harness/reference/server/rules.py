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
    ``unknown_tool`` is the refusal of a tool_choice that names no tool (with ``{name}``), None to take it for auto.
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
    unknown_tool: str | None
    flags: tuple[str, ...] = ()
