"""An agent session's messages while they are written, sized token by token as they grow."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from workloads import agent_talk
from workloads.plan import ChatPrompt, Json, Message, ToolCall
from workloads.text import CountTokens, cut_to_tokens, message_tokens, paragraphs, tools_tokens
from workloads.tool_output import TOOL_OUTPUTS

SHORTEST_RESULT_TOKENS = 8
# A text may miss its length by this share where the count is costly, so that long ones are cut once or twice.
FIT_SHARE = 0.01
CLEARED = "[old tool result cleared] "


class Transcript:
    """Messages in order and the tokens of the whole; `tools` may be called."""

    def __init__(
        self,
        rng: random.Random,
        system: Message,
        tools: Sequence[agent_talk.Tool],
        shared_tokens: int,
        count: CountTokens,
    ) -> None:
        self._rng = rng
        self._tools = tools
        self._definitions = tuple(tool.definition() for tool in tools)
        self._shared_tokens = shared_tokens
        self._count = count
        self._messages = [system]
        self._called: tuple[agent_talk.Tool, str] | None = None
        self.tokens = shared_tokens

    @property
    def length(self) -> int:
        """Messages so far."""
        return len(self._messages)

    def prompt(self) -> ChatPrompt:
        """All messages so far, with the tools' definitions."""
        return ChatPrompt(messages=tuple(self._messages), tools=self._definitions)

    def answer(self, next_kind: str, tokens: int) -> None:
        """The assistant's turn of about `tokens` tokens: a tool call before a "tool" step, else a closing word."""
        calls: tuple[ToolCall, ...] = ()
        if next_kind == "tool":
            tool = self._rng.choice(self._tools)
            call_id = f"call_{self._rng.getrandbits(36):09x}"
            call = ToolCall(call_id=call_id, name=tool.name, arguments=tool.arguments(self._rng))
            said, calls = agent_talk.remark(self._rng), (call,)
            self._called = tool, call_id
        else:
            said = agent_talk.closing(self._rng)
            self._called = None
        least = message_tokens(Message(role="assistant", content=said, tool_calls=calls), self._count)
        if tokens - least > SHORTEST_RESULT_TOKENS:
            said = f"{said} {self._text(paragraphs, tokens - least)}"
        self._add(Message(role="assistant", content=said, tool_calls=calls))

    def bring(self, kind: str, tokens: int) -> None:
        """What comes back: the called tool's result, or the user's next words, of about `tokens` tokens."""
        if kind == "tool":
            assert self._called is not None, "a tool result needs the call before it"
            tool, call_id = self._called
            text = self._text(TOOL_OUTPUTS[tool.output], max(SHORTEST_RESULT_TOKENS, tokens))
            self._add(Message(role="tool", content=text, tool_call_id=call_id))
            return
        task = agent_talk.task(self._rng)
        rest = tokens - self._count(task)
        if rest > SHORTEST_RESULT_TOKENS:
            pasted = TOOL_OUTPUTS[self._rng.choice(agent_talk.PASTED)]
            task = f"{task}\n\n{self._text(pasted, rest)}"
        self._add(Message(role="user", content=task))

    def clear(self, tokens: int) -> bool:
        """Take about `tokens` tokens out of the oldest tool results; False, and nothing done, if there are fewer."""
        chosen: dict[int, Message] = {}
        left = tokens
        for at, message in enumerate(self._messages):
            if left <= 0:
                break
            if message.role == "tool" and message.content is not None and len(message.content) > len(CLEARED):
                size = message_tokens(message, self._count)
                kept = round(len(message.content) * max(0.0, 1 - left / size))
                chosen[at] = replace(message, content=CLEARED + message.content[len(message.content) - kept :])
                left -= size - message_tokens(chosen[at], self._count)
        if left > max(SHORTEST_RESULT_TOKENS, FIT_SHARE * self.tokens):
            return False
        for at, message in chosen.items():
            self.tokens += message_tokens(message, self._count) - message_tokens(self._messages[at], self._count)
            self._messages[at] = message
        return True

    def compact(self, tokens: int) -> None:
        """Replace everything but the system prompt by a summary, so that about `tokens` tokens are left."""
        del self._messages[1:]
        self._called = None
        self.tokens = self._shared_tokens
        head = agent_talk.SUMMARY_HEAD
        rest = tokens - self.tokens - self._count(head)
        told = self._text(agent_talk.recap, max(SHORTEST_RESULT_TOKENS, rest))
        self._add(Message(role="user", content=f"{head}\n{told}"))

    def _text(self, make: agent_talk.MakeText, tokens: int) -> str:
        return cut_to_tokens(lambda chars: make(self._rng, chars), tokens, self._count, round(FIT_SHARE * tokens))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self.tokens += message_tokens(message, self._count)


def definitions_tokens(tools: Sequence[agent_talk.Tool], count: CountTokens) -> int:
    """Tokens of the tools' definitions."""
    definitions: list[Mapping[str, Json]] = [tool.definition() for tool in tools]
    return tools_tokens(definitions, count)
