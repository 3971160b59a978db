"""The answer to one HTTP request, as it grows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from harness.reference.sampling import TokenLogprob
from harness.reference.scheduler.request import Delta, Finish, SpeculationCounts, Usage
from harness.reference.server.ask import Ask
from harness.reference.server.chat_text import ChatText, Splitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What every event of a reply repeats; ``created_s`` is the wall clock in whole seconds."""

    reply_id: str
    created_s: int
    ask: Ask


@dataclass(slots=True, kw_only=True)
class Call:
    """One tool call of an answer."""

    call_id: str
    name: str
    arguments: str = ""


@dataclass(slots=True, kw_only=True)
class Choice:
    """One answer of a reply and everything received of it; ``sent_chars`` and ``fresh`` tell the newest part apart.

    Only chat answers have a splitter, and with it reasoning, content and calls; ``think_end`` is the token that closes
    the reasoning, None when there is none.
    """

    index: int
    prompt: tuple[int, ...]
    splitter: Splitter | None = None
    think_end: int | None = None
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    fresh: ChatText = field(default_factory=ChatText)
    reasoning: str = ""
    content: str = ""
    calls: list[Call] = field(default_factory=list)
    reasoning_tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    finish: Finish | None = None
    usage: Usage | None = None
    newest: Delta | None = None
    sent_chars: int = 0
    events: int = 0

    def add(self, delta: Delta) -> None:
        """Takes in one delta."""
        self.sent_chars = len(self.text)
        self.tokens += delta.tokens
        self.text += delta.text
        self.logprobs += delta.logprobs
        if delta.prompt_logprobs is not None:
            self.prompt_logprobs = delta.prompt_logprobs
        self.finish, self.usage, self.newest = delta.finish, delta.usage, delta
        self.events += 1
        if self.splitter is not None:
            self._split(self.splitter, delta)

    def _split(self, splitter: Splitter, delta: Delta) -> None:
        self._count_reasoning(delta)
        self.fresh = splitter.push(delta.text, last=delta.finish is not None)
        self.reasoning += self.fresh.reasoning
        self.content += self.fresh.content
        for call in self.fresh.calls:
            if call.name is not None:
                self.calls.append(Call(call_id=f"call_{uuid.uuid4().hex[:24]}", name=call.name))
            self.calls[call.index].arguments += call.arguments

    def _count_reasoning(self, delta: Delta) -> None:
        """Counts the tokens before the one that closes the reasoning."""
        for token in delta.tokens if self.think_end is not None else ():
            if token == self.think_end:
                self.think_end = None
                return
            self.reasoning_tokens += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Token counts of a whole reply: each prompt once, every answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    host_tokens: int
    created_tokens: int
    reasoning_tokens: int

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
        reasoning_tokens=sum(choice.reasoning_tokens for choice in choices),
    )


def speculation(choices: list[Choice]) -> SpeculationCounts | None:
    """Drafting counts of a reply with one choice, None for several."""
    if len(choices) != 1 or choices[0].usage is None:
        return None
    return choices[0].usage.speculation
