"""The answer to one HTTP request, as it grows."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.reference.sampling import TokenLogprob
from harness.reference.scheduler.request import Delta, Finish, SpeculationCounts, Usage
from harness.reference.server.ask import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What every event of a reply repeats; ``created_s`` is the wall clock in whole seconds."""

    reply_id: str
    created_s: int
    ask: Ask


@dataclass(slots=True, kw_only=True)
class Choice:
    """One answer of a reply and everything received of it; ``sent_chars`` and ``sent_tokens`` leave out the newest."""

    index: int
    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    finish: Finish | None = None
    usage: Usage | None = None
    newest: Delta | None = None
    sent_chars: int = 0
    sent_tokens: int = 0
    events: int = 0

    def add(self, delta: Delta) -> None:
        """Takes in one delta."""
        self.sent_chars, self.sent_tokens = len(self.text), len(self.tokens)
        self.tokens += delta.tokens
        self.text += delta.text
        self.logprobs += delta.logprobs
        if delta.prompt_logprobs is not None:
            self.prompt_logprobs = delta.prompt_logprobs
        self.finish, self.usage, self.newest = delta.finish, delta.usage, delta
        self.events += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Token counts of a whole reply: each prompt once, every answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    host_tokens: int
    created_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and answer."""
        return self.prompt_tokens + self.completion_tokens


def totals(ask: Ask, choices: list[Choice]) -> Totals:
    """Sums over a reply's choices, which come ``ask.n`` to a prompt."""
    firsts = [choice.usage for choice in choices[:: ask.n] if choice.usage is not None]
    return Totals(
        prompt_tokens=ask.prompt_tokens,
        completion_tokens=sum(len(choice.tokens) for choice in choices),
        cached_tokens=sum(usage.cached_tokens for usage in firsts),
        host_tokens=sum(usage.host_tokens for usage in firsts),
        created_tokens=sum(usage.created_tokens for usage in firsts),
    )


def speculation(choices: list[Choice]) -> SpeculationCounts | None:
    """Drafting counts of a reply with one choice, None for several."""
    if len(choices) != 1 or choices[0].usage is None:
        return None
    return choices[0].usage.speculation
